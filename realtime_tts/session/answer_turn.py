"""A turn of a conversation: what the client says and shows, and the answer to it."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from realtime_tts.audio.pcm import Float32, pcm_samples
from realtime_tts.audio.resample import StreamingResampler
from realtime_tts.engine.api import (
    AnswerRequest,
    AudioPart,
    EngineCommand,
    ImagePart,
    Part,
    Role,
    Sampling,
    TextFinished,
    TextPart,
    TextReady,
    TextSampling,
    Turn,
)
from realtime_tts.errors import InvalidMedia
from realtime_tts.session.events import (
    ResponseStarted,
    ResponseText,
    ResponseTextDone,
    SentenceStarted,
    TurnCommitted,
    UtteranceDone,
    Warned,
)
from realtime_tts.session.outbox import Outbox
from realtime_tts.session.sentence import SentenceState
from realtime_tts.session.settings import SessionSettings
from realtime_tts.session.utterance import Utterance
from realtime_tts.text.offsets import AlignedText, OffsetMap
from realtime_tts.text.splitter import Sentence

MAX_AUDIO_S = 300.0
"""Of one turn, as much as the model's feature extractor accepts."""
MAX_IMAGES = 8
"""Of one turn."""


class AudioInput:
    """The audio of one part of a turn, at the rate that the model reads."""

    def __init__(self, in_hz: int, out_hz: int) -> None:
        self._resampler = StreamingResampler(in_hz, out_hz)
        self._pieces: list[Float32] = []

    def push(self, pcm: bytes) -> None:
        """16-bit PCM, mono."""
        self._pieces.append(self._resampler.push(pcm_samples(pcm)))

    def part(self) -> AudioPart | None:
        """All of it; None if there is no sample."""
        samples = np.concatenate([*self._pieces, self._resampler.flush()])
        return audio_part(samples) if len(samples) else None


def audio_part(samples: Float32) -> AudioPart:
    """Mono samples at the model's rate, with their digest."""
    return AudioPart(samples, hashlib.sha256(np.ascontiguousarray(samples).data).hexdigest())


@dataclass(slots=True, eq=False)
class AnswerState(SentenceState):
    """An answer: the one sentence of its utterance.  Its text is written by the model, and precedes its audio."""

    announced: bool = False
    """Whether `ResponseStarted` was passed on."""
    ended: TextFinished | None = None
    waiting_text: list[TextReady | TextFinished] = field(default_factory=list)
    """Not yet passed on."""

    def on_text(self, event: TextReady | TextFinished) -> None:
        self.waiting_text.append(event)
        if isinstance(event, TextFinished):
            self.ended = event
            return
        self.utterance.received.append(event.text)
        text = self.sentence.text + event.text
        self.offsets.append_copy(len(self.sentence.text), len(event.text))
        self.sentence = Sentence(0, text, 0, len(text))

    def pass_on_text(self, outbox: Outbox) -> None:
        waiting, self.waiting_text = self.waiting_text, []
        index, context_id = self.utterance.index, self.utterance.context_id
        if waiting and not self.announced:
            self.announced = True
            outbox.add(ResponseStarted(index, self.request.request_id, context_id))
        for event in waiting:
            if isinstance(event, TextFinished):
                outbox.add(ResponseTextDone(index, self.sentence.text, event.end, context_id))
            elif event.text:
                outbox.add(ResponseText(index, event.text, context_id))

    def started_event(self) -> SentenceStarted:
        """Without the text, which is in events of its own."""
        event = replace(SentenceState.started_event(self), text="", text_span=(0, 0))
        self.announced_text = None
        return event


@dataclass(slots=True, eq=False)
class AnswerTurn(Utterance):
    """Everything up to a `Done`, which is then answered.  Its `text` is that of the answer."""

    parts: list[Part] = field(default_factory=list)
    audio: AudioInput | None = None
    """The audio that is being received: what comes between two other parts is one."""
    received_audio_s: float = 0.0
    pending: int = 0
    """Characters received, and not yet submitted."""
    state: AnswerState | None = None

    @property
    def pending_chars(self) -> int:
        return self.pending

    def push(self, text: str, now_s: float) -> Iterator[EngineCommand | Warned]:
        self._end_audio()
        self.characters += len(text)
        self.pending += len(text)
        last = self.parts[-1] if self.parts else None
        if isinstance(last, TextPart):
            self.parts[-1] = TextPart(last.text + text)
        else:
            self.parts.append(TextPart(text))
        yield from ()

    def push_audio(self, pcm: bytes) -> None:
        """16-bit PCM at the configured rate.  Raises `InvalidMedia`."""
        settings, rate_hz = self.settings, self.builder.input_rate_hz
        if rate_hz is None:
            raise InvalidMedia("the model does not accept audio")
        if len(pcm) % 2:
            raise InvalidMedia(f"16-bit samples have an even number of bytes, got {len(pcm)}")
        in_hz = settings.input_rate_hz or rate_hz
        if self.received_audio_s + len(pcm) / 2 / in_hz > MAX_AUDIO_S:
            raise InvalidMedia(f"the audio of a turn may have {MAX_AUDIO_S:g} s")
        if self.audio is None:
            self.audio = AudioInput(in_hz, rate_hz)
        self.audio.push(pcm)
        self.received_audio_s += len(pcm) / 2 / in_hz

    def push_image(self, image: ImagePart) -> None:
        """Raises `InvalidMedia`."""
        if "image" not in self.builder.input_modalities:
            raise InvalidMedia("the model does not accept images")
        if sum(isinstance(part, ImagePart) for part in self.parts) >= MAX_IMAGES:
            raise InvalidMedia(f"a turn may have {MAX_IMAGES} images")
        self._end_audio()
        self.parts.append(image)

    def _end_audio(self) -> None:
        audio, self.audio = self.audio, None
        if audio is not None and (part := audio.part()) is not None:
            self.parts.append(part)

    def read_block(self, now_s: float) -> Iterator[EngineCommand | Warned]:
        yield from ()

    def flush(self, now_s: float) -> Iterator[EngineCommand | Warned]:
        """A turn is answered as a whole."""
        yield from ()

    def finish(self, now_s: float) -> Iterator[EngineCommand | Warned]:
        self._end_audio()
        self.complete = True
        self.pending = 0
        turns = (Turn(Role.USER, tuple(self.parts)),)
        self.parts = []
        if any(not isinstance(part, TextPart) or part.text.strip() for part in turns[0].parts):
            yield from self.answer(turns, None, now_s)

    def answer(
        self, turns: tuple[Turn, ...], sampling: TextSampling | None, now_s: float
    ) -> Iterator[EngineCommand | Warned]:
        """Submits a conversation.  `sampling`: of the text; None takes that of the settings."""
        settings = self.settings
        if settings.instructions:
            turns = (Turn(Role.SYSTEM, (TextPart(settings.instructions),)), *turns)
        spoken = "audio" in settings.modalities
        request = AnswerRequest(
            request_id=self.builder.next_id(),
            stream_id=self.queue.stream_id,
            turns=turns,
            voice=settings.voice if spoken else None,
            text_sampling=sampling or text_sampling(settings),
            sampling=Sampling(seed=settings.sampling.seed),
            utterance_index=self.index,
            streamed=settings.stream_audio,
            live=settings.live,
            initial_codec_chunk_frames=settings.initial_codec_chunk_frames,
        )
        self.complete = True
        self.state = self._state_of(request, now_s)
        self.queue.add(self.state)
        self.total_sentences = int(spoken)
        yield from self.queue.submit_next()

    def _state_of(self, request: AnswerRequest, now_s: float) -> AnswerState:
        return AnswerState(
            index=0,
            sentence=Sentence(0, "", 0, 0),
            offsets=OffsetMap(),
            respelled=AlignedText.of(""),
            utterance=self,
            request=request,
            sample_rate_hz=self.builder.sample_rate_hz,
            tempo=self.settings.speed,
            text_complete_at_s=now_s,  # the client's: waiting for the Thinker is the server's delay
            has_word_times=False,
            speakable_at_s=now_s,
        )

    def committed_event(self) -> TurnCommitted:
        return TurnCommitted(self.index, self.received_audio_s, self.context_id)

    def done_event(self) -> UtteranceDone:
        event = Utterance.done_event(self)
        if self.state is not None and not self.state.is_spoken:
            event = replace(event, total_sentences=0)  # none has audio; its outcome is that of the text
        end = None if self.state is None else self.state.ended
        if end is None:
            return event
        return replace(event, input_tokens=end.prompt_tokens, output_tokens=end.tokens)


def text_sampling(settings: SessionSettings) -> TextSampling:
    """How the text of an answer is sampled, by the settings of a session."""
    chosen, default = settings.sampling, TextSampling()
    return TextSampling(
        temperature=default.temperature if chosen.temperature is None else chosen.temperature,
        top_k=default.top_k if chosen.top_k is None else chosen.top_k,
        top_p=default.top_p if chosen.top_p is None else chosen.top_p,
        repetition_penalty=(
            default.repetition_penalty if chosen.repetition_penalty is None else chosen.repetition_penalty
        ),
        seed=chosen.seed,
        max_tokens=default.max_tokens if chosen.max_new_tokens is None else chosen.max_new_tokens,
    )
