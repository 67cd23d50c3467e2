"""A test model with set costs: exact, deterministic, speech-shaped tones, for tests and for load without a GPU.

It has the shape of a codec language model: a Talker that makes one codec frame a step for every row of a batch, and a
Code2Wav that keeps state.  Its costs are waited, not burnt, so that a small machine can play a large one.
"""

import math
import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from realtime_tts.clock import sleep_s
from realtime_tts.engine.api import ModelInfo, Samples, SynthesisRequest, Voice, Word
from realtime_tts.engine.models.spec import ModelSpec
from realtime_tts.engine.scheduling.chunking import ChunkPlan
from realtime_tts.engine.scheduling.cost_model import LinearCost, PipelineCosts
from realtime_tts.engine.stage import Frames, Model, StageInput, StageOutput
from realtime_tts.errors import ModelNotUsable

SAMPLE_RATE_HZ = 24_000
SAMPLES_PER_FRAME = 1920
FRAMES_PER_CHARACTER = 0.8  # 15.6 characters a second: an ordinary pace of English speech
NUM_CODEBOOKS = 3  # pitch, timbre, loudness

VOICES = (Voice("tone_low", "en-US"), Voice("tone_high", "en-US"))


@dataclass(frozen=True, slots=True)
class ToneCosts:
    """Seconds that a step takes: Talker `a0 + b0·rows + prefill·new rows`, Code2Wav `a1 + b1·Σ (frames + context)`."""

    a0_s: float = 0.0
    b0_s: float = 0.0
    prefill_s: float = 0.0
    a1_s: float = 0.0
    b1_s: float = 0.0
    context_frames: int = 0
    """Frames that Code2Wav decodes again before each chunk; paid for, though this one needs none."""


PROFILES = {
    "free": (ToneCosts(), 64),
    "h20": (ToneCosts(0.011, 0.00035, 0.030, 0.015, 0.00130, context_frames=25), 1),
    "h200": (ToneCosts(0.009, 0.00103, 0.012, 0.008, 0.00025, context_frames=25), 4),
    "h200_stateful": (ToneCosts(0.009, 0.00103, 0.012, 0.004, 0.00012), 16),
    "graph": (ToneCosts(0.008, 0.00025, 0.005, 0.003, 0.00010), 16),
}
"""Costs and Code2Wav's batch of real devices, by public measurements: an H20 with voice clone (~25 audio-s/s), an H200
as vLLM-Omni has it (~69), the same with a vocoder that keeps state, and everything in CUDA graphs (~288)."""


def codes(request: SynthesisRequest) -> Frames:
    """All codec frames of a text, int64 (n, 3): a pure function of text, voice and speed.

    A frame depends on the text up to the last character that it speaks, so those of a beginning begin those of the
    whole.
    """
    count = max(1, round(len(request.text) * FRAMES_PER_CHARACTER / request.speed))
    digest, read = zlib.crc32(f"{request.voice}\0".encode()), 0
    frames = np.empty((count, NUM_CODEBOOKS), np.int64)
    for index in range(count):
        end = _characters_read(index, request.speed)
        digest = zlib.crc32(request.text[read:end].encode("utf-8", "replace") + b"\0", digest)
        read = end
        frames[index] = digest & 7, digest >> 3 & 3, digest >> 5 & 3
    frames[:, 0] += 8 * (request.voice == "tone_high")
    return frames


def _characters_read(index: int, speed: float) -> int:
    """How much of the text has been spoken at the end of a frame."""
    return math.ceil((index + 1) * speed / FRAMES_PER_CHARACTER)


def words(request: SynthesisRequest) -> tuple[Word, ...]:
    """When each word is heard: every character, spaces too, takes the same share of the sound."""
    length = len(request.text)
    duration_s = len(codes(request)) * SAMPLES_PER_FRAME / SAMPLE_RATE_HZ
    spans = (match.span() for match in re.finditer(r"\S+", request.text))
    return tuple(Word(start, end, duration_s * (start / length), duration_s * (end / length)) for start, end in spans)


def _waveforms() -> Samples:
    """One frame of sound for each (pitch, timbre), float32 (16, 4, 1920).

    Every pitch is a multiple of the frame rate, so each frame holds whole periods and joins the next without a click.
    """
    time_s = np.arange(SAMPLES_PER_FRAME) / SAMPLE_RATE_HZ
    harmonics = np.arange(1, 9)
    pitches_hz = 12.5 * np.arange(8, 24)
    partials = np.sin(2 * np.pi * pitches_hz[:, None, None] * harmonics[:, None] * time_s)
    formants = np.exp(-(((harmonics - np.array([1, 2, 3, 4])[:, None]) / 1.5) ** 2))
    weights = formants / formants.sum(axis=1, keepdims=True)
    return np.asarray(np.einsum("phn,th->ptn", partials, weights), np.float32)


_WAVEFORMS = _waveforms()
_LOUDNESS = np.array([0.05, 0.25, 0.4, 0.6], np.float32)
_RAMP = np.linspace(0.0, 1.0, SAMPLES_PER_FRAME, endpoint=False, dtype=np.float32)


def decode(frames: Frames, previous_loudness: float = 0.0) -> Samples:
    """Codec frames (n, 3) to float32 samples (n · 1920,), the loudness gliding from one frame to the next."""
    loudness = _LOUDNESS[frames[:, 2]]
    before = np.concatenate(([np.float32(previous_loudness)], loudness[:-1]))
    envelope = before[:, None] + (loudness - before)[:, None] * _RAMP
    return np.asarray(_WAVEFORMS[frames[:, 0], frames[:, 1]] * envelope, np.float32).reshape(-1)


def render(request: SynthesisRequest) -> Samples:
    """The whole sound of a request at once: what every way of streaming it must add up to."""
    return decode(codes(request))


@dataclass(slots=True)
class _Row:
    request: SynthesisRequest
    frames: Frames
    done: int = 0
    told: bool = False
    """Whether its words were told."""


class Talker:
    """One codec frame a step for each row; holds the rest of each request's frames, as a real one holds its KV."""

    name = "talker"

    def __init__(self, costs: ToneCosts, max_batch: int, lane: str, wait_s: Callable[[float], None]) -> None:
        self.lane = lane
        self.max_batch = max_batch
        self.slots: dict[str, _Row] = {}
        self._costs = costs
        self._wait_s = wait_s

    def run(self, batch: Sequence[StageInput]) -> Sequence[StageOutput]:
        new = sum(row.request.request_id not in self.slots for row in batch)
        self._wait_s(self._costs.a0_s + self._costs.b0_s * len(batch) + self._costs.prefill_s * new)
        return [self._step(row.request) for row in batch]

    def release(self, request_id: str) -> None:
        self.slots.pop(request_id, None)  # absent where `run` raised before this row

    def _step(self, request: SynthesisRequest) -> StageOutput:
        row = self.slots.get(request.request_id)
        if row is None:
            row = self.slots[request.request_id] = _Row(request, codes(request))
        elif row.request is not request:
            row.request, row.frames = request, codes(request)
        if not request.text_complete and _characters_read(row.done, request.speed) > len(request.text):
            return StageOutput(row.frames[:0], starved=True)
        told = words(request) if request.text_complete and not row.told else ()
        row.told |= request.text_complete
        frame = row.frames[row.done : row.done + 1]
        row.done += len(frame)
        return StageOutput(frame, finished=request.text_complete and row.done == len(row.frames), words=told)


class Code2Wav:
    """Decodes whatever frames it is given, remembering each request's last loudness."""

    name = "code2wav"

    def __init__(self, costs: ToneCosts, max_batch: int, lane: str, wait_s: Callable[[float], None]) -> None:
        self.lane = lane
        self.max_batch = max_batch
        self.slots: dict[str, float] = {}
        self._costs = costs
        self._wait_s = wait_s

    def run(self, batch: Sequence[StageInput]) -> Sequence[StageOutput]:
        frames = sum(len(row.frames) for row in batch if row.frames is not None)
        self._wait_s(self._costs.a1_s + self._costs.b1_s * frames)
        return [self._decode(row) for row in batch]

    def release(self, request_id: str) -> None:
        self.slots.pop(request_id, None)  # absent where `run` raised before this row

    def _decode(self, row: StageInput) -> StageOutput:
        assert row.frames is not None, "the last stage always gets frames"
        assert row.chunk is not None, "the last stage always gets a chunk"
        frames = row.frames[row.chunk.start - row.chunk.context_start :][: row.chunk.frames]
        samples = decode(frames, self.slots.get(row.request.request_id, 0.0))
        self.slots[row.request.request_id] = float(_LOUDNESS[frames[-1, 2]])
        return StageOutput(samples)


def info(*, reads_ahead: bool = False) -> ModelInfo:
    return ModelInfo(
        name="tone",
        sample_rate_hz=SAMPLE_RATE_HZ,
        samples_per_frame=SAMPLES_PER_FRAME,
        voices=VOICES,
        default_voice=VOICES[0].name,
        fields=frozenset({"speed", "word_timestamps"}),
        reads_ahead=reads_ahead,
    )


def build(
    *,
    profile: str = "free",
    costs: ToneCosts | None = None,
    max_batch: int = 4096,
    decode_batch: int | None = None,
    shared_lane: bool = False,
    reads_ahead: bool = False,
    wait_s: Callable[[float], None] = sleep_s,
) -> Model:
    """`profile` names costs and batch of `PROFILES`; `costs` and `decode_batch` are taken in their place.

    `shared_lane` puts both stages on one device; `reads_ahead` has it speak sentences whose end has not come;
    `wait_s` is how a step spends its cost.
    """
    if profile not in PROFILES:
        raise ModelNotUsable(f"tone has no profile {profile!r}; there are {', '.join(PROFILES)}")
    usual_costs, usual_batch = PROFILES[profile]
    costs = costs or usual_costs
    decode_batch = decode_batch or usual_batch
    return Model(
        info=info(reads_ahead=reads_ahead),
        stages=(
            Talker(costs, max_batch, "talker", wait_s),
            Code2Wav(costs, decode_batch, "talker" if shared_lane else "code2wav", wait_s),
        ),
        chunk_plan=ChunkPlan(sizes=(2, 4, 8, 16, 25), left_context_frames=costs.context_frames),
        costs=PipelineCosts(
            frame=LinearCost(costs.a0_s, costs.b0_s),
            decode=LinearCost(costs.a1_s, costs.b1_s),
            prefill_s=costs.prefill_s,
        ),
    )


MODEL = ModelSpec(name="tone", build=build, info=info)
