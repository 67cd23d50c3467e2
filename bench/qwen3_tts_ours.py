"""Our Qwen3-TTS without a server, timed: the Talker and Code2Wav in a small loop with continuous batching."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from realtime_tts.engine.models.qwen3.checkpoint import Checkpoint
from realtime_tts.engine.models.qwen3.codec.decoder import Code2Wav
from realtime_tts.engine.models.qwen3.config import read_json
from realtime_tts.engine.models.qwen3.sampling import CodeSampling
from realtime_tts.engine.models.qwen3.talker import SlotState, Talker
from realtime_tts.engine.models.qwen3_tts.codec_config import CodecConfig
from realtime_tts.engine.models.qwen3_tts.config import read_config, read_generation_config
from realtime_tts.engine.models.qwen3_tts.generation import published_sampling
from realtime_tts.engine.models.qwen3_tts.loading import MIN_FRAMES, load_codec, load_talker_weights
from realtime_tts.engine.models.qwen3_tts.memory import CODEC_DIRECTORY
from realtime_tts.engine.models.qwen3_tts.prompt import PromptBuilder, Speech
from realtime_tts.engine.models.qwen3_tts.tokenizer import load_tokenizer

SPEAKER, LANGUAGE = "vivian", "english"
SAMPLE_RATE_HZ = 24_000
Wave = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class BatchTiming:
    """Times of simultaneous requests, in wall seconds; `cpu_s` is the CPU time of all threads."""

    wall_s: float
    cpu_s: float
    first_s: float
    """To the first audio, the maximum of the requests."""
    audio_s: float

    @property
    def rtf(self) -> float:
        """Seconds per second of audio."""
        return self.wall_s / self.audio_s

    @property
    def throughput(self) -> float:
        """Seconds of audio per second."""
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
    """The Talker and Code2Wav of a checkpoint, for up to `slots` requests."""

    def __init__(
        self, directory: Path, slots: int, device: torch.device, dtype: torch.dtype, first_frames: int, chunk: int
    ) -> None:
        self.config = read_config(directory)
        self.decoder_config = read_json(directory / CODEC_DIRECTORY / "config.json", CodecConfig).decoder_config
        self.decoder = load_decoder(directory, slots, device)
        self._first_frames, self._chunk = first_frames, chunk
        with Checkpoint(directory, device, dtype) as checkpoint:
            weights = load_talker_weights(checkpoint, self.config.talker_config)
        self._prompts = PromptBuilder(self.config, load_tokenizer(directory, self.config), weights.embeddings)
        self._sampling = read_generation_config(directory)
        self._talker = Talker(
            self.config.talker_config,
            weights,
            slots=slots,
            max_len=2048,
            text_pad_id=self.config.tts_pad_token_id,
            min_frames=MIN_FRAMES,
        )
        self.steps_s: list[float] = []
        """Durations of the Talker's steps, of one row or more, since the list was last cleared."""

    def speak(self, texts: Sequence[str], frames: int, seed: int) -> tuple[BatchTiming, list[Wave]]:
        """Speaks all texts at once, each for that many frames.  Row i is sampled with `seed` + i."""
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        waiting = [(text, published_sampling(self._sampling, seed + row)) for row, text in enumerate(texts)]
        done: list[_Request] = []
        active: list[_Request] = []
        while waiting or active:
            while waiting and self._talker.free_slots:
                active.append(self._join(*waiting.pop(0)))
                done.append(active[-1])
            self._run_step(active, frames, start_s=wall_s)
            for request in [request for request in active if self._talker.frames(request.slot) == frames]:
                self._leave(request)
                active.remove(request)
        wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
        waves = [np.concatenate(request.wave) for request in done]
        first_s = max(request.first_s or wall_s for request in done)
        return BatchTiming(wall_s, cpu_s, first_s, sum(map(len, waves)) / SAMPLE_RATE_HZ), waves

    def _join(self, text: str, sampling: CodeSampling) -> _Request:
        prompt = self._prompts.build(Speech(text, LANGUAGE, SPEAKER, text_first=True))
        return _Request(self._talker.add_request(prompt, sampling), self.decoder.arena.acquire())

    def _leave(self, request: _Request) -> None:
        self._talker.release(request.slot)
        self.decoder.arena.release(request.decoder_slot)

    def _run_step(self, active: Sequence[_Request], frames: int, *, start_s: float) -> None:
        """A chunk of prefill for new requests, a frame for all others, and audio for those with a full chunk."""
        talker = self._talker
        if unread := [request.slot for request in active if talker.state(request.slot) is SlotState.PREFILL]:
            talker.prefill(unread)
        ready = [request for request in active if talker.state(request.slot) is SlotState.READY]
        before_s = time.perf_counter()
        step = talker.step([request.slot for request in ready])
        self.steps_s.append(time.perf_counter() - before_s)
        assert not any(step.ended), "a model with random weights never ends by itself"
        for request, codes in zip(ready, step.codes, strict=True):
            request.pending.append(codes)
        self._decode([request for request in ready if self._is_due(request, frames)])
        for request in ready:
            if request.wave and request.first_s is None:
                request.first_s = time.perf_counter() - start_s

    def _is_due(self, request: _Request, frames: int) -> bool:
        size = self._chunk if request.wave else self._first_frames
        return len(request.pending) >= size or self._talker.frames(request.slot) == frames

    def _decode(self, due: Sequence[_Request]) -> None:
        slots = [request.decoder_slot for request in due]
        for request, wave in zip(due, self.decoder.decode(slots, [np.stack(r.pending) for r in due]), strict=True):
            request.wave.append(wave)
            request.pending.clear()


def load_decoder(directory: Path, slots: int, device: torch.device) -> Code2Wav:
    codec = read_json(directory / CODEC_DIRECTORY / "config.json", CodecConfig)
    weights, _encoder = load_codec(directory, read_config(directory), codec, device)
    return Code2Wav(codec.decoder_config, weights, slots, device)
