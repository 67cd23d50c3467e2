"""Comparison of our Qwen3-TTS with the reference on the same weights: first audio, real-time factor, throughput.

    python -m bench.qwen3_tts_vs_reference --reference-python path/to/its/venv/bin/python

Writes a random model of the given size, runs ours and the reference (PyPI `qwen-tts`, in a process of its own, loaded
once) alternately, and reports medians.  Ours is the Talker and Code2Wav in a loop with continuous batching, without a
server; the reference is its `generate_custom_voice`, with a list of texts for a batch.  The reference returns no audio
before all of it is generated, so its first audio is its end.
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
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np
import torch

from bench import results
from bench.qwen3_tts_flops import flops_per_frame
from bench.qwen3_tts_ours import LANGUAGE, SAMPLE_RATE_HZ, SPEAKER, Ours, Timing
from bench.qwen3_tts_weights import SIZES, write_model
from bench.results import Result, Table, conditions
from realtime_tts.engine.models.qwen3_tts.codec_config import CodecDecoderConfig
from realtime_tts.engine.models.qwen3_tts.config import (
    ModelConfig,
    StackConfig,
    TalkerConfig,
)

WORKER = Path(__file__).parent / "qwen3_tts_reference.py"
TEXT = "hello the world hello the world hello the world"
FRAME_S = 0.08
BATCH = 4
CONTEXT_FRAMES = 25
"""Frames that the reference decodes again before each window (chunked_decode, left_context_size)."""
WINDOWED_CHUNKS = (1, 2, 4, 8, 25)
TTFP_TARGET, RTF_TARGET, THROUGHPUT_TARGET, FLOPS_TARGET = 10.0, 1.0, 2.0, 3.0


class Reference:
    """The reference in its process."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process, self._requests, self._answers = process, process.stdin, process.stdout
        self.versions: dict[str, str] = json.loads(self._line())

    def speak(self, texts: Sequence[str], frames: int, seed: int, wave: Path | None = None) -> Timing:
        """As Ours.speak, but one generator draws for all rows.  Writes the first text's audio to the file `wave`."""
        request = {"texts": list(texts), "speaker": SPEAKER, "language": LANGUAGE, "frames": frames, "seed": seed}
        self._requests.write(json.dumps(request | {"wave": str(wave or "")}) + "\n")
        self._requests.flush()
        answer = json.loads(self._line())
        if set(answer["samples"]) != {round(frames * FRAME_S * SAMPLE_RATE_HZ)}:
            raise SystemExit(f"the reference did not speak {frames} frames: {answer['samples']} samples")
        audio_s = sum(answer["samples"]) / SAMPLE_RATE_HZ
        return Timing(answer["wall_s"], answer["cpu_s"], answer["wall_s"], audio_s)

    def _line(self) -> str:
        if line := self._answers.readline():
            return line
        raise SystemExit(f"the reference's process ended (exit status {self._process.wait()}); see its output above")


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
    """Processor seconds per second of audio, which other processes on the machine disturb less."""
    batch_throughput: float
    batch_ttfp_s: float


def side(alone: Sequence[Timing], together: Sequence[Timing]) -> Side:
    def median(timings: Sequence[Timing], value: Callable[[Timing], float]) -> float:
        return statistics.median(map(value, timings))

    return Side(
        ttfp_s=median(alone, lambda timing: timing.first_s),
        rtf=median(alone, lambda timing: timing.rtf),
        cpu_rtf=median(alone, lambda timing: timing.cpu_rtf),
        batch_throughput=median(together, lambda timing: timing.throughput),
        batch_ttfp_s=median(together, lambda timing: timing.first_s),
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
    """Each as the factor by which ours is better."""
    return [
        Target("first audio at c=1, times sooner", theirs.ttfp_s / ours.ttfp_s, TTFP_TARGET),
        Target("RTF at c=1, times less", theirs.rtf / ours.rtf, RTF_TARGET),
        Target(
            f"throughput at c={BATCH}, times more", ours.batch_throughput / theirs.batch_throughput, THROUGHPUT_TARGET
        ),
        Target(
            "FLOPs per frame at chunks of up to 4, times fewer",
            min(saved_flops(decoder, chunk) for chunk in (1, 2, 3, 4)),
            FLOPS_TARGET,
        ),
    ]


def saved_flops(decoder: CodecDecoderConfig, chunk: int) -> float:
    return flops_per_frame(decoder, chunk, CONTEXT_FRAMES) / flops_per_frame(decoder, chunk)


def step_bytes(config: TalkerConfig, bytes_per_value: int) -> int:
    """Bytes of the weights that one step of the Talker reads, those of the predictor once for each code that it draws.

    The caches of keys and values and the rows of embeddings are negligible at c=1.
    """
    own = config.code_predictor_config
    draws = own.num_code_groups - 1
    predictor = draws * (_stack_values(own) + own.vocab_size * own.hidden_size)
    if own.hidden_size != config.hidden_size:
        predictor += (draws + 1) * own.hidden_size * config.hidden_size
    talker = _stack_values(config) + config.vocab_size * config.hidden_size
    return (talker + predictor) * bytes_per_value


def _stack_values(config: StackConfig) -> int:
    heads = 2 * config.num_attention_heads + 2 * config.num_key_value_heads
    layer = config.hidden_size * (heads * config.head_dim + 3 * config.intermediate_size)
    return config.num_hidden_layers * layer


def bandwidth_bytes_per_s(device: torch.device, megabytes: int) -> float:
    """Reads and writes together, in copies of a tensor larger than any cache; the best of five."""
    source = torch.ones(megabytes * 250_000, device=device)
    target = torch.empty_like(source)
    best_s = float("inf")
    for _ in range(6):  # the first also allocates the pages
        started_s = time.perf_counter()
        target.copy_(source)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        best_s = min(best_s, time.perf_counter() - started_s)
    return 2 * source.nbytes / best_s


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the Talker at c=1, compared with the memory that it reads."""

    bytes_read: int
    median_s: float
    bandwidth_bytes_per_s: float

    @property
    def share(self) -> float:
        return self.bytes_read / self.median_s / self.bandwidth_bytes_per_s


@dataclass(frozen=True, slots=True)
class Parity:
    """Difference of ours from the reference on one request with the same seed."""

    peak_difference: float
    peak: float


@dataclass(frozen=True, slots=True)
class Report:
    conditions: dict[str, str]
    ours: Side
    step: Step
    flops_per_frame: dict[int, tuple[float, float]]
    """By the frames of a chunk: with state, and windowed."""
    reference: Side | None = None
    parity: Parity | None = None
    targets: list[Target] = field(default_factory=list)


def measure(args: argparse.Namespace, directory: Path) -> Report:
    device = torch.device(args.device)
    torch.set_num_threads(args.threads)
    ours = Ours(directory, BATCH, device, vars(torch)[args.dtype], args.first_frames, args.chunk)
    conditions = described(args, ours.config)
    ours.speak([TEXT] * BATCH, args.frames, 0)  # warm-up
    if args.reference_python is None:
        alone = [ours.speak([TEXT], args.frames, number)[0] for number in range(args.rounds)]
        together = [ours.speak([TEXT] * BATCH, args.frames, number)[0] for number in range(args.rounds)]
        return Report(conditions, side(alone, together), _step(args, ours, device), _flops(ours.decoder.config))
    with reference(args.reference_python, directory, args.threads, args.device, args.dtype) as theirs:
        conditions |= {f"reference's {name}": value for name, value in theirs.versions.items()}
        parity = compared(ours, theirs, args.frames, directory / "reference.npy")
        mine, other = alternately(ours, theirs, args.frames, args.rounds)
    return Report(
        conditions,
        mine,
        _step(args, ours, device),
        _flops(ours.decoder.config),
        other,
        parity,
        targets(mine, other, ours.decoder.config),
    )


def compared(ours: Ours, theirs: Reference, frames: int, path: Path) -> Parity:
    """Our whole audio at c=1 compared with theirs."""
    theirs.speak([TEXT], frames, 1, path)
    expected = np.load(path)
    _, (wave,) = ours.speak([TEXT], frames, 1)
    return Parity(float(np.abs(wave - expected).max()), float(np.abs(expected).max()))


def alternately(ours: Ours, theirs: Reference, frames: int, rounds: int) -> tuple[Side, Side]:
    """Alone and as a batch; the order changes with each round."""
    mine: tuple[list[Timing], list[Timing]] = ([], [])
    other: tuple[list[Timing], list[Timing]] = ([], [])
    for number in range(rounds):
        for kind, texts in enumerate(([TEXT], [TEXT] * BATCH)):
            for ours_now in (True, False) if number % 2 else (False, True):
                if ours_now:
                    mine[kind].append(ours.speak(texts, frames, number)[0])
                else:
                    other[kind].append(theirs.speak(texts, frames, number))
    return side(*mine), side(*other)


def _step(args: argparse.Namespace, ours: Ours, device: torch.device) -> Step:
    ours.steps_s.clear()
    ours.speak([TEXT], args.frames, 0)
    size = vars(torch)[args.dtype].itemsize
    read = step_bytes(ours.config.talker_config, size)
    return Step(read, statistics.median(ours.steps_s), bandwidth_bytes_per_s(device, args.copy_megabytes))


def _flops(decoder: CodecDecoderConfig) -> dict[int, tuple[float, float]]:
    return {n: (flops_per_frame(decoder, n), flops_per_frame(decoder, n, CONTEXT_FRAMES)) for n in WINDOWED_CHUNKS}


def described(args: argparse.Namespace, config: ModelConfig) -> dict[str, str]:
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


def print_report(report: Report) -> None:
    for name, value in report.conditions.items():
        print(f"{name:28} {value}")
    print(f"\n{'medians':12} {'first audio':>12} {'RTF c=1':>8} {'CPU s/s':>8} {f'c={BATCH} s/s':>8} {'first':>10}")
    for name, one in (("ours", report.ours), ("reference", report.reference)):
        if one is None:
            print("reference    not measured: set --reference-python")
            continue
        print(
            f"{name:12} {one.ttfp_s * 1e3:9.0f} ms {one.rtf:8.3f} {one.cpu_rtf:8.3f} {one.batch_throughput:8.3f}"
            f" {one.batch_ttfp_s * 1e3:7.0f} ms"
        )
    step = report.step
    print(
        f"\na step of the Talker reads {step.bytes_read / 1e6:.0f} MB in {step.median_s * 1e3:.1f} ms:"
        f" {step.share:.0%} of the {step.bandwidth_bytes_per_s / 1e9:.1f} GB/s of a large copy"
        " (weights in a cache can make it more than 100%)"
    )
    for chunk, (stateful, windowed) in report.flops_per_frame.items():
        print(
            f"decoding {chunk:2} frames: {stateful / 1e9:.2f} GFLOP per frame with state, {windowed / 1e9:.2f} with"
            f" {CONTEXT_FRAMES} frames of context: {windowed / stateful:.1f} times"
        )
    if report.parity is not None:
        print(f"the same seed's audio differs by {report.parity.peak_difference:.1e}, peak {report.parity.peak:.2f}")
    for target in report.targets:
        print(f"{'met   ' if target.met else 'MISSED'} {target.name}: {target.value:.2f} (>= {target.at_least:g})")


def as_result(report: Report) -> Result:
    """The report as a result of `bench.report`."""
    sides = [("ours", report.ours)] + ([("reference", report.reference)] if report.reference else [])
    rows = tuple(
        (name, one.ttfp_s * 1000, one.rtf, one.cpu_rtf, one.batch_throughput, one.batch_ttfp_s * 1000)
        for name, one in sides
    )
    columns = ("medians", "first audio, ms", "RTF", "CPU, s/s", f"c={BATCH}, s/s", f"c={BATCH}, first audio, ms")
    targets = tuple((one.name, one.value, one.at_least, "met" if one.met else "MISSED") for one in report.targets)
    tables = [Table("The same requests, alternately", columns, rows)]
    tables += [Table("Targets", ("ours by theirs", "measured", "at least", ""), targets)] if targets else []
    notes = [
        f"a step of the Talker at c=1 reads {report.step.bytes_read / 1e6:.0f} MB at {report.step.share:.0%} of the"
        f" {report.step.bandwidth_bytes_per_s / 1e9:.1f} GB/s of a large copy"
    ]
    if (parity := report.parity) is not None:
        notes.append(f"the same seed's audio differs by {parity.peak_difference:.1e}, its peak is {parity.peak:.2f}")
    return Result(
        bench="bench.qwen3_tts_vs_reference",
        title="Our Qwen3-TTS compared with the reference",
        headline=f"{sum(one.met for one in report.targets)} of {len(report.targets)} targets met"
        if report.targets
        else "the reference was not measured",
        conditions=report.conditions,
        tables=tuple(tables),
        notes=tuple(notes),
    )


def positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"must be positive, got {number}")
    return number


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.qwen3_tts_vs_reference",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--reference-python", type=Path, help="without it only ours is measured")
    parser.add_argument("--size", choices=tuple(SIZES), default="half", help="of the model (default: half)")
    parser.add_argument("--frames", type=positive, default=50, help="of each request, 80 ms each (default: 50)")
    parser.add_argument("--rounds", type=positive, default=5)
    parser.add_argument("--threads", type=positive, default=2, help="of torch, on either side (default: 2)")
    parser.add_argument("--first-frames", type=positive, default=2, help="in our first packet (default: 2)")
    parser.add_argument("--chunk", type=positive, default=8, help="frames in our later packets (default: 8)")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32", help="of the Talker")
    parser.add_argument("--copy-megabytes", type=positive, default=400, help="copied to measure the memory")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    parser.add_argument("--result", type=Path, help="and here, for bench.report")
    parsed = parser.parse_args(arguments)
    parsed.given = sys.argv[1:] if arguments is None else list(arguments)
    return parsed


def main(arguments: Sequence[str] | None = None) -> int:
    args = parse(arguments)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name) / "model"
        write_model(directory, SIZES[args.size])
        report = measure(args, directory)
    print_report(report)
    if args.json:
        args.json.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n")
    if args.result:
        args.result.write_bytes(results.dumps(as_result(report)))
    return 0 if all(target.met for target in report.targets) else 1


if __name__ == "__main__":
    sys.exit(main())
