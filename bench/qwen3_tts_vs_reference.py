"""Our Qwen3-TTS compared with the reference on the same weights: first audio, real-time factor, throughput.

    python -m bench.qwen3_tts_vs_reference --reference-python path/to/its/venv/bin/python

Writes a random model of a size that this machine can run, lets ours and the reference (PyPI `qwen-tts`, in a process
of its own, loaded once) speak in alternation, and reports medians.  Ours is the Talker and Code2Wav in a small loop
with continuous batching, without a server; the reference is its `generate_custom_voice`, with a list of texts as a
batch.
The reference returns no audio before all of it is made, so its first audio is its end.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from bench import options, outputs
from bench.options import positive_int
from bench.qwen3_tts_flops import flops_per_frame
from bench.qwen3_tts_ours import LANGUAGE, SAMPLE_RATE_HZ, SPEAKER, BatchTiming, Ours
from bench.qwen3_tts_weights import SIZES, write_model
from bench.results import Result, Table, conditions
from bench.tables import as_text
from realtime_tts.engine.models.qwen3.config import StackConfig
from realtime_tts.engine.models.qwen3_tts.codec_config import CodecDecoderConfig
from realtime_tts.engine.models.qwen3_tts.config import ModelConfig, TalkerConfig

WORKER = Path(__file__).parent / "qwen3_tts_reference.py"
TEXT = "hello the world hello the world hello the world"
FRAME_S = 0.08
BATCH = 4
CONTEXT_FRAMES = 25
"""Frames that the reference decodes again before each window (chunked_decode, left_context_size)."""
WINDOWED_CHUNKS = (1, 2, 4, 8, 25)
TTFP_TARGET, RTF_TARGET, THROUGHPUT_TARGET, FLOPS_TARGET = 10.0, 1.0, 2.0, 3.0


class Reference:
    """The process of the reference."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process, self._requests, self._answers = process, process.stdin, process.stdout
        self.versions: dict[str, str] = json.loads(self._line())

    def speak(self, texts: Sequence[str], frames: int, seed: int, wave: Path | None = None) -> BatchTiming:
        """As Ours.speak, but with one random generator for all rows.  Writes the first text's audio to `wave`."""
        request = {"texts": list(texts), "speaker": SPEAKER, "language": LANGUAGE, "frames": frames, "seed": seed}
        self._requests.write(json.dumps(request | {"wave": str(wave or "")}) + "\n")
        self._requests.flush()
        answer = json.loads(self._line())
        if set(answer["samples"]) != {round(frames * FRAME_S * SAMPLE_RATE_HZ)}:
            raise SystemExit(f"the reference did not speak {frames} frames: {answer['samples']} samples")
        audio_s = sum(answer["samples"]) / SAMPLE_RATE_HZ
        return BatchTiming(answer["wall_s"], answer["cpu_s"], answer["wall_s"], audio_s)

    def _line(self) -> str:
        if line := self._answers.readline():
            return line
        raise SystemExit(
            f"the process of the reference ended (exit status {self._process.wait()}); the reason is above"
        )


@contextmanager
def reference(python: Path, directory: Path, threads: int, device: str, dtype: str) -> Iterator[Reference]:
    command = [str(python), str(WORKER), str(directory), str(threads), device, dtype]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Reference(process)
        finally:
            process.kill()


@dataclass(frozen=True, slots=True)
class Side:
    """Medians of one implementation."""

    ttfp_s: float
    rtf: float
    cpu_rtf: float
    """CPU seconds per second of audio: less affected by other processes."""
    batch_throughput: float
    batch_ttfp_s: float


def side(alone: Sequence[BatchTiming], together: Sequence[BatchTiming]) -> Side:
    def median(timings: Sequence[BatchTiming], value: Callable[[BatchTiming], float]) -> float:
        return statistics.median(map(value, timings))

    return Side(
        ttfp_s=median(alone, lambda times: times.first_s),
        rtf=median(alone, lambda times: times.rtf),
        cpu_rtf=median(alone, lambda times: times.cpu_rtf),
        batch_throughput=median(together, lambda times: times.throughput),
        batch_ttfp_s=median(together, lambda times: times.first_s),
    )


@dataclass(frozen=True, slots=True)
class Target:
    name: str
    value: float
    at_least: float

    @property
    def met(self) -> bool:
        return self.value >= self.at_least


def targets(ours: Side, theirs: Side, decoder: CodecDecoderConfig) -> list[Target]:
    """All as factors by which ours is better."""
    return [
        Target("first audio at c=1, times sooner", theirs.ttfp_s / ours.ttfp_s, TTFP_TARGET),
        Target("RTF at c=1, times lower", theirs.rtf / ours.rtf, RTF_TARGET),
        Target(
            f"throughput at c={BATCH}, times higher", ours.batch_throughput / theirs.batch_throughput, THROUGHPUT_TARGET
        ),
        Target(
            "FLOPs per frame at chunks of up to 4, times fewer",
            min(saved_flops(decoder, chunk) for chunk in (1, 2, 3, 4)),
            FLOPS_TARGET,
        ),
    ]


def saved_flops(decoder: CodecDecoderConfig, chunk: int) -> float:
    return flops_per_frame(decoder, chunk, CONTEXT_FRAMES) / flops_per_frame(decoder, chunk)


def step_bytes(config: TalkerConfig, bytes_per_number: int) -> int:
    """Bytes of weights that one step of the Talker reads; those of the predictor once for each code.

    At c=1 the caches of keys and values and the embedding rows are negligible.
    """
    own = config.code_predictor_config
    draws = own.num_code_groups - 1
    predictor = draws * (_stack_numbers(own) + own.vocab_size * own.hidden_size)
    if own.hidden_size != config.hidden_size:
        predictor += (draws + 1) * own.hidden_size * config.hidden_size
    talker = _stack_numbers(config) + config.vocab_size * config.hidden_size
    return (talker + predictor) * bytes_per_number


def _stack_numbers(config: StackConfig) -> int:
    heads = 2 * config.num_attention_heads + 2 * config.num_key_value_heads
    layer = config.hidden_size * (heads * config.head_dim + 3 * config.intermediate_size)
    return config.num_hidden_layers * layer


def bandwidth_bytes_per_s(device: torch.device, megabytes: int) -> float:
    """Of reads and writes together, when copying a tensor larger than any cache; the best of five."""
    source = torch.ones(megabytes * 250_000, device=device)
    target = torch.empty_like(source)
    best_s = float("inf")
    for _ in range(6):  # the first also allocates the pages
        start_s = time.perf_counter()
        target.copy_(source)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        best_s = min(best_s, time.perf_counter() - start_s)
    return 2 * source.nbytes / best_s


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the Talker at c=1, compared with the memory bandwidth."""

    bytes_read: int
    median_s: float
    bandwidth_bytes_per_s: float

    @property
    def share(self) -> float:
        return self.bytes_read / self.median_s / self.bandwidth_bytes_per_s


@dataclass(frozen=True, slots=True)
class Parity:
    """Ours compared with the reference on one request with the same seed."""

    peak_difference: float
    peak: float


def measure(args: argparse.Namespace, directory: Path) -> tuple[Result, list[Target]]:
    device = torch.device(args.device)
    torch.set_num_threads(args.threads)
    ours = Ours(directory, BATCH, device, vars(torch)[args.dtype], args.first_frames, args.chunk)
    described = conditions_of(args, ours.config)
    ours.speak([TEXT] * BATCH, args.frames, 0)  # warm-up
    if args.reference_python is None:
        alone = [ours.speak([TEXT], args.frames, number)[0] for number in range(args.rounds)]
        together = [ours.speak([TEXT] * BATCH, args.frames, number)[0] for number in range(args.rounds)]
        sides, parity, met = {"ours": side(alone, together)}, None, []
    else:
        with reference(args.reference_python, directory, args.threads, args.device, args.dtype) as theirs:
            described |= {f"reference's {name}": value for name, value in theirs.versions.items()}
            parity = compared(ours, theirs, args.frames, directory / "reference.npy")
            mine, other = alternate(ours, theirs, args.frames, args.rounds)
        sides, met = {"ours": mine, "reference": other}, targets(mine, other, ours.decoder_config)
    step = measure_step(args, ours, device)
    return result_of(described, sides, step, ours.decoder_config, parity, met), met


def compared(ours: Ours, theirs: Reference, frames: int, path: Path) -> Parity:
    """Our complete audio at c=1 compared with theirs."""
    theirs.speak([TEXT], frames, 1, path)
    expected = np.load(path)
    _, (wave,) = ours.speak([TEXT], frames, 1)
    return Parity(float(np.abs(wave - expected).max()), float(np.abs(expected).max()))


def alternate(ours: Ours, theirs: Reference, frames: int, rounds: int) -> tuple[Side, Side]:
    """Single requests and batches; the order changes with each round."""
    mine: tuple[list[BatchTiming], list[BatchTiming]] = ([], [])
    other: tuple[list[BatchTiming], list[BatchTiming]] = ([], [])
    for number in range(rounds):
        for kind, texts in enumerate(([TEXT], [TEXT] * BATCH)):
            for ours_now in (True, False) if number % 2 else (False, True):
                if ours_now:
                    mine[kind].append(ours.speak(texts, frames, number)[0])
                else:
                    other[kind].append(theirs.speak(texts, frames, number))
    return side(*mine), side(*other)


def measure_step(args: argparse.Namespace, ours: Ours, device: torch.device) -> Step:
    ours.steps_s.clear()
    ours.speak([TEXT], args.frames, 0)
    size = vars(torch)[args.dtype].itemsize
    read = step_bytes(ours.config.talker_config, size)
    return Step(read, statistics.median(ours.steps_s), bandwidth_bytes_per_s(device, args.copy_megabytes))


def conditions_of(args: argparse.Namespace, config: ModelConfig) -> dict[str, str]:
    talker = config.talker_config
    device = torch.cuda.get_device_name(args.device) if args.device.startswith("cuda") else "cpu"
    return conditions("bench.qwen3_tts_vs_reference", args.given) | {
        "torch": str(torch.__version__),
        "device": f"{device}, {args.dtype}, {args.threads} threads on either side",
        "model": f"{args.size}, random: {talker.num_hidden_layers} layers of {talker.hidden_size}, and a predictor of"
        f" {talker.code_predictor_config.num_hidden_layers}",
        "requests": f"{args.frames} frames each, {args.rounds} rounds; published sampling",
        "chunks": f"{args.first_frames} frames, then {args.chunk}",
    }


def result_of(
    described: dict[str, str],
    sides: dict[str, Side],
    step: Step,
    decoder: CodecDecoderConfig,
    parity: Parity | None,
    met: Sequence[Target],
) -> Result:
    medians = tuple(
        (name, one.ttfp_s * 1000, one.rtf, one.cpu_rtf, one.batch_throughput, one.batch_ttfp_s * 1000)
        for name, one in sides.items()
    )
    columns = ("medians", "first audio, ms", "RTF", "CPU, s/s", f"c={BATCH}, s/s", f"c={BATCH}, first audio, ms")
    flops = tuple(
        (
            chunk,
            flops_per_frame(decoder, chunk) / 1e9,
            flops_per_frame(decoder, chunk, CONTEXT_FRAMES) / 1e9,
            saved_flops(decoder, chunk),
        )
        for chunk in WINDOWED_CHUNKS
    )
    tables = [
        Table("The same requests, in alternation", columns, medians),
        Table(
            "Decoding, GFLOP per frame",
            ("frames per chunk", "with state", f"with {CONTEXT_FRAMES} frames of context", "ratio"),
            flops,
        ),
    ]
    if met:
        rows = tuple((one.name, one.value, one.at_least, "met" if one.met else "MISSED") for one in met)
        tables.append(Table("Targets", ("ours compared with the reference", "measured", "at least", ""), rows))
    notes = [
        f"A step of the Talker at c=1 reads {step.bytes_read / 1e6:.0f} MB in {step.median_s * 1e3:.1f} ms:"
        f" {step.share:.0%} of the {step.bandwidth_bytes_per_s / 1e9:.1f} GB/s of a large copy"
        " (more than 100% if weights stay in a cache)."
    ]
    if parity is not None:
        notes.append(
            f"With the same seed the audio differs by at most {parity.peak_difference:.1e}; its peak is"
            f" {parity.peak:.2f}."
        )
    count = f"{sum(one.met for one in met)} of {len(met)} targets met"
    return Result(
        bench="bench.qwen3_tts_vs_reference",
        title="Qwen3-TTS compared with the reference",
        headline=count if met else "the reference was not measured: use --reference-python",
        conditions=described,
        tables=tuple(tables),
        notes=tuple(notes),
    )


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = options.make_parser("bench.qwen3_tts_vs_reference", __doc__)
    parser.add_argument("--reference-python", type=Path, help="without it only ours is measured")
    parser.add_argument("--size", choices=tuple(SIZES), default="half", help="of the model")
    parser.add_argument("--frames", type=positive_int, default=50, help="of each request, 80 ms each")
    parser.add_argument("--rounds", type=positive_int, default=5, help="in alternation")
    parser.add_argument("--threads", type=positive_int, default=2, help="of torch, on both sides")
    parser.add_argument("--first-frames", type=positive_int, default=2, help="in our first packet")
    parser.add_argument("--chunk", type=positive_int, default=8, help="frames in our later packets")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32", help="of the Talker")
    parser.add_argument("--copy-megabytes", type=positive_int, default=400, help="copied to measure the bandwidth")
    outputs.add_outputs(parser)
    parsed = parser.parse_args(arguments)
    parsed.given = arguments
    return parsed


def main(arguments: Sequence[str] | None = None) -> int:
    args = parse(arguments)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name) / "model"
        write_model(directory, SIZES[args.size])
        result, met = measure(args, directory)
    for name, value in result.conditions.items():
        print(f"{name:28} {value}")
    print(f"\n{as_text(result)}")
    outputs.write_outputs(args, [result])
    return 0 if all(target.met for target in met) else 1


if __name__ == "__main__":
    sys.exit(main())
