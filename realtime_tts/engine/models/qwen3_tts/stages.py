"""The Talker and the codec's decoder as stages of the engine: who has a slot, what each step gives, how each ends."""

import secrets
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from realtime_tts.engine.api import Sampling, SynthesisRequest
from realtime_tts.engine.models.qwen3_tts.about import language_name
from realtime_tts.engine.models.qwen3_tts.code2wav import Code2Wav
from realtime_tts.engine.models.qwen3_tts.config import ModelConfig, ModelType
from realtime_tts.engine.models.qwen3_tts.pace import least_frames, most_frames
from realtime_tts.engine.models.qwen3_tts.prompt import PromptBuilder, Speech
from realtime_tts.engine.models.qwen3_tts.sampling import COLDEST, CodeSampling, Draw
from realtime_tts.engine.models.qwen3_tts.talker import State, Talker
from realtime_tts.engine.models.qwen3_tts.tokenizer import TextTokenizer
from realtime_tts.engine.models.qwen3_tts.voices import ReadyVoice, VoiceMaker
from realtime_tts.engine.stage import StageInput, StageOutput, host_array
from realtime_tts.errors import InvalidConfig, RealtimeTTSError, SynthesisFailed

Codes = npt.NDArray[np.int64]

RETRIES = 2
"""How often speech that broke off at once is begun anew, by another seed."""
SMALLEST_TOP_P = 1e-6
"""In the place of 0: the best code alone."""


class Turn:
    """A lane's own CUDA stream, entered for all that a stage does there; on a CPU there is nothing to enter."""

    def __init__(self, device: torch.device) -> None:
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]

    def __call__(self) -> AbstractContextManager[object]:
        return nullcontext() if self._stream is None else torch.cuda.stream(self._stream)


def code_sampling(published: CodeSampling, wish: Sampling, seed: int) -> CodeSampling:
    """The publisher's sampling, and in its place what a request wishes.

    The wishes are for the first code of a frame, as in the reference, which knows others for the fifteen after it.
    But temperature 0 leaves nothing to chance, there neither.
    """
    talker, predictor = published.talker, published.predictor
    temperature = talker.temperature if wish.temperature is None else wish.temperature
    if temperature < COLDEST:
        temperature = 0.0
        predictor = replace(predictor, temperature=0.0)
    drawn = Draw(
        temperature,
        talker.top_k if wish.top_k is None else wish.top_k,
        talker.top_p if wish.top_p is None else max(wish.top_p, SMALLEST_TOP_P),
    )
    penalty = published.repetition_penalty if wish.repetition_penalty is None else wish.repetition_penalty
    return CodeSampling(drawn, predictor, penalty, seed)


@dataclass(slots=True)
class _Row:
    """A request that has a slot."""

    slot: int
    most: int
    """Frames; with so many it has run away."""
    least: int
    """Frames; an end before so many came too early."""
    retries: int
    """That are left."""
    holds: bool
    """Whether frames are held back until there are `least`, so that none has been decoded while it may be begun anew:
    where nothing is sent before all is made, nobody waits for them."""
    unkept: "_Prefix | None"
    """What is worth keeping of its prompt, until it has been read."""
    ids: tuple[int, ...]
    """Of its text, as far as the Talker was given it."""
    text_complete: bool
    decoder_start: "DecoderStart | None"
    made: int = 0
    held: list[Codes] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Prefix:
    """The first positions of a prompt, which the next by this voice will share."""

    voice: ReadyVoice
    language: str | None
    positions: int


@dataclass(frozen=True, slots=True, eq=False)
class DecoderStart:
    """The decoder's state at the end of the recording of a cloned voice."""

    state: Tensor


class TalkerStage:
    """One frame of sixteen codes a run for every row; a new row is first read in, a chunk of its prompt a run.

    Cloned voices are worked out at their requests' first run, on this lane, all new recordings of a batch together:
    those in the same batch wait for them.  Where a voice leaves the decoder is the handoff to Code2Wav.

    A text whose end has not come yet goes in with the frames, as the model was trained to read a stream.  It comes in
    whole words, so what was read stays as it was: the words behind them change no token.  Where it runs out, the row is
    starved, and makes nothing up.

    A seed given by the client is kept to.  Otherwise one is drawn, and speech that breaks off too early is begun anew
    with another, where the engine has decoded nothing of it yet: of what is streamed, before the first chunk is full.
    What breaks off for good, or finds no end within its bounds or its slot, is told as truncated.
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
        voices: VoiceMaker | None,
        turn: Turn,
        draw_seed: Callable[[], int] = lambda: secrets.randbits(63),
    ) -> None:
        self._config = config
        self._talker = talker
        self._prompts = prompts
        self._tokenizer = tokenizer
        self._published = published
        self._max_new_tokens = max_new_tokens
        self.voices = voices
        self._turn = turn
        self._draw_seed = draw_seed
        self._rows: dict[str, _Row] = {}

    @property
    def free_slots(self) -> int:
        return self._talker.free_slots

    @property
    def holds(self) -> int:
        """Requests of which anything is kept here."""
        return len(self._rows)

    def run(self, batch: Sequence[StageInput]) -> Sequence[StageOutput]:
        with self._turn():
            errors = self._join_new(batch)
            for row in batch:
                if row.request.request_id not in errors:
                    self._read_on(row.request)
            rows = [self._rows[row.request.request_id] for row in batch if row.request.request_id not in errors]
            if unread := self._in(State.PREFILL, rows):
                self._talker.prefill(unread)
                self._keep_prefixes(rows)
            frames = self._step(self._in(State.READY, rows))
        read = set(unread)
        return [self._output(row.request.request_id, errors, frames, read) for row in batch]

    def _read_on(self, request: SynthesisRequest) -> None:
        """Gives the Talker what has come of a text since the last run."""
        row = self._rows[request.request_id]
        if row.text_complete:
            return
        ids = self._tokenizer.text(request.text)
        more = ids[len(row.ids) :]
        if more or request.text_complete:
            embeddings = self._prompts.more_text(more, last=request.text_complete)
            self._talker.append_text(row.slot, embeddings, complete=request.text_complete)
            row.ids, row.text_complete = ids, request.text_complete
            self._bound(row, request)

    def _bound(self, row: _Row, request: SynthesisRequest) -> None:
        """How many frames its text may take, and must."""
        # N new tokens are the end and N - 1 frames (reference, measured).
        wished = request.sampling.max_new_tokens
        asked = self._max_new_tokens if wished is None else wished
        row.most = max(1, min(asked - 1, most_frames(len(row.ids))))
        row.least = least_frames(request.text)

    def release(self, request_id: str) -> None:
        row = self._rows.pop(request_id, None)  # absent where it was refused, or `run` raised before it
        if row is not None:
            with self._turn():
                self._talker.release(row.slot)

    # -- Joining -------------------------------------------------------------------------------------------------------

    def _join_new(self, batch: Sequence[StageInput]) -> dict[str, RealtimeTTSError]:
        """Gives every new request a slot, and those that begin anew another; what keeps one from it is its alone."""
        retries = {row.request.request_id: self._give_up(row.request) for row in batch if row.retry}
        new = [row.request for row in batch if row.request.request_id not in self._rows]
        errors: dict[str, RealtimeTTSError] = {}
        for request, voice in zip(new, self._voices(new), strict=True):
            tries = RETRIES if request.sampling.seed is None else 0
            try:
                self._join(request, voice, retries.get(request.request_id, tries))
            except RealtimeTTSError as error:
                errors[request.request_id] = error
        return errors

    def _give_up(self, request: SynthesisRequest) -> int:
        """Frees the slot of speech that broke off, and says how often it may still be tried after this time."""
        row = self._rows.pop(request.request_id)
        assert row.retries, f"{request.request_id} was not to be tried again"
        self._talker.release(row.slot)
        return row.retries - 1

    def _join(self, request: SynthesisRequest, voice: ReadyVoice | InvalidConfig | None, retries: int) -> None:
        if isinstance(voice, InvalidConfig):
            raise voice
        speech = self._speech(request, voice)
        prompt = self._prompts.build(speech)
        prefix = None if voice is None else voice.prefix_in(speech.language)
        wish = request.sampling
        sampling = code_sampling(self._published, wish, self._draw_seed() if wish.seed is None else wish.seed)
        row = self._rows[request.request_id] = _Row(
            slot=self._talker.join(prompt, sampling, prefix),
            most=0,
            least=0,
            retries=retries,
            holds=retries > 0 and not request.streamed,
            unkept=None if voice is None or prefix is not None else _Prefix(voice, speech.language, prompt.shared),
            ids=self._tokenizer.text(request.text),
            text_complete=request.text_complete,
            decoder_start=None if voice is None or voice.decoder_state is None else DecoderStart(voice.decoder_state),
        )
        self._bound(row, request)

    def _keep_prefixes(self, rows: Sequence[_Row]) -> None:
        """What was read of a voice's prompt for the first time is kept with the voice."""
        if self.voices is None:
            return
        for row in rows:
            if row.unkept is not None and self._talker.state(row.slot) is not State.PREFILL:
                new, row.unkept = row.unkept, None
                copy = partial(self._talker.prefix, row.slot, new.positions)
                self.voices.keep_prefix(new.voice, new.language, copy)

    def _voices(self, requests: Sequence[SynthesisRequest]) -> "Sequence[ReadyVoice | InvalidConfig | None]":
        """That of each, or why it has none; None where the model's speakers are its own."""
        if self.voices is not None:
            return self.voices.voices(requests)
        refusal = InvalidConfig(f"a {self._config.tts_model_type} model takes no reference voice")
        brings = [request.reference is not None or request.speaker_embedding is not None for request in requests]
        return [refusal if each else None for each in brings]

    def _speech(self, request: SynthesisRequest, voice: ReadyVoice | None) -> Speech:
        kind = self._config.tts_model_type
        return Speech(
            text=request.text,
            language=language_name(self._config, request.language),
            # The others have no voices by name: what a session calls its voice means nothing to them.
            speaker=request.voice if kind is ModelType.CUSTOM_VOICE else None,
            instruct=request.instructions,
            voice=None if voice is None else voice.cloned,
            text_first=kind is not ModelType.BASE and request.text_complete,  # as published
            text_complete=request.text_complete,
        )

    # -- Stepping ------------------------------------------------------------------------------------------------------

    def _in(self, state: State, rows: Sequence[_Row]) -> list[int]:
        return [row.slot for row in rows if self._talker.state(row.slot) is state]

    def _step(self, slots: Sequence[int]) -> dict[int, Codes | None]:
        """The next frame (1, 16) of each slot; None where its speech has ended."""
        if not slots:
            return {}
        step = self._talker.step(slots)
        return {
            slot: None if ended else step.codes[index : index + 1]
            for index, (slot, ended) in enumerate(zip(slots, step.ended, strict=True))
        }

    def _output(
        self, request_id: str, errors: dict[str, RealtimeTTSError], frames: dict[int, Codes | None], read: set[int]
    ) -> StageOutput:
        if request_id in errors:
            return self._frames([], error=errors[request_id], stepped=False)
        row = self._rows[request_id]
        if row.slot in frames:
            output = self._advanced(row, frames[row.slot])
        else:  # not yet read in, or nothing left to read
            output = self._frames([], starved=self._talker.state(row.slot) is State.STARVED, stepped=False)
        return replace(output, prefilled=row.slot in read, handoff=row.decoder_start)

    def _advanced(self, row: _Row, frame: Codes | None) -> StageOutput:
        if frame is None:
            early = row.made < row.least or not row.text_complete
            can_retry = early and row.retries > 0
            return self._frames(self._let_go(row), finished=True, truncated=early, can_retry=can_retry)
        row.made += 1
        row.held.append(frame)
        if row.made >= row.most or self._talker.state(row.slot) is State.FULL:
            return self._frames(self._let_go(row), finished=True, truncated=True)
        if row.holds and row.made < row.least:
            return self._frames([])
        return self._frames(self._let_go(row))

    def _let_go(self, row: _Row) -> list[Codes]:
        held, row.held = row.held, []
        return held

    def _frames(
        self,
        frames: Sequence[Codes],
        *,
        finished: bool = False,
        truncated: bool = False,
        starved: bool = False,
        can_retry: bool = False,
        stepped: bool = True,
        error: RealtimeTTSError | None = None,
    ) -> StageOutput:
        none = np.empty((0, self._config.talker_config.num_code_groups), np.int64)
        return StageOutput(
            np.concatenate([none, *frames]),
            finished=finished,
            truncated=truncated,
            starved=starved,
            can_retry=can_retry,
            stepped=stepped,
            error=error,
        )


class Code2WavStage:
    """Decodes each stream from where it was left: any chunks give the same samples.

    A cloned voice begins where its recording ended.  The silence that a CustomVoice begins with is decoded as any other
    frame, which leaves the state as it must be; the engine does not play it (`ModelInfo.silent_frames`).
    """

    def __init__(self, decoder: Code2Wav, turn: Turn) -> None:
        self.decoder = decoder
        self._turn = turn
        self._slots: dict[str, int] = {}

    def run(self, batch: Sequence[StageInput]) -> Sequence[StageOutput]:
        with self._turn():
            for row in batch:
                self._open(row)
            slots = [self._slots[row.request.request_id] for row in batch]
            return [_sound(samples) for samples in self.decoder.decode(slots, [_new_frames(row) for row in batch])]

    def release(self, request_id: str) -> None:
        slot = self._slots.pop(request_id, None)  # absent where `run` raised before this row
        if slot is not None:
            self.decoder.arena.release(slot)

    def _open(self, row: StageInput) -> None:
        request_id = row.request.request_id
        if request_id in self._slots:
            return
        slot = self._slots[request_id] = self.decoder.arena.acquire()
        if isinstance(row.handoff, DecoderStart):
            self.decoder.arena.restore(slot, row.handoff.state)


class WindowedCode2WavStage:
    """Decodes each chunk from silence after `context_frames` of context, as others do: for comparison.

    Not exact, and dearer.  A cloned voice begins without the memory of its recording.
    """

    def __init__(self, decoder: Code2Wav, turn: Turn) -> None:
        self._decoder = decoder
        self._turn = turn

    def run(self, batch: Sequence[StageInput]) -> Sequence[StageOutput]:
        with self._turn():
            return [self._decode(row) for row in batch]

    def release(self, request_id: str) -> None:
        """Nothing is kept."""

    def _decode(self, row: StageInput) -> StageOutput:
        assert row.chunk is not None, "the last stage always gets a chunk"
        codes = np.asarray(host_array(row.values), np.int64)
        return _sound(self._decoder.decode_windowed(codes, row.chunk.start - row.chunk.context_start))


def _new_frames(row: StageInput) -> Codes:
    assert row.chunk is not None, "the last stage always gets a chunk"
    return np.asarray(host_array(row.values), np.int64)[row.chunk.start - row.chunk.context_start :][: row.chunk.frames]


def _sound(samples: npt.NDArray[np.float32]) -> StageOutput:
    if not np.isfinite(samples).all():
        return StageOutput(samples, error=SynthesisFailed("the codec gave no sound for this sentence"))
    return StageOutput(samples)
