"""The engine's interface: commands, events and the handle.

Commands and events are frozen, serialisable values that cross threads and processes.  Every time in them is relative,
so that two processes need no common clock.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from realtime_tts.engine.scheduling.cost_model import PipelineCosts
from realtime_tts.engine.voice_names import is_mix, mix_name, parse_mix
from realtime_tts.errors import RealtimeTTSError, UnknownVoice
from realtime_tts.text.unicode import printable

Samples: TypeAlias = npt.NDArray[np.float32]
"""(n,), mono, in [-1, 1], at the model's sample rate."""


@dataclass(frozen=True, slots=True)
class Voice:
    name: str
    language: str
    """BCP-47, such as en-US."""


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What a loaded model can do.  A session checks a client's settings against it before it makes a request."""

    name: str
    sample_rate_hz: int
    samples_per_frame: int
    voices: tuple[Voice, ...]
    default_voice: str | None
    reads_ahead: bool = False
    """Whether it speaks the beginning of a sentence whose end has not arrived yet."""
    languages: tuple[str, ...] = ()
    """Primary BCP-47 subtags that it speaks in addition to those of its voices."""
    fields: frozenset[str] = frozenset()
    """The optional fields of `session.config` that it supports, by their names on the wire: speed, seed, temperature,
    top_k, top_p, repetition_penalty, max_new_tokens, instructions, ref_audio, ref_text, x_vector_only_mode,
    speaker_embedding, word_timestamps, and pronunciations where it reads IPA."""
    ipa_symbols: frozenset[str] = frozenset()
    """Symbols that the IPA of a pronunciation may have, where it reads IPA."""
    task_type: str | None = None
    """For a model with variants, what this one was trained for: CustomVoice, VoiceDesign or Base."""
    answers: bool = False
    """Whether it answers a conversation (`SubmitAnswer`), in addition to speaking text that it is given."""
    input_modalities: frozenset[str] = frozenset()
    """What a turn of a conversation may have in addition to text: audio, image."""
    input_rate_hz: int | None = None
    """The sample rate of `AudioPart`, where it accepts audio."""
    resume_fade_s: float | None = None
    """For a sentence that is made again after a loss: over how many seconds the step at the joint is faded.  0 where a
    model repeats its audio to the bit; None where what it makes again does not continue what was played."""
    voice_aliases: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Further names of its voices, such as those that clients of OpenAI's API send.  A voice of the same name has
    priority.  Where recordings are cloned, an alias may stand for an uploaded voice."""
    mixes_voices: bool = False
    """Whether it speaks with mixes of its voices: a request's voice may be `af_bella(2)+af_sky(1)`."""
    resumes_from_codes: bool = False
    """Whether it continues a lost sentence from the codes that were made (`Resume.codes`), and makes only the rest."""
    silent_frames: int = 0
    """The number of leading frames that may be silence, because the model was trained to begin with it: those that are
    silent are not played."""

    def __post_init__(self) -> None:
        if self.silent_frames and "word_timestamps" in self.fields:
            raise ValueError("word times count from the first sample, so silent_frames excludes word_timestamps")
        if self.default_voice is not None and self.default_voice not in self.voice_names:
            raise ValueError(f"the default voice {self.default_voice!r} is not one of the model's voices")

    @property
    def voice_names(self) -> tuple[str, ...]:
        return tuple(voice.name for voice in self.voices)

    @property
    def clones_voices(self) -> bool:
        return "ref_audio" in self.fields

    @property
    def selects_voices(self) -> bool:
        """Whether a request's voice has an effect.  A model that makes a voice of instructions alone has none."""
        return bool(self.voices) or self.clones_voices

    def find_voice(self, name: str) -> str:
        """The model's own name of a voice that a client names: by that name, by an alias, or as a mix.

        Raises `UnknownVoice`, or `InvalidConfig` for a mix that cannot be made.
        """
        voice = self.unaliased(name)
        if self.mixes_voices and is_mix(voice) and voice not in self.voice_names:
            return mix_name(parse_mix(voice, self._find_one))
        return self._find_one(voice)

    def _find_one(self, name: str) -> str:
        voice = self.unaliased(name)
        if voice not in self.voice_names:
            message = f"there is no voice {printable(name[:80])!r}; GET /v1/audio/voices lists those of {self.name}"
            raise UnknownVoice(message, param="voice")
        return voice

    def unaliased(self, name: str) -> str:
        """The voice that `name` stands for: itself, or as an alias.  Other names are unchanged.

        Upper and lower case are the same, as in vLLM-Omni ("Vivian").
        """
        if name in self.voice_names:
            return name
        voices = {voice.lower(): voice for voice in self.voice_names}
        lower = name.lower()
        return voices.get(lower) or self.voice_aliases.get(name) or self.voice_aliases.get(lower) or name

    def language_of(self, voice: str) -> str | None:
        """The BCP-47 tag of a voice, or of the first voice of a mix."""
        first = next(iter(parse_mix(voice, str))) if self.mixes_voices and is_mix(voice) else voice
        return next((each.language for each in self.voices if each.name == first), None)

    @property
    def frame_s(self) -> float:
        """Seconds of audio in one codec frame."""
        return self.samples_per_frame / self.sample_rate_hz


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a model samples its codes.  None leaves a value to the model."""

    seed: int | None = None
    """The same seed, text and voice give the same audio, independent of other requests."""
    seed_is_drawn: bool = False
    """Whether the server has drawn it: speech that ends too early may then be made with another one."""
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    repetition_penalty: float | None = None
    max_new_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Reference:
    """A recording whose voice is used.  `key` is a digest of its content, under which results may be cached."""

    key: str
    samples: Samples = field(compare=False)  # arrays have no equality of their own
    sample_rate_hz: int
    text: str | None = None
    """Its transcript."""
    x_vector_only: bool = False


Rows: TypeAlias = npt.NDArray[np.uint16 | np.float32]
"""(m, hidden): hidden states in float32, or as the bits of bfloat16, which numpy has no type for."""


@dataclass(frozen=True, slots=True)
class SpokenContext:
    """What the speech model reads of a conversation: the user turns, without what was answered."""

    ids: npt.NDArray[np.int32] = field(compare=False)
    """(t,): token ids, with a pad for each position of audio or image."""
    key: str
    """A digest of all turns: the same beginning need not be read twice."""
    rows: Rows | None = field(default=None, compare=False)
    """The Thinker's hidden states for the pads in `ids`, in order; None where there are no pads."""
    positions: npt.NDArray[np.int32] | None = field(default=None, compare=False)
    """(3, t): the positions of `ids`; None where they are 0, 1, 2, …"""


@dataclass(frozen=True, slots=True)
class Resume:
    """Where a request continues that began on an engine that was lost.

    It goes ahead of all who wait for capacity, and is never refused: its listener is in the middle of speech.
    """

    samples_received: int
    """Its audio up to here is made again and withheld."""
    samples_sent: int
    """Of these, the ones that were sent to the listener."""
    words_received: int
    lead_s: float
    """Seconds of audio that the listener has left to play."""
    last_sample: float = 0.0
    """Of the audio that was received: what follows is faded from there, over `ModelInfo.resume_fade_s`."""
    codes: bytes = b""
    """All that `CodesReady` has had of this request.  Empty: its frames are made again."""


@dataclass(frozen=True, slots=True)
class SynthesisRequest:
    """One sentence handed to the engine.

    `stream_id` names the listener: requests of one stream share a playout clock, and are played in the order in which
    they are submitted.  Those of one `utterance_index` are played without a pause: once the first is admitted, the
    others are too.
    """

    request_id: str
    stream_id: str
    text: str
    voice: str
    speed: float = 1.0
    utterance_index: int = 0
    streamed: bool = True
    """False if nothing is sent until all audio is made, as for a whole file: unsent audio then has no limit."""
    live: bool = True
    """False if nobody listens yet, as to a plain HTTP request.  Without capacity it is queued for
    `EngineConfig.queue_s`, behind all live listeners, where a live one is refused."""
    initial_codec_chunk_frames: int | None = None
    """Overrides the dynamic initial chunk."""
    text_complete: bool = True
    """False while more of the text follows, by `Extend`: for models that read ahead."""
    language: str | None = None
    """A primary BCP-47 subtag; None leaves it to the model or the voice."""
    sampling: Sampling = Sampling()
    pronunciations: tuple[tuple[str, str], ...] = ()
    """Words of `text` and their IPA, for models whose `fields` have `pronunciations`."""
    instructions: str | None = None
    reference: Reference | None = None
    speaker_embedding: tuple[float, ...] | None = None
    ids: tuple[int, ...] = ()
    """The tokens of an answer that are known so far.  A request with ids or a context is not tokenised again: its
    `text` is for people."""
    context: SpokenContext | None = None
    """The conversation that is answered."""
    resume: Resume | None = None
    wants_codes: bool = False
    """Whether `CodesReady` is sent for it: with them another engine can continue it."""

    @property
    def awaits_text(self) -> bool:
        """Whether none of its text is known yet: it was submitted early, to reserve capacity."""
        return not (self.text_complete or self.text or self.ids)

    def extended(self, more: "Extend") -> "SynthesisRequest":
        return replace(
            self,
            text=self.text + more.text,
            ids=self.ids + more.ids,
            context=self.context if more.context is None else more.context,
            text_complete=more.complete,
        )


class Role(StrEnum):
    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True)
class TextPart:
    text: str


@dataclass(frozen=True, slots=True)
class AudioPart:
    """`key` is a digest of the content, under which results may be cached."""

    samples: Samples = field(compare=False)
    """At the model's `input_rate_hz`."""
    key: str


@dataclass(frozen=True, slots=True)
class ImagePart:
    """`key` is a digest of the content, under which results may be cached."""

    pixels: npt.NDArray[np.uint8] = field(compare=False)
    """(height, width, 3)."""
    key: str


Part: TypeAlias = TextPart | AudioPart | ImagePart


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a conversation, its parts in their order."""

    role: Role
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class TextSampling:
    """How the text of an answer is sampled.  Temperature 0 takes the most probable token."""

    temperature: float = 0.0
    top_k: int = 0
    """0 has no limit."""
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    seed: int | None = None
    max_tokens: int = 2048
    stop: tuple[str, ...] = ()
    """Texts before which the answer ends."""


@dataclass(frozen=True, slots=True)
class AnswerRequest:
    """A conversation, whose last turn is answered.  `stream_id` and the fields from `sampling` on mean the same as in
    `SynthesisRequest`."""

    request_id: str
    stream_id: str
    turns: tuple[Turn, ...]
    voice: str | None
    """None: a text answer alone, which needs nothing of the speech engine."""
    text_sampling: TextSampling = TextSampling()
    sampling: Sampling = Sampling()
    utterance_index: int = 0
    streamed: bool = True
    live: bool = True
    initial_codec_chunk_frames: int | None = None


@dataclass(frozen=True, slots=True)
class Submit:
    """A new request.  It is accepted, or refused by `RequestFinished`."""

    request: SynthesisRequest


@dataclass(frozen=True, slots=True)
class SubmitAnswer:
    """A conversation to answer, for engines with `ModelInfo.answers`.  It is accepted, or refused by
    `RequestFinished`."""

    request: AnswerRequest


@dataclass(frozen=True, slots=True)
class Extend:
    """More text of a request that was submitted with `text_complete=False`.  Unknown ids are ignored."""

    request_id: str
    text: str
    complete: bool
    ids: tuple[int, ...] = ()
    """The next tokens, of a request that is given as tokens."""
    context: SpokenContext | None = None
    """The context, for a request that was submitted before it was known."""


@dataclass(frozen=True, slots=True)
class Cancel:
    """Ends a request at any moment and forgets its unsent audio.

    Unknown and finished ids are ignored, since a cancel can arrive after the end.
    """

    request_id: str


class AudioSent(NamedTuple):
    """`samples` more of a request were sent to its listener, who now has `lead_s` seconds of audio left to play.

    A tuple, as `AudioReady`: there is one for every chunk, and a frozen dataclass takes three times as long to create.
    """

    request_id: str
    samples: int
    lead_s: float


@dataclass(frozen=True, slots=True)
class PlayoutEnd:
    """Corrects a listener's lead, such as after a cancel has emptied its buffer."""

    stream_id: str
    lead_s: float


@dataclass(frozen=True, slots=True)
class EndStream:
    """A listener has left: its requests end, and the engine forgets it."""

    stream_id: str


EngineCommand: TypeAlias = Submit | SubmitAnswer | Extend | Cancel | AudioSent | PlayoutEnd | EndStream


class FinishReason(StrEnum):
    COMPLETE = "complete"
    TRUNCATED = "truncated"
    """All audio that was made is in events, but the model stopped before the end of the text."""
    CANCELLED = "cancelled"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class SynthesisMetrics:
    """Times and sizes of one request, measured by the engine."""

    queue_s: float
    """From submission to the first stage's first launch."""
    synthesis_s: float
    """From the first launch to the end."""
    audio_s: float
    chunks: int
    initial_chunk_frames: int | None
    """None where nothing was decoded."""

    @property
    def rtf(self) -> float | None:
        """Wall seconds / audio seconds, or None where there was no audio."""
        return self.synthesis_s / self.audio_s if self.audio_s else None


class AudioReady(NamedTuple):
    """The next samples of a request, in order, without overlap: `samples_per_frame` for each frame that is played."""

    request_id: str
    samples: Samples


@dataclass(frozen=True, slots=True)
class Word:
    """The time of a word.  `[start, end)` are its characters in the request's text; times count from the request's
    first sample."""

    start: int
    end: int
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class WordsReady:
    """The next words of a request, in order; they precede their audio."""

    request_id: str
    words: tuple[Word, ...]


@dataclass(frozen=True, slots=True)
class CodesReady:
    """The next codec frames of a request, in a form that only its model reads.  They precede their audio."""

    request_id: str
    offset: int
    """Bytes of its codes that came before these."""
    codes: bytes


@dataclass(frozen=True, slots=True)
class RequestAccepted:
    """A request that was submitted before its text (`SynthesisRequest.awaits_text`) was not refused, or if it is not
    live, it was admitted."""

    request_id: str


@dataclass(frozen=True, slots=True)
class TextReady:
    """The next text of an answer, in order, whole characters only; it precedes its audio."""

    request_id: str
    text: str
    tokens: int = 0
    """How many tokens of the answer were written for it."""


class TextEnd(StrEnum):
    """Why the text of an answer ends."""

    STOP = "stop"
    """The model has ended it, or one of `TextSampling.stop` was found."""
    LENGTH = "length"
    """At `TextSampling.max_tokens`."""
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class TextFinished:
    """The text of an answer is complete; its audio may continue."""

    request_id: str
    end: TextEnd
    prompt_tokens: int
    tokens: int
    """Of the answer."""


@dataclass(frozen=True, slots=True)
class RequestFinished:
    """The last event of every request, exactly once, for every kind of end."""

    request_id: str
    reason: FinishReason
    metrics: SynthesisMetrics | None = None
    """None where the request was refused before it reached the engine."""
    error: RealtimeTTSError | None = None


EngineEvent: TypeAlias = (
    AudioReady | WordsReady | CodesReady | RequestAccepted | TextReady | TextFinished | RequestFinished
)
EventSink: TypeAlias = Callable[[EngineEvent], None]


@dataclass(frozen=True, slots=True)
class ReplicaStatus:
    """The state of one of several engines that serve as one."""

    name: str
    ready: bool
    reason: str
    listeners: int
    capacity: int | None


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """`ready` is what /readyz answers; `reason` says why it is not ready."""

    ready: bool
    reason: str
    active_requests: int = 0
    waiting_requests: int = 0
    """Of those, the ones that wait for admission."""
    capacity: int | None = None
    """Listeners that are admitted at once, at present; None where all are."""
    costs: PipelineCosts | None = None
    """What launches cost, fitted to those that were measured."""
    replicas: tuple[ReplicaStatus, ...] = ()
    """Where it is several engines in other processes."""
    queued_requests: int = 0
    """Utterances that are queued because nobody listens to them yet."""


class EngineHandle(Protocol):
    """The engine's interface to its callers: in this process, in another, or on another machine."""

    @property
    def info(self) -> ModelInfo: ...

    def send(self, command: EngineCommand, sink: EventSink | None = None) -> None:
        """Never blocks.

        `sink` is required with `Submit` and `SubmitAnswer`: it gets the request's events, on the caller's event loop.
        """
        ...

    def status(self) -> EngineStatus: ...
