"""Our Qwen3-TTS without a server: the Talker and Code2Wav in a small loop with continuous batching, timed."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from realtime_tts.engine.models.qwen3_tts.checkpoint import Checkpoint
from realtime_tts.engine.models.qwen3_tts.code2wav import Code2Wav
from realtime_tts.engine.models.qwen3_tts.codec_config import CodecConfig
from realtime_tts.engine.models.qwen3_tts.config import read_config, read_generation_config, read_json
from realtime_tts.engine.models.qwen3_tts.prompt import PromptBuilder, Speech
from realtime_tts.engine.models.qwen3_tts.sampling import CodeSampling, published_sampling
from realtime_tts.engine.models.qwen3_tts.talker import SlotState, Talker, load_weights
from realtime_tts.engine.models.qwen3_tts.tokenizer import load_tokenizer

SPEAKER, LANGUAGE = "vivian", "english"
SAMPLE_RATE_HZ = 24_000
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
        return _Request(self._talker.add_request(prompt, sampling), self.decoder.arena.acquire())

    def _leave(self, request: _Request) -> None:
        self._talker.release(request.slot)
        self.decoder.arena.release(request.decoder_slot)

    def _advance(self, active: Sequence[_Request], frames: int, *, began_s: float) -> None:
        """A chunk of prefill for whoever needs it, a frame for all others, and sound where a chunk of it is full."""
        talker = self._talker
        if unread := [request.slot for request in active if talker.state(request.slot) is SlotState.PREFILL]:
            talker.prefill(unread)
        ready = [request for request in active if talker.state(request.slot) is SlotState.READY]
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
        state = checkpoint.read_all("decoder.")
        checkpoint.read_all("encoder.")
    return Code2Wav.from_state(config, state, device, slots)
