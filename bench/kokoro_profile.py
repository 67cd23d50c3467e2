"""Where does the embedded voice's time go, what do settings change, and how many streams are carried?

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

from bench import results
from bench.kokoro_quality import ORDINARY, speak
from bench.results import Bar, Bars, Cell, Result, Table
from realtime_tts.clock import Clock, MonotonicClock
from realtime_tts.engine.api import SynthesisRequest
from realtime_tts.engine.models import kokoro
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
from realtime_tts.engine.stage import Model, StageInput

Array = npt.NDArray[np.float32]
Feed = dict[str, npt.NDArray[Any]]

VOICE = "af_heart"
WINDOW_FRAMES = (8, 25, 53, 73, 120, 200)
_LISTED = 15
"""Operators, the largest first."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a session is loaded with; the defaults are the server's, but for the threads."""

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
    feed |= {PHASE: harmonic_phases(frames), NORMS: style.norms}
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
    frames = model.stages[0].run([StageInput(request)])[0].values.astype(np.float32)
    model.stages[0].release(request.request_id)
    return frames


# -- Measuring ---------------------------------------------------------------------------------------------------------


def alternate(ways: dict[str, Callable[[], object]], rounds: int, clock: Clock) -> dict[str, list[float]]:
    """Seconds of each way in each round, in turns, after a round that warms up."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, way in ways.items():
            began_s = clock.now_s()
            way()
            if number:
                taken[name].append(clock.now_s() - began_s)
    return taken


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
            yield Table(f"{name}: {title}", ("", "ms", "%"), rows, note=f"{total_ms:.0f} ms in all, one thread")


def comparison(title: str, taken: dict[str, list[float]], frames: dict[str, int]) -> Table:
    """Milliseconds a frame of each way, and how many times as quick as the first it is."""
    first_s, *_ = (statistics.median(each) / frames[name] for name, each in taken.items())
    rows: list[tuple[Cell, ...]] = []
    for name, each in taken.items():
        frame_s = statistics.median(each) / frames[name]
        rows.append(
            (name, round(frame_s * 1000, 2), round(min(each) / frames[name] * 1000, 2), round(first_s / frame_s, 2))
        )
    return Table(title, ("", "ms a frame, median", "least", "times as quick"), tuple(rows))


def settings_table(path: Path, names: Sequence[str], feed: Feed, frames: int, rounds: int, clock: Clock) -> Table:
    ways = {name: _runner(SETTINGS[name].load(path), feed) for name in names}
    return comparison("Settings, rewritten", alternate(ways, rounds, clock), dict.fromkeys(ways, frames))


def windows_table(graphs: dict[str, Path], frames: Array, style: Style, rounds: int, clock: Clock) -> Table:
    """What a frame costs in windows of several lengths, in turns."""
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
    chunk = kokoro.CHUNK_PLAN.cut(decoded=8, frames=min(12, len(frames) - 8), available=len(frames), complete=True)
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
    """Saturated, one sentence after the other: the seconds of sound made in a second are the streams carried."""

    whole: float
    """By the undivided exported graph."""
    streamed: float
    """By both stages, in the server's chunks.  The same sentences: what is trimmed from their start counts as made."""
    ratio: float
    """The median over rounds, each of which has both."""
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

    taken = alternate({"whole": speak_whole, "streamed": speak_streamed}, rounds, clock)
    audio_s = samples / SAMPLE_RATE_HZ
    return Streams(
        whole=audio_s / statistics.median(taken["whole"]),
        streamed=audio_s / statistics.median(taken["streamed"]),
        ratio=statistics.median(theirs / ours for theirs, ours in zip(taken["whole"], taken["streamed"], strict=True)),
        first_audio_ms=statistics.median(first_s) * 1000,
    )


def streams_table(measured: Streams) -> Table:
    first_ms, ratio = round(measured.first_audio_ms), round(measured.ratio, 2)
    rows = (
        ("whole sentences, exported graph", round(measured.whole, 2), None, 1.0),
        ("streamed, as the server", round(measured.streamed, 2), first_ms, ratio),
    )
    return Table("Streams at saturation", ("", "realtime streams", "first audio, ms", "times as many"), rows)


# -- Command -----------------------------------------------------------------------------------------------------------


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.kokoro_profile", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--streams", action="store_true", help="only streamed against whole sentences, with --threads")
    parser.add_argument("--threads", type=int, default=2, help="of --streams, for both (default: 2)")
    parser.add_argument("--rounds", type=int, default=5, help="of every comparison (default: 5)")
    parser.add_argument("--frames", type=int, default=73, help="a window's, 40 a second (default: 73)")
    parser.add_argument("--model-dir", type=Path, help="other weights: a directory with model.onnx")
    parser.add_argument("--json", type=Path, help="also write tables and plots here")
    parser.add_argument("--smoke", action="store_true", help="one round of a few frames: does it run?")
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
        print_table(table)
        tables.append(table)
    if args.json:
        args.json.write_bytes(results.dumps(as_result(tables, args, arguments)))
    return 0


def print_table(table: Table) -> None:
    print(f"\n{table.title}{f' ({table.note})' if table.note else ''}")
    width = max(len(str(row[0])) for row in table.rows)
    print(" " * width, *(f"{column:>20}" for column in table.columns[1:]))
    for name, *cells in table.rows:
        print(f"{name!s:{width}}", *(f"{'-' if cell is None else cell:>20}" for cell in cells), flush=True)


def as_result(tables: Sequence[Table], args: argparse.Namespace, arguments: Sequence[str] | None) -> Result:
    _, streams, first_ms, ratio = tables[-1].rows[-1]
    bars = tuple(
        Bars(table.title, "ms", tuple(Bar(str(name), float(ms or 0)) for name, ms, *_ in table.rows))
        for table in tables
        if table.title.endswith(": parts")
    )
    return Result(
        bench="bench.kokoro_profile",
        title="Where does the embedded voice's time go?",
        headline=f"{streams} streams, {ratio} times as many as with whole sentences; first audio {first_ms} ms.",
        conditions=results.conditions("bench.kokoro_profile", arguments)
        | {"threads": str(args.threads), "rounds": str(args.rounds), "voice": VOICE},
        tables=tuple(tables),
        bars=bars,
    )


if __name__ == "__main__":
    sys.exit(main())
