"""Our Qwen3-TTS against the reference, in one run on the same weights: first sound, real-time factor, throughput.

    python -m bench.qwen3_tts_vs_reference --reference-python path/to/its/venv/bin/python

Writes a random model of a size that this machine carries, then lets ours and the reference (PyPI `qwen-tts`, in a
process of its own, loaded once) speak in turns, and takes medians.  Ours is the Talker and Code2Wav in a small loop
with continuous batching, without a server; the reference is its `generate_custom_voice`, a list of texts for a batch.
The reference gives no sound before all of it is made, so its first sound is its end.
"""

import argparse
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
import torch

from bench.qwen3_tts_weights import SIZES, write_model
from bench.results import conditions
from realtime_tts.engine.models.qwen3_tts.checkpoint import Checkpoint
from realtime_tts.engine.models.qwen3_tts.code2wav import Code2Wav, flops_per_frame
from realtime_tts.engine.models.qwen3_tts.codec_config import CodecConfig, CodecDecoderConfig
from realtime_tts.engine.models.qwen3_tts.config import (
    ModelConfig,
    StackConfig,
    TalkerConfig,
    read_config,
    read_generation_config,
    read_json,
)
from realtime_tts.engine.models.qwen3_tts.prompt import PromptBuilder, Speech
from realtime_tts.engine.models.qwen3_tts.sampling import CodeSampling, published_sampling
from realtime_tts.engine.models.qwen3_tts.talker import State, Talker, load_weights
from realtime_tts.engine.models.qwen3_tts.tokenizer import load_tokenizer

WORKER = Path(__file__).parent / "qwen3_tts_reference.py"
SPEAKER, LANGUAGE = "vivian", "english"
TEXT = "hello the world hello the world hello the world"
SAMPLE_RATE_HZ = 24_000
FRAME_S = 0.08
BATCH = 4
CONTEXT_FRAMES = 25
"""What the reference decodes again before each window (chunked_decode, left_context_size)."""
WINDOWED_CHUNKS = (1, 2, 4, 8, 25)
TTFP_TARGET, RTF_TARGET, THROUGHPUT_TARGET, FLOPS_TARGET = 10.0, 1.0, 2.0, 3.0

Wave = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Take:
    """What one side did with some requests at once.  Seconds are of the wall, but for `cpu_s`, of all threads."""

    wall_s: float
    cpu_s: float
    first_s: float
    """To the first sound, the worst of the requests."""
    audio_s: float

    @property
    def rtf(self) -> float:
        """Seconds to make a second of sound."""
        return self.wall_s / self.audio_s

    @property
    def throughput(self) -> float:
        """Seconds of sound in a second."""
        return self.audio_s / self.wall_s

    @property
    def cpu_rtf(self) -> float:
        return self.cpu_s / self.audio_s


@dataclass(slots=True)
class _Request:
    slot: int
    decoder_slot: int
    pending: list[npt.NDArray[np.int64]] = field(default_factory=list)
    wave: list[Wave] = field(default_factory=list)
    first_s: float | None = None


class Ours:
    """The Talker and Code2Wav of a directory, for up to `slots` requests."""

    def __init__(
        self, directory: Path, slots: int, device: torch.device, dtype: torch.dtype, first_frames: int, chunk: int
    ) -> None:
        self.config = read_config(directory)
        self.decoder = load_decoder(directory, slots, device)
        self._first_frames, self._chunk = first_frames, chunk
        with Checkpoint(directory, device, dtype) as checkpoint:
            weights = load_weights(checkpoint, self.config.talker_config)
        self._prompts = PromptBuilder(self.config, load_tokenizer(directory, self.config), weights.embeddings)
        self._sampling = read_generation_config(directory)
        self._talker = Talker(
            self.config.talker_config,
            weights,
            slots=slots,
            max_len=2048,
            text_pad_id=self.config.tts_pad_token_id,
        )
        self.steps_s: list[float] = []
        """How long each step of the Talker took, of one row or more, since it was last cleared."""

    def speak(self, texts: Sequence[str], frames: int, seed: int) -> tuple[Take, list[Wave]]:
        """All of the texts come now, and each is spoken for so many frames.  Row i is drawn with `seed` + i."""
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        waiting = [(text, published_sampling(self._sampling, seed + row)) for row, text in enumerate(texts)]
        done: list[_Request] = []
        active: list[_Request] = []
        while waiting or active:
            while waiting and self._talker.free_slots:
                active.append(self._join(*waiting.pop(0)))
                done.append(active[-1])
            self._advance(active, frames, began_s=wall_s)
            for request in [request for request in active if self._talker.frames(request.slot) == frames]:
                self._leave(request)
                active.remove(request)
        wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
        waves = [np.concatenate(request.wave) for request in done]
        first_s = max(request.first_s or wall_s for request in done)
        return Take(wall_s, cpu_s, first_s, sum(map(len, waves)) / SAMPLE_RATE_HZ), waves

    def _join(self, text: str, sampling: CodeSampling) -> _Request:
        prompt = self._prompts.build(Speech(text, LANGUAGE, SPEAKER, text_first=True))
        return _Request(self._talker.join(prompt, sampling), self.decoder.arena.acquire())

    def _leave(self, request: _Request) -> None:
        self._talker.release(request.slot)
        self.decoder.arena.release(request.decoder_slot)

    def _advance(self, active: Sequence[_Request], frames: int, *, began_s: float) -> None:
        """A chunk of prefill for whoever needs it, a frame for all others, and sound where a chunk of it is full."""
        talker = self._talker
        if unread := [request.slot for request in active if talker.state(request.slot) is State.PREFILL]:
            talker.prefill(unread)
        ready = [request for request in active if talker.state(request.slot) is State.READY]
        before_s = time.perf_counter()
        step = talker.step([request.slot for request in ready])
        self.steps_s.append(time.perf_counter() - before_s)
        assert not any(step.ended), "this model cannot end by itself"
        for request, codes in zip(ready, step.codes, strict=True):
            request.pending.append(codes)
        self._decode([request for request in ready if self._is_due(request, frames)])
        for request in ready:
            if request.wave and request.first_s is None:
                request.first_s = time.perf_counter() - began_s

    def _is_due(self, request: _Request, frames: int) -> bool:
        size = self._chunk if request.wave else self._first_frames
        return len(request.pending) >= size or self._talker.frames(request.slot) == frames

    def _decode(self, due: Sequence[_Request]) -> None:
        slots = [request.decoder_slot for request in due]
        for request, wave in zip(due, self.decoder.decode(slots, [np.stack(r.pending) for r in due]), strict=True):
            request.wave.append(wave)
            request.pending.clear()


def load_decoder(directory: Path, slots: int, device: torch.device) -> Code2Wav:
    folder = directory / "speech_tokenizer"
    config = read_json(folder / "config.json", CodecConfig).decoder_config
    with Checkpoint(folder, device, torch.float32) as checkpoint:
        state = checkpoint.take_all("decoder.")
        checkpoint.take_all("encoder.")
    return Code2Wav.from_state(config, state, device, slots)


class Reference:
    """The reference in its process."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process, self._requests, self._answers = process, process.stdin, process.stdout
        self.versions: dict[str, str] = json.loads(self._line())

    def speak(self, texts: Sequence[str], frames: int, seed: int, wave: Path | None = None) -> Take:
        """As Ours.speak, but one generator draws for all rows.  The first text's sound goes into the file `wave`."""
        request = {"texts": list(texts), "speaker": SPEAKER, "language": LANGUAGE, "frames": frames, "seed": seed}
        self._requests.write(json.dumps(request | {"wave": str(wave or "")}) + "\n")
        self._requests.flush()
        answer = json.loads(self._line())
        if set(answer["samples"]) != {round(frames * FRAME_S * SAMPLE_RATE_HZ)}:
            raise SystemExit(f"the reference did not speak {frames} frames: {answer['samples']} samples")
        audio_s = sum(answer["samples"]) / SAMPLE_RATE_HZ
        return Take(answer["wall_s"], answer["cpu_s"], answer["wall_s"], audio_s)

    def _line(self) -> str:
        if line := self._answers.readline():
            return line
        raise SystemExit(f"the reference's process ended (exit status {self._process.wait()}); it says why above")


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
    """Processor seconds for a second of sound: what others on the machine disturb less."""
    batch_throughput: float
    batch_ttfp_s: float


def side(alone: Sequence[Take], together: Sequence[Take]) -> Side:
    def median(takes: Sequence[Take], value: Callable[[Take], float]) -> float:
        return statistics.median(map(value, takes))

    return Side(
        ttfp_s=median(alone, lambda take: take.first_s),
        rtf=median(alone, lambda take: take.rtf),
        cpu_rtf=median(alone, lambda take: take.cpu_rtf),
        batch_throughput=median(together, lambda take: take.throughput),
        batch_ttfp_s=median(together, lambda take: take.first_s),
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
    """All as how many times better ours is."""
    return [
        Target("first sound at c=1, times sooner", theirs.ttfp_s / ours.ttfp_s, TTFP_TARGET),
        Target("RTF at c=1, times less", theirs.rtf / ours.rtf, RTF_TARGET),
        Target(
            f"throughput at c={BATCH}, times more", ours.batch_throughput / theirs.batch_throughput, THROUGHPUT_TARGET
        ),
        Target(
            "FLOPs a frame at chunks of up to 4, times fewer",
            min(saved_flops(decoder, chunk) for chunk in (1, 2, 3, 4)),
            FLOPS_TARGET,
        ),
    ]


def saved_flops(decoder: CodecDecoderConfig, chunk: int) -> float:
    return flops_per_frame(decoder, chunk, CONTEXT_FRAMES) / flops_per_frame(decoder, chunk)


def step_bytes(config: TalkerConfig, bytes_per_number: int) -> int:
    """What the weights weigh that one step of the Talker reads, the predictor's once for each code it draws.

    The caches of keys and values, and the rows that are looked up, are next to nothing beside them at c=1.
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
    """Of reads and writes together, in copies of a tensor too large for any cache; the best of five."""
    source = torch.ones(megabytes * 250_000, device=device)
    target = torch.empty_like(source)
    best_s = float("inf")
    for _ in range(6):  # the first also makes the pages
        began_s = time.perf_counter()
        target.copy_(source)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        best_s = min(best_s, time.perf_counter() - began_s)
    return 2 * source.nbytes / best_s


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the Talker at c=1, against the memory that it has to read."""

    bytes_read: int
    median_s: float
    bandwidth_bytes_per_s: float

    @property
    def share(self) -> float:
        return self.bytes_read / self.median_s / self.bandwidth_bytes_per_s


@dataclass(frozen=True, slots=True)
class Parity:
    """Ours against the reference on one request, drawn with the same seed."""

    peak_difference: float
    peak: float


@dataclass(frozen=True, slots=True)
class Report:
    conditions: dict[str, str]
    ours: Side
    step: Step
    flops_per_frame: dict[int, tuple[float, float]]
    """By the chunk's frames: with a state, and windowed."""
    reference: Side | None = None
    parity: Parity | None = None
    targets: list[Target] = field(default_factory=list)


def measure(args: argparse.Namespace, directory: Path) -> Report:
    device = torch.device(args.device)
    torch.set_num_threads(args.threads)
    ours = Ours(directory, BATCH, device, vars(torch)[args.dtype], args.first_frames, args.chunk)
    told = described(args, ours.config)
    ours.speak([TEXT] * BATCH, args.frames, 0)  # warm
    if args.reference_python is None:
        takes = [(ours.speak([TEXT], args.frames, n)[0], _batch(ours, args.frames, n)) for n in range(args.rounds)]
        alone, together = zip(*takes, strict=True)
        return Report(told, side(alone, together), _step(args, ours, device), _flops(ours.decoder.config))
    with reference(args.reference_python, directory, args.threads, args.device, args.dtype) as theirs:
        told |= {f"reference's {name}": value for name, value in theirs.versions.items()}
        parity = compared(ours, theirs, args.frames, directory / "reference.npy")
        mine, other = in_turns(ours, theirs, args.frames, args.rounds)
    return Report(
        told,
        mine,
        _step(args, ours, device),
        _flops(ours.decoder.config),
        other,
        parity,
        targets(mine, other, ours.decoder.config),
    )


def compared(ours: Ours, theirs: Reference, frames: int, path: Path) -> Parity:
    """Our whole sound at c=1 against theirs."""
    theirs.speak([TEXT], frames, 1, path)
    expected = np.load(path)
    _, (wave,) = ours.speak([TEXT], frames, 1)
    return Parity(float(np.abs(wave - expected).max()), float(np.abs(expected).max()))


def in_turns(ours: Ours, theirs: Reference, frames: int, rounds: int) -> tuple[Side, Side]:
    """Alone and as a batch; who goes first changes with each round."""
    mine: tuple[list[Take], list[Take]] = ([], [])
    other: tuple[list[Take], list[Take]] = ([], [])
    for number in range(rounds):
        for kind, texts in enumerate(([TEXT], [TEXT] * BATCH)):
            turns = [
                lambda texts=texts, kind=kind: mine[kind].append(ours.speak(texts, frames, number)[0]),
                lambda texts=texts, kind=kind: other[kind].append(theirs.speak(texts, frames, number)),
            ]
            for turn in turns[:: 1 if number % 2 else -1]:
                turn()
    return side(*mine), side(*other)
