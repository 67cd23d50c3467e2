"""Engine stages of Qwen3-TTS: the Talker, and the codec's decoder with or without state."""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from realtime_tts.engine.api import SynthesisRequest
from realtime_tts.engine.models.qwen3.codec.decoder import Code2Wav
from realtime_tts.engine.models.qwen3.codec.stage import DecoderStart, audio_output
from realtime_tts.engine.models.qwen3.lane_stream import LaneStream
from realtime_tts.engine.models.qwen3.length_limits import max_frames, min_frames
from realtime_tts.engine.models.qwen3.sampling import CodeSampling, code_sampling
from realtime_tts.engine.models.qwen3.talker import SlotState, Talker
from realtime_tts.engine.models.qwen3_tts.config import ModelConfig, ModelType
from realtime_tts.engine.models.qwen3_tts.model_info import language_name
from realtime_tts.engine.models.qwen3_tts.prompt import PromptBuilder, Speech
from realtime_tts.engine.models.qwen3_tts.tokenizer import TextTokenizer
from realtime_tts.engine.models.qwen3_tts.voices import ReadyVoice, VoiceBuilder
from realtime_tts.engine.stage import StageInput, StageOutput, host_array
from realtime_tts.errors import InvalidConfig, RealtimeTTSError

Codes = npt.NDArray[np.int64]

RETRIES = 2
"""The number of times that speech which ended too early is started again with another seed."""


@dataclass(slots=True)
class _Row:
    """A request that has a slot."""

    slot: int
    max_frames: int
    """With this number of frames the speech has run away."""
    min_frames: int
    """An end before this number of frames is too early."""
    retries_left: int
    holds_back: bool
    """Whether frames are held back until there are `min_frames`, so that none is decoded while a retry is possible: of
    a request that is not streamed, nothing is sent before all is generated, so the delay costs nothing."""
    new_prefix: "_Prefix | None"
    """The part of its prompt to cache with the voice, until that is prefilled."""
    ids: tuple[int, ...]
    """The ids of its text that the Talker has received."""
    text_complete: bool
    decoder_start: "DecoderStart | None"
    frames: int = 0
    held_back: list[Codes] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Prefix:
    """The first positions of a prompt, which the next prompt of this voice shares."""

    voice: ReadyVoice
    language: str | None
    positions: int


class TalkerStage:
    """One frame of sixteen codes per run for every row; a new row is first prefilled, one chunk of its prompt per run.

    Cloned voices are encoded at their requests' first run, on this lane, all new recordings of a batch together; the
    other rows of the batch wait for them.  The decoder state after a voice's recording is the handoff to Code2Wav.

    Text that is still arriving is fed in with the frames, as the model was trained to read a stream.  It arrives in
    whole words, and later words change no earlier token.  A row without the text of its next frame is starved.

    A client's seed is always used.  Otherwise one is drawn, and speech that ends too early is started again with
    another seed, if the engine has decoded nothing of it: for a streamed request, before the first chunk is full.
    Speech that ends too early for the last time, or does not end within its limits or its slot, is reported as
    truncated.
    """

    def __init__(
        self,
        config: ModelConfig,
        talker: Talker,
        prompts: PromptBuilder,
        tokenizer: TextTokenizer,
        *,
        published: CodeSampling,
        max_new_tokens: int,
        voices: VoiceBuilder | None,
        lane_stream: LaneStream,
        draw_seed: Callable[[], int] = lambda: secrets.randbits(63),
    ) -> None:
        self._config = config
        self._talker = talker
        self._prompts = prompts
        self._tokenizer = tokenizer
        self._published = published
        self._max_new_tokens = max_new_tokens
        self.voices = voices
        self._lane_stream = lane_stream
        self._draw_seed = draw_seed
        self._rows: dict[str, _Row] = {}

    def run(self, batch: Sequence[StageInput]) -> Sequence[StageOutput]:
        with self._lane_stream():
            errors = self._add_new(batch)
            for row in batch:
                if row.request.request_id not in errors:
                    self._append_text(row.request)
            rows = [self._rows[row.request.request_id] for row in batch if row.request.request_id not in errors]
            if prefilled := self._slots_in(SlotState.PREFILL, rows):
                self._talker.prefill(prefilled)
                self._cache_prefixes(rows)
            frames = self._step(self._slots_in(SlotState.READY, rows))
        return [self._output(row.request.request_id, errors, frames, set(prefilled)) for row in batch]

    def _append_text(self, request: SynthesisRequest) -> None:
        """Passes text that has arrived since the last run to the Talker."""
        row = self._rows[request.request_id]
        if row.text_complete:
            return
        ids = self._tokenizer.text(request.text)
        more = ids[len(row.ids) :]
        if more or request.text_complete:
            embeddings = self._prompts.more_text(more, last=request.text_complete)
            self._talker.append_text(row.slot, embeddings, complete=request.text_complete)
            row.ids, row.text_complete = ids, request.text_complete
            self._set_limits(row, request)

    def _set_limits(self, row: _Row, request: SynthesisRequest) -> None:
        """Sets the frames that its text takes at least and at most."""
        # N new tokens are N - 1 frames and the end (reference, measured).
        requested = request.sampling.max_new_tokens
        max_new_tokens = self._max_new_tokens if requested is None else requested
        row.max_frames = max(1, min(max_new_tokens - 1, max_frames(len(row.ids))))
        row.min_frames = min_frames(request.text)

    def release(self, request_id: str) -> None:
        row = self._rows.pop(request_id, None)  # absent if the request was refused, or `run` raised before it
        if row is not None:
            with self._lane_stream():
                self._talker.release(row.slot)

    # -- New requests --------------------------------------------------------------------------------------------------

    def _add_new(self, batch: Sequence[StageInput]) -> dict[str, RealtimeTTSError]:
        """Assigns slots to new requests and to retries.  Returns the errors of those that are refused."""
        retries = {row.request.request_id: self._release_for_retry(row.request) for row in batch if row.retry}
        new = [row.request for row in batch if row.request.request_id not in self._rows]
        errors: dict[str, RealtimeTTSError] = {}
        for request, voice in zip(new, self._voices(new), strict=True):
            allowed = RETRIES if request.sampling.seed is None or request.sampling.seed_is_drawn else 0
            try:
                self._add(request, voice, retries.get(request.request_id, allowed))
            except RealtimeTTSError as error:
                errors[request.request_id] = error
        return errors

    def _release_for_retry(self, request: SynthesisRequest) -> int:
        """Frees the slot of speech that ended too early.  Returns the number of retries after this one."""
        row = self._rows.pop(request.request_id)
        assert row.retries_left, f"{request.request_id} has no retries left"
        self._talker.release(row.slot)
        return row.retries_left - 1

    def _add(self, request: SynthesisRequest, voice: ReadyVoice | InvalidConfig | None, retries: int) -> None:
        if isinstance(voice, InvalidConfig):
            raise voice
        speech = self._speech(request, voice)
        prompt = self._prompts.build(speech)
        prefix = None if voice is None else voice.prefix_in(speech.language)
        # A retry with a drawn seed has the next one, so that another replica makes the same audio again.
        used = RETRIES - retries if request.sampling.seed_is_drawn else 0
        seed = self._draw_seed() if request.sampling.seed is None else request.sampling.seed + used
        sampling = code_sampling(self._published, request.sampling, seed)
        new_prefix = None
        if voice is not None and prefix is None:
            new_prefix = _Prefix(voice, speech.language, prompt.prefix_length)
        row = self._rows[request.request_id] = _Row(
            slot=self._talker.add_request(prompt, sampling, prefix),
            max_frames=0,
            min_frames=0,
            retries_left=retries,
            holds_back=retries > 0 and not request.streamed,
            new_prefix=new_prefix,
            ids=self._tokenizer.text(request.text),
            text_complete=request.text_complete,
            decoder_start=None if voice is None or voice.decoder_state is None else DecoderStart(voice.decoder_state),
        )
        self._set_limits(row, request)

    def _cache_prefixes(self, rows: Sequence[_Row]) -> None:
        """Caches the prefixes of prompts that are now prefilled."""
        if self.voices is None:
            return
        for row in rows:
            if row.new_prefix is not None and self._talker.state(row.slot) is not SlotState.PREFILL:
                new, row.new_prefix = row.new_prefix, None
                copy = partial(self._talker.copy_prefix, row.slot, new.positions)
                self.voices.cache_prefix(new.voice, new.language, copy)

    def _voices(self, requests: Sequence[SynthesisRequest]) -> "Sequence[ReadyVoice | InvalidConfig | None]":
        """The cloned voice of each request, or its error; None for a model that does not clone."""
        if self.voices is not None:
            return self.voices.voices(requests)
        refusal = InvalidConfig(f"a {self._config.tts_model_type} model takes no reference voice")
        has_voice = [request.reference is not None or request.speaker_embedding is not None for request in requests]
        return [refusal if each else None for each in has_voice]

    def _speech(self, request: SynthesisRequest, voice: ReadyVoice | None) -> Speech:
        kind = self._config.tts_model_type
        return Speech(
            text=request.text,
            language=language_name(self._config, request.language),
            # The other models have no named voices, and ignore the session's voice.
            speaker=request.voice if kind is ModelType.CUSTOM_VOICE else None,
            instruct=request.instructions,
            voice=None if voice is None else voice.cloned,
            text_first=kind is not ModelType.BASE and request.text_complete,  # as published
            text_complete=request.text_complete,
        )

    # -- Stepping ------------------------------------------------------------------------------------------------------

    def _slots_in(self, state: SlotState, rows: Sequence[_Row]) -> list[int]:
        return [row.slot for row in rows if self._talker.state(row.slot) is state]

    def _step(self, slots: Sequence[int]) -> dict[int, Codes | None]:
        """The next frame (1, 16) of each slot; None if its speech has ended."""
        if not slots:
            return {}
        step = self._talker.step(slots)
        return {
            slot: None if ended else step.codes[index : index + 1]
            for index, (slot, ended) in enumerate(zip(slots, step.ended, strict=True))
        }

    def _output(
        self,
        request_id: str,
        errors: dict[str, RealtimeTTSError],
        frames: dict[int, Codes | None],
        prefilled: set[int],
    ) -> StageOutput:
        if request_id in errors:
            return StageOutput(self._join([]), error=errors[request_id], stepped=False)
        row = self._rows[request_id]
        if row.slot in frames:
            output = self._after_step(row, frames[row.slot])
        else:  # still in prefill, or waiting for text
            starved = self._talker.state(row.slot) is SlotState.STARVED
            output = StageOutput(self._join([]), starved=starved, stepped=False)
        return replace(output, prefilled=row.slot in prefilled, handoff=row.decoder_start)

    def _after_step(self, row: _Row, frame: Codes | None) -> StageOutput:
        """The output of a row after its step; `frame` is None if its speech has ended."""
        if frame is None:
            early = row.frames < row.min_frames or not row.text_complete
            can_retry = early and row.retries_left > 0
            return StageOutput(self._join(_flush(row)), finished=True, truncated=early, can_retry=can_retry)
        row.frames += 1
        row.held_back.append(frame)
        if row.frames >= row.max_frames or self._talker.state(row.slot) is SlotState.FULL:
            return StageOutput(self._join(_flush(row)), finished=True, truncated=True)
        if row.holds_back and row.frames < row.min_frames:
            return StageOutput(self._join([]))
        return StageOutput(self._join(_flush(row)))

    def _join(self, frames: Sequence[Codes]) -> Codes:
        """(n, 16), also of no frames."""
        return np.concatenate([np.empty((0, self._config.talker_config.num_code_groups), np.int64), *frames])


def _flush(row: _Row) -> list[Codes]:
    """Removes the frames that are held back from the row, and returns them."""
    frames, row.held_back = row.held_back, []
    return frames


class WindowedCode2WavStage:
    """Decodes each chunk from a zero state after `context_frames` of context, as other servers do: for comparison.

    Not exact, and more expensive.  A cloned voice does not continue its recording.
    """

    def __init__(self, decoder: Code2Wav, lane_stream: LaneStream) -> None:
        self._decoder = decoder
        self._lane_stream = lane_stream

    def run(self, batch: Sequence[StageInput]) -> Sequence[StageOutput]:
        with self._lane_stream():
            return [self._decode(row) for row in batch]

    def release(self, request_id: str) -> None:
        """There is no state."""

    def _decode(self, row: StageInput) -> StageOutput:
        assert row.chunk is not None, "the last stage always gets a chunk"
        codes = np.asarray(host_array(row.values), np.int64)
        return audio_output(self._decoder.decode_windowed(codes, row.chunk.start - row.chunk.context_start))
