"""Qwen3-Omni compared with transformers, on a tiny model with random weights.

    python -m bench.qwen3_omni_vs_reference --reference-python path/to/its/venv/bin/python

Both answer the same conversation, greedily, with the same numbers of tokens and frames: alone, and four at once, which
the reference generates as one batch.  The reference does not stream: its first audio is its whole audio.  A tiny model
costs little but calls, so the factors say nothing of the published sizes.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from bench import options, outputs
from bench.options import positive_int
from bench.results import Result, Table, conditions
from bench.tables import as_text
from realtime_tts.clock import MonotonicClock
from realtime_tts.engine import models
from realtime_tts.engine.answers import AnswerEngine
from realtime_tts.engine.api import (
    AnswerRequest,
    AudioReady,
    EngineEvent,
    RequestFinished,
    Role,
    Sampling,
    SubmitAnswer,
    TextPart,
    TextSampling,
    Turn,
)
from realtime_tts.engine.config import EngineConfig
from realtime_tts.engine.executors.engine_thread import EngineThread
from realtime_tts.engine.models.qwen3_omni.code2wav import START_SILENCE_SAMPLES
from realtime_tts.engine.stage import Model
from realtime_tts.engine.thinking.thinker import Answering
from realtime_tts.engine.thinking.worker import ThinkerWorker
from tests.engine.models.qwen3_omni.make_checkpoint import make_checkpoint

WORKER = Path(__file__).parent / "qwen3_omni_reference.py"
TURNS = (Turn(Role.USER, (TextPart("how are you today?"),)),)
BATCH = 4
SAMPLE_RATE_HZ, SAMPLES_PER_FRAME = 24_000, 1920
SHORT_SHARE = 2
"""The long answer has so many times the tokens and frames of the short one."""
ALL_AT_ONCE = EngineConfig(scheduler="policy_c", max_wait_s=None)
"""Admits all: a busy machine is no realtime one, and would be given one listener at a time."""
TTFP_TARGET, THROUGHPUT_TARGET, LENGTH_TARGET = 5.0, 2.0, 0.8


@dataclass(frozen=True, slots=True)
class Length:
    tokens: int
    frames: int


@dataclass(frozen=True, slots=True)
class Timing:
    """Answers that were asked at once."""

    first_s: float
    """Until the first audio, of the one that waited longest."""
    wall_s: float
    cpu_s: float
    audio_s: float

    @property
    def cpu_rtf(self) -> float:
        """CPU seconds per second of audio: less affected by other processes."""
        return self.cpu_s / self.audio_s

    @property
    def throughput(self) -> float:
        """Seconds of audio per second."""
        return self.audio_s / self.wall_s


class Ours:
    """An answer engine, with the model's stages and its Thinker in threads of their own."""

    def __init__(self, engine: AnswerEngine) -> None:
        self._engine = engine
        self._clock = MonotonicClock()
        self._asked = 0

    async def answer(self, count: int, length: Length) -> tuple[Timing, npt.NDArray[np.float32]]:
        """The timing of so many answers, and the samples of the first."""
        started_s, cpu_s = self._clock.now_s(), time.process_time()
        answers = [_Answer(self._clock) for _ in range(count)]
        for answer in answers:
            self._asked += 1
            self._engine.send(SubmitAnswer(_request(f"r{self._asked}", length)), answer.receive)
        for answer in answers:
            await answer.ended.wait()
        wall_s, cpu_s = self._clock.now_s() - started_s, time.process_time() - cpu_s
        firsts_s = [answer.first_s - started_s for answer in answers]
        samples = sum(len(part) for answer in answers for part in answer.parts)
        timing = Timing(max(firsts_s), wall_s, cpu_s, samples / SAMPLE_RATE_HZ)
        _check_samples(len(np.concatenate(answers[0].parts)), length)
        return timing, np.concatenate(answers[0].parts)


class _Answer:
    """What one listener receives."""

    def __init__(self, clock: MonotonicClock) -> None:
        self._clock = clock
        self.parts: list[npt.NDArray[np.float32]] = []
        self.first_s = 0.0
        self.ended = asyncio.Event()

    def receive(self, event: EngineEvent) -> None:
        if isinstance(event, AudioReady):
            if not self.parts:
                self.first_s = self._clock.now_s()
            self.parts.append(event.samples)
        elif isinstance(event, RequestFinished):
            self.ended.set()


def _request(name: str, length: Length) -> AnswerRequest:
    return AnswerRequest(
        name,
        name,
        TURNS,
        "ethan",
        text_sampling=TextSampling(max_tokens=length.tokens),
        sampling=Sampling(temperature=0.0, max_new_tokens=length.frames + 1),
    )


def _check_samples(samples: int, length: Length) -> None:
    if samples != length.frames * SAMPLES_PER_FRAME:
        raise SystemExit(f"an answer has {samples} samples, not those of {length.frames} frames: it ended by itself")


def answering_of(model: Model) -> Answering:
    assert model.answering is not None, "Qwen3-Omni answers conversations"
    return model.answering


@asynccontextmanager
async def our_engine(model: Model) -> AsyncIterator[Ours]:
    clock, config = MonotonicClock(), ALL_AT_ONCE
    speech = EngineThread(model, clock, config=config)
    speech.start()
    answering = answering_of(model)
    thinker = ThinkerWorker(answering.make_thinker, clock, model.info.frame_s)
    engine = AnswerEngine(thinker, speech, answering.chat, clock, config=config)
    await engine.start()
    try:
        yield Ours(engine)
    finally:
        await engine.stop()
        await speech.stop()


class Reference:
    """The process of the reference."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._requests, self._answers, self._process = process.stdin, process.stdout, process
        self.versions: dict[str, str] = json.loads(self._line())

    def answer(self, prompts: Sequence[Sequence[int]], length: Length, wave: Path | None = None) -> Timing:
        request = {"prompts": [list(ids) for ids in prompts], "tokens": length.tokens, "frames": length.frames}
        self._requests.write(json.dumps(request | {"wave": str(wave or "")}) + "\n")
        self._requests.flush()
        answer = json.loads(self._line())
        for samples in answer["samples"]:
            _check_samples(samples + START_SILENCE_SAMPLES, length)
        wall_s = answer["wall_s"]
        return Timing(wall_s, wall_s, answer["cpu_s"], sum(answer["samples"]) / SAMPLE_RATE_HZ)

    def _line(self) -> str:
        if line := self._answers.readline():
            return line
        raise SystemExit(f"the process of the reference ended (exit status {self._process.wait()}); see above")


@contextmanager
def reference(python: Path, directory: Path, threads: int) -> Iterator[Reference]:
    command = [str(python), str(WORKER), str(directory), str(threads)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Reference(process)
        finally:
            process.kill()


@dataclass(frozen=True, slots=True)
class Side:
    """Medians of one implementation."""

    first_s: float
    short_first_s: float
    wall_s: float
    batch_first_s: float
    batch_throughput: float
    batch_cpu_rtf: float


@dataclass(frozen=True, slots=True)
class Timings:
    alone: list[Timing]
    short: list[Timing]
    together: list[Timing]

    @property
    def side(self) -> Side:
        return Side(
            first_s=statistics.median(each.first_s for each in self.alone),
            short_first_s=statistics.median(each.first_s for each in self.short),
            wall_s=statistics.median(each.wall_s for each in self.alone),
            batch_first_s=statistics.median(each.first_s for each in self.together),
            batch_throughput=statistics.median(each.throughput for each in self.together),
            batch_cpu_rtf=statistics.median(each.cpu_rtf for each in self.together),
        )


@dataclass(frozen=True, slots=True)
class Target:
    name: str
    value: float
    at_least: float

    @property
    def met(self) -> bool:
        return self.value >= self.at_least


def targets(ours: Side, theirs: Side | None) -> list[Target]:
    found = [
        Target(
            "first audio of a long answer, as soon as of a short one", ours.short_first_s / ours.first_s, LENGTH_TARGET
        )
    ]
    if theirs is not None:
        found.append(Target("first audio at c=1, times sooner", theirs.first_s / ours.first_s, TTFP_TARGET))
        ratio = ours.batch_throughput / theirs.batch_throughput
        found.append(Target(f"throughput at c={BATCH}, times higher", ratio, THROUGHPUT_TARGET))
    return found


async def measure(args: argparse.Namespace, directory: Path) -> tuple[Result, list[Target]]:
    torch.set_num_threads(args.threads)
    long = Length(args.tokens, args.frames)
    short = Length(max(1, args.tokens // SHORT_SHARE), max(2, args.frames // SHORT_SHARE))
    model = models.build("qwen3_omni", model_dir=directory, slots=BATCH, predictor_kv="cache", max_len=1024)
    ids = answering_of(model).chat.prompt(TURNS, spoken=True).thinker.ids
    described = conditions("bench.qwen3_omni_vs_reference", args.given) | {
        "torch": str(torch.__version__),
        "device": f"cpu, float32, {args.threads} threads on either side",
        "answers": f"{long.tokens} tokens and {long.frames} frames, or {short.tokens} and {short.frames}; greedy",
        "rounds": str(args.rounds),
    }
    mine, other = Timings([], [], []), Timings([], [], [])
    parity = None
    async with our_engine(model) as ours:
        await ours.answer(BATCH, short)  # warm-up
        if args.reference_python is None:
            for _ in range(args.rounds):
                await _measure_ours(ours, mine, long, short)
        else:
            with reference(args.reference_python, directory, args.threads) as theirs:
                described |= {f"reference's {name}": value for name, value in theirs.versions.items()}
                parity = await _compare(ours, theirs, ids, long, directory / "reference.npy")
                for _ in range(args.rounds):
                    _measure_theirs(theirs, other, ids, long, short)
                    await _measure_ours(ours, mine, long, short)
    sides = {"ours": mine.side} | ({"reference": other.side} if other.alone else {})
    met = targets(sides["ours"], sides.get("reference"))
    return result_of(described, sides, parity, met), met


async def _measure_ours(ours: Ours, into: Timings, long: Length, short: Length) -> None:
    into.alone.append((await ours.answer(1, long))[0])
    into.short.append((await ours.answer(1, short))[0])
    into.together.append((await ours.answer(BATCH, long))[0])


def _measure_theirs(theirs: Reference, into: Timings, ids: Sequence[int], long: Length, short: Length) -> None:
    into.alone.append(theirs.answer([ids], long))
    into.short.append(theirs.answer([ids], short))
    into.together.append(theirs.answer([ids] * BATCH, long))


async def _compare(ours: Ours, theirs: Reference, ids: Sequence[int], length: Length, path: Path) -> float:
    """The largest difference of a sample."""
    theirs.answer([ids], length, path)
    expected = np.load(path)
    _timing, samples = await ours.answer(1, length)
    return float(np.abs(samples[START_SILENCE_SAMPLES:] - expected).max())


def result_of(described: dict[str, str], sides: dict[str, Side], parity: float | None, met: Sequence[Target]) -> Result:
    rows = tuple(
        (
            name,
            one.first_s * 1000,
            one.short_first_s * 1000,
            one.wall_s * 1000,
            one.batch_first_s * 1000,
            one.batch_throughput,
            one.batch_cpu_rtf,
        )
        for name, one in sides.items()
    )
    columns = (
        "medians",
        "first audio, ms",
        "short answer, ms",
        "whole, ms",
        f"c={BATCH}, first, ms",
        f"c={BATCH}, s/s",
        f"c={BATCH}, CPU, s/s",
    )
    listed = tuple((one.name, one.value, one.at_least, "met" if one.met else "MISSED") for one in met)
    return Result(
        bench="bench.qwen3_omni_vs_reference",
        title="Qwen3-Omni compared with transformers",
        headline=f"{sum(one.met for one in met)} of {len(met)} targets met",
        conditions=described,
        tables=(
            Table("The same answers, in alternation", columns, rows),
            Table("Targets", ("ours compared with the reference", "measured", "at least", ""), listed),
        ),
        notes=() if parity is None else (f"The audio differs by at most {parity:.1e}.",),
    )


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = options.make_parser("bench.qwen3_omni_vs_reference", __doc__)
    parser.add_argument("--reference-python", type=Path, help="without it only ours is measured")
    parser.add_argument("--tokens", type=positive_int, default=48, help="of each answer")
    parser.add_argument("--frames", type=positive_int, default=100, help="of each answer, 80 ms each")
    parser.add_argument("--rounds", type=positive_int, default=5, help="in alternation")
    parser.add_argument("--threads", type=positive_int, default=1, help="of torch, on both sides")
    outputs.add_outputs(parser)
    parsed = parser.parse_args(arguments)
    parsed.given = arguments
    return parsed


def main(arguments: Sequence[str] | None = None) -> int:
    args = parse(arguments)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name) / "model"
        make_checkpoint(directory)
        result, met = asyncio.run(measure(args, directory))
    for name, value in result.conditions.items():
        print(f"{name:28} {value}")
    print(f"\n{as_text(result)}")
    outputs.write_outputs(args, [result])
    return 0 if all(target.met for target in met) else 1


if __name__ == "__main__":
    sys.exit(main())
