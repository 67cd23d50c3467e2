"""Profile of the embedded voice: time by operator and part, effect of settings and passes, streams at saturation.

    python -m bench.kokoro_profile
    python -m bench.kokoro_profile --streams
    python -m bench.kokoro_profile --json profile.json

Graphs of the same weights: `whole`, the exported model; `acoustic`, its first half; and its vocoder after each pass of
onnx_rewrite: `exported`, `streaming_inputs`, `generator`, and `rewritten`, which the server runs.  Every comparison
alternates and gives medians; ratios are to the first row of a table.  Let nothing else run.
"""

import argparse
import json
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime

from bench import options, outputs, results
from bench.kokoro_quality import ORDINARY, speak
from bench.results import Bar, Bars, Result, Table, Value
from bench.tables import table_text
from realtime_tts.clock import Clock, MonotonicClock
from realtime_tts.engine.api import SynthesisRequest
from realtime_tts.engine.models.kokoro import loading as kokoro
from realtime_tts.engine.models.kokoro.acoustic import text_inputs
from realtime_tts.engine.models.kokoro.frames import SAMPLE_RATE_HZ, harmonic_phases, unpack_frames
from realtime_tts.engine.models.kokoro.onnx_rewrite.generator import SPANS, rewrite_generator
from realtime_tts.engine.models.kokoro.onnx_rewrite.prepare_model import prepared_model, user_cache_dir
from realtime_tts.engine.models.kokoro.onnx_rewrite.split_graph import F0, NOISE, TEXT_FEATURES, extract_vocoder
from realtime_tts.engine.models.kokoro.onnx_rewrite.streaming_inputs import NORMS, PHASE, add_streaming_inputs
from realtime_tts.engine.models.kokoro.phonemes import Pronouncer
from realtime_tts.engine.models.kokoro.styles import Style, load_styles
from realtime_tts.engine.models.kokoro.vocoder import generator_spans
from realtime_tts.engine.models.kokoro.weights import find_weights
from realtime_tts.engine.stage import Model, StageInput, host_array

Array = npt.NDArray[np.float32]
Feed = dict[str, npt.NDArray[Any]]

VOICE = "af_heart"
WINDOW_FRAMES = (8, 25, 53, 73, 120, 200)
_LISTED = 15
"""Number of operators in a table, the largest first."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of an onnxruntime session; the defaults are those of the server, except for the threads."""

    threads: int = 1
    spinning: bool = False
    arena: bool = True
    memory_pattern: bool = False
    optimisation: str = "ALL"
    parallel_branches: bool = False

    def load(self, path: Path, *, profile: Path | None = None) -> Any:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = 1 if self.parallel_branches else self.threads
        options.inter_op_num_threads = self.threads if self.parallel_branches else 1
        if self.parallel_branches:
            options.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL
        for pool in ("intra_op", "inter_op"):
            options.add_session_config_entry(f"session.{pool}.allow_spinning", str(int(self.spinning)))
        options.enable_cpu_mem_arena = self.arena
        options.enable_mem_pattern = self.memory_pattern
        levels = onnxruntime.GraphOptimizationLevel
        options.graph_optimization_level = {
            "ALL": levels.ORT_ENABLE_ALL,
            "EXTENDED": levels.ORT_ENABLE_EXTENDED,
            "BASIC": levels.ORT_ENABLE_BASIC,
        }[self.optimisation]
        if profile:
            options.enable_profiling = True
            options.profile_file_prefix = str(profile)
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


SETTINGS = {
    "as the server": Settings(),
    "2 threads": Settings(threads=2),
    "2 threads, spinning": Settings(threads=2, spinning=True),
    "2 threads, branches in parallel": Settings(threads=2, parallel_branches=True),
    "no arena": Settings(arena=False),
    "memory patterns": Settings(memory_pattern=True),
    "extended optimisation": Settings(optimisation="EXTENDED"),
    "basic optimisation": Settings(optimisation="BASIC"),
}


GRAPHS = ("whole", "acoustic", "exported", "streaming_inputs", "generator", "rewritten")


def write_graphs(directory: Path, model_dir: Path | None) -> dict[str, Path]:
    """The same weights as files, by the names of GRAPHS."""
    weights = find_weights(model_dir)
    graphs = {name: directory / f"{name}.onnx" for name in GRAPHS}
    weights.write_to(graphs["whole"])
    vocoder = extract_vocoder(graphs["whole"], graphs["exported"])
    add_streaming_inputs(vocoder)
    onnx.save(vocoder, graphs["streaming_inputs"])
    rewrite_generator(vocoder)
    onnx.save(vocoder, graphs["generator"])
    with prepared_model(weights, user_cache_dir(), print) as prepared:
        graphs["acoustic"].write_bytes(prepared.acoustic.read_bytes())
        graphs["rewritten"].write_bytes(prepared.vocoder.read_bytes())
    return graphs


def vocoder_feed(frames: Array, style: Style) -> Feed:
    """All of these frames, for any of the vocoders."""
    features, f0, noise = unpack_frames(frames)
    row = int(frames[0, -1]) % 512
    feed: Feed = {TEXT_FEATURES: features, F0: f0, NOISE: noise, "style": style.row(row)}
    feed |= {PHASE: harmonic_phases(frames), NORMS: style.norms_of_row(row)}
    return feed | {SPANS: np.array([0, len(frames)] * 2, dtype=np.int64)}


def text_feed(text: str, style: Style) -> Feed:
    """For the acoustic graph and the whole model."""
    (piece,) = Pronouncer().read(text, ())
    return text_inputs(piece.tokens, style)


def only_inputs(session: Any, feed: Feed) -> Feed:
    wanted = {value.name for value in session.get_inputs()}
    return {name: value for name, value in feed.items() if name in wanted}


def make_frames(model: Model, text: str) -> Array:
    request = SynthesisRequest("profile", "profile", text, VOICE)
    stage = model.stage(model.specs[0].name)
    frames = host_array(stage.run([StageInput(request)])[0].values).astype(np.float32)
    stage.release(request.request_id)
    return frames


# -- Measuring ---------------------------------------------------------------------------------------------------------


def alternate(ways: dict[str, Callable[[], object]], rounds: int, clock: Clock) -> dict[str, list[float]]:
    """Seconds of each way in each round, in alternation, after a warm-up round."""
    durations_s: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, way in ways.items():
            start_s = clock.now_s()
            way()
            if number:
                durations_s[name].append(clock.now_s() - start_s)
    return durations_s


def profile(path: Path, feed: Feed, rounds: int) -> tuple[Counter[str], Counter[str]]:
    """Milliseconds of one run by operator and by part of the graph, on one thread."""
    with tempfile.TemporaryDirectory() as directory:
        session = Settings().load(path, profile=Path(directory) / "profile")
        mine = only_inputs(session, feed)
        for _ in range(rounds):
            session.run(None, mine)
        events = json.loads(Path(session.end_profiling()).read_text("utf-8"))
    operators: Counter[str] = Counter()
    parts: Counter[str] = Counter()
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            spent_ms = event["dur"] / 1000 / rounds
            operators[event["args"]["op_name"]] += spent_ms
            parts[part_of(event["name"])] += spent_ms
    return operators, parts


def part_of(node: str) -> str:
    """Which part of the model a node belongs to, by its name."""
    for mark, part in _PARTS.items():
        if mark in node:
            return part
    return "rest"


_PARTS = {
    "/encoder/": "acoustic",
    "noise_res": "blocks of the harmonics",
    "resblocks": "blocks of the sound",
    "noise_convs": "source",
    "m_source": "source",
    "f0_upsamp": "source",
    "source": "source",
    "ups": "upsampling",
    "istft": "last layers",
    "conv_post": "last layers",
    "last layers": "last layers",
    "decoder/encode": "decoder",
    "decoder/decode": "decoder",
    "asr_res": "decoder",
    "conv_to_matmul": "decoder",
}


def profile_tables(graphs: dict[str, Path], feed: Feed, rounds: int) -> Iterator[Table]:
    for name in ("acoustic", "streaming_inputs", "rewritten"):
        operators, parts = profile(graphs[name], feed, rounds)
        total_ms = operators.total()
        for title, spent in (("operators", operators), ("parts", parts)):
            rows = tuple((key, round(ms, 2), round(100 * ms / total_ms, 1)) for key, ms in spent.most_common(_LISTED))
            yield Table(f"{name}: {title}", ("", "ms", "%"), rows, note=f"{total_ms:.0f} ms in total, one thread")


def comparison(title: str, durations_s: dict[str, list[float]], frames: dict[str, int]) -> Table:
    """Milliseconds per frame of each way, and its speed relative to the first."""
    first_s, *_ = (statistics.median(each) / frames[name] for name, each in durations_s.items())
    rows: list[tuple[Value, ...]] = []
    for name, each in durations_s.items():
        frame_s = statistics.median(each) / frames[name]
        rows.append(
            (name, round(frame_s * 1000, 2), round(min(each) / frames[name] * 1000, 2), round(first_s / frame_s, 2))
        )
    return Table(title, ("", "ms per frame, median", "minimum", "relative speed"), tuple(rows))


def settings_table(path: Path, names: Sequence[str], feed: Feed, frames: int, rounds: int, clock: Clock) -> Table:
    ways = {name: _runner(SETTINGS[name].load(path), feed) for name in names}
    return comparison("Settings, rewritten", alternate(ways, rounds, clock), dict.fromkeys(ways, frames))


def windows_table(graphs: dict[str, Path], frames: Array, style: Style, rounds: int, clock: Clock) -> Table:
    """Time per frame in windows of several lengths, in alternation."""
    ways: dict[str, Callable[[], object]] = {}
    counts = {}
    sessions = {name: Settings().load(graphs[name]) for name in GRAPHS[2:]}
    for window in (frames[:count] for count in WINDOW_FRAMES if count <= len(frames)):
        for name, session in sessions.items():
            way = f"{name}, {len(window)} frames"
            ways[way], counts[way] = _runner(session, vocoder_feed(window, style)), len(window)
    return comparison("Windows, one thread", alternate(ways, rounds, clock), counts)


def context_table(path: Path, frames: Array, style: Style, rounds: int, clock: Clock) -> Table:
    """A chunk with its context: all of it decoded by every layer, and by each layer only what it uses (SPANS)."""
    chunk = kokoro.CHUNK_PLAN.chunk(decoded=8, frames=min(12, len(frames) - 8), available=len(frames), complete=True)
    session, feed = Settings().load(path), vocoder_feed(frames[: chunk.context_end], style)
    spans = generator_spans(chunk.start, chunk.end, chunk.context_end)
    ways = {"all context": _runner(session, feed), "spans": _runner(session, feed | {SPANS: spans})}
    title = f"Chunk of {chunk.frames} frames with context, rewritten, one thread"
    return comparison(title, alternate(ways, rounds, clock), dict.fromkeys(ways, chunk.frames))


def _runner(session: Any, feed: Feed) -> Callable[[], object]:
    mine = only_inputs(session, feed)
    return lambda: session.run(None, mine)


# -- Streams -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Streams:
    """At saturation, one sentence after the other: seconds of audio per second, which is the number of streams."""

    whole: float
    """By the undivided exported graph."""
    streamed: float
    """By both stages, in the server's chunks.  Counts the same audio: also the silence trimmed from its start."""
    ratio: float
    """Streamed to whole, the median over rounds."""
    first_audio_ms: float


def measure_streams(whole: Any, model: Model, texts: Sequence[str], rounds: int, clock: Clock) -> Streams:
    feeds = [text_feed(text, load_styles()[VOICE]) for text in texts]
    samples = 0
    first_s: list[float] = []

    def speak_whole() -> None:
        nonlocal samples
        samples = sum(whole.run(None, feed)[0].size for feed in feeds)

    def speak_streamed() -> None:
        first_s.extend(speak(model, text, VOICE, model.chunk_plan, clock).first_audio_s for text in texts)

    durations_s = alternate({"whole": speak_whole, "streamed": speak_streamed}, rounds, clock)
    audio_s = samples / SAMPLE_RATE_HZ
    return Streams(
        whole=audio_s / statistics.median(durations_s["whole"]),
        streamed=audio_s / statistics.median(durations_s["streamed"]),
        ratio=statistics.median(
            theirs / ours for theirs, ours in zip(durations_s["whole"], durations_s["streamed"], strict=True)
        ),
        first_audio_ms=statistics.median(first_s) * 1000,
    )


def streams_table(measured: Streams) -> Table:
    first_ms, ratio = round(measured.first_audio_ms), round(measured.ratio, 2)
    rows = (
        ("whole sentences, exported graph", round(measured.whole, 2), None, 1.0),
        ("streamed, as the server", round(measured.streamed, 2), first_ms, ratio),
    )
    return Table("Streams at saturation", ("", "realtime streams", "first audio, ms", "ratio"), rows)


# -- Command line ------------------------------------------------------------------------------------------------------


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = options.make_parser("bench.kokoro_profile", __doc__)
    parser.add_argument("--streams", action="store_true", help="only compare streamed with whole sentences")
    parser.add_argument("--threads", type=int, default=2, help="of the comparison with whole sentences, for both")
    parser.add_argument("--rounds", type=int, default=5, help="of every comparison")
    parser.add_argument("--frames", type=int, default=73, help="of a window, 40 per second")
    parser.add_argument("--model-dir", type=Path, help="other weights: a directory with model.onnx")
    parser.add_argument("--smoke", action="store_true", help="one round of a few frames, to check that it runs")
    outputs.add_outputs(parser)
    args = parser.parse_args(arguments)
    if args.smoke:
        args.rounds, args.frames = 1, 8
    return args


def measure(args: argparse.Namespace, clock: Clock) -> Iterator[Table]:
    texts = ORDINARY[1:2] if args.smoke else ORDINARY
    style = load_styles()[VOICE]
    with tempfile.TemporaryDirectory() as directory:
        graphs = write_graphs(Path(directory), args.model_dir)
        model = kokoro.build(threads=args.threads, model_dir=args.model_dir)
        if not args.streams:
            frames = make_frames(model, texts[0])
            window = frames[: args.frames]
            feed = vocoder_feed(window, style) | text_feed(texts[0], style)
            yield from profile_tables(graphs, feed, args.rounds)
            names = list(SETTINGS)[: 2 if args.smoke else None]
            yield settings_table(graphs["rewritten"], names, feed, len(window), args.rounds, clock)
            yield windows_table(graphs, window if args.smoke else frames, style, args.rounds, clock)
            yield context_table(graphs["rewritten"], frames, style, args.rounds, clock)
        whole = Settings(threads=args.threads).load(graphs["whole"])
        yield streams_table(measure_streams(whole, model, texts, args.rounds, clock))


def main(arguments: Sequence[str] | None = None) -> int:
    args = parse(arguments)
    tables = []
    for table in measure(args, MonotonicClock()):
        print(f"\n{table_text(table)}", flush=True)
        tables.append(table)
    outputs.write_outputs(args, [result_of(tables, args, arguments)])
    return 0


def result_of(tables: Sequence[Table], args: argparse.Namespace, arguments: Sequence[str] | None) -> Result:
    _, streams, first_ms, ratio = tables[-1].rows[-1]
    bars = tuple(
        Bars(table.title, "ms", tuple(Bar(str(name), float(ms or 0)) for name, ms, *_ in table.rows))
        for table in tables
        if table.title.endswith(": parts")
    )
    return Result(
        bench="bench.kokoro_profile",
        title="Profile of the embedded voice",
        headline=f"{streams} streams, {ratio} times those of whole sentences; first audio {first_ms} ms",
        conditions=results.conditions("bench.kokoro_profile", arguments)
        | {"threads": str(args.threads), "rounds": str(args.rounds), "voice": VOICE},
        tables=tuple(tables),
        bars=bars,
    )


if __name__ == "__main__":
    sys.exit(main())
