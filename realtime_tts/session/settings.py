"""The settings of a session, and how a `Configure` changes them."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypedDict, TypeVar

from msgspec import UNSET, UnsetType

from realtime_tts.audio.format import AudioFormat
from realtime_tts.engine.api import ModelInfo, Reference, Sampling
from realtime_tts.errors import InvalidConfig
from realtime_tts.session.inputs import Configure
from realtime_tts.text.cleaner import TextFilter
from realtime_tts.text.languages import AUTO, primary_language
from realtime_tts.text.pronunciations import NO_PRONUNCIATIONS, Pronunciations
from realtime_tts.text.splitter import Granularity
from realtime_tts.text.unicode import printable

T = TypeVar("T")
N = TypeVar("N", int, float)

MIN_SPEED, MAX_SPEED = 0.25, 4.0
MAX_INITIAL_CHUNK_FRAMES = 1000
MAX_INSTRUCTION_CHARS = 4096
MODALITIES = frozenset({"text", "audio"})
TEXT_ALONE = frozenset({"text"})
MIN_INPUT_RATE_HZ, MAX_INPUT_RATE_HZ = 8000, 48_000
CUSTOM_VOICE = "CustomVoice"
"""The `task_type` of speech with a voice of the model."""
VOICE_SCHEME = "voice:"
"""`ref_audio` that names an uploaded voice."""


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """Validated values.  An utterance keeps the settings that were in force when it began."""

    voice: str | None
    audio_format: AudioFormat
    sample_rate_hz: int | None = None
    """As configured; None is the format's default."""
    language: str = AUTO
    stream_audio: bool = False
    speed: float = 1.0
    split_granularity: Granularity = "sentence"
    max_buffer_delay_s: float = 3.0
    """Buffered text is spoken after this time without more text; 0: never."""
    text_filters: frozenset[TextFilter] = frozenset()
    pronunciations: Pronunciations = NO_PRONUNCIATIONS
    initial_codec_chunk_frames: int | None = None
    sampling: Sampling = field(default_factory=Sampling)
    instructions: str | None = None
    reference: Reference | None = None
    ref_text: str | None = None
    x_vector_only_mode: bool = False
    speaker_embedding: tuple[float, ...] | None = None
    word_timestamps: bool = False
    timestamps_in_audio: bool = False
    """Word times are sent in the messages of the audio."""
    frame_header: bool = False
    continuity_threshold_s: float = 0.1
    on_new_context: str = "queue"
    modalities: frozenset[str] = MODALITIES
    """Of answers."""
    input_rate_hz: int | None = None
    """Of audio from the client, as configured; None is the rate that the model reads."""
    live: bool = True
    """As in `Configure`."""

    @classmethod
    def default(cls, info: ModelInfo) -> "SessionSettings":
        """Whole wav files: the default that public clients of this protocol expect."""
        return cls(
            voice=info.default_voice,
            audio_format=AudioFormat.parse("wav", info.sample_rate_hz),
            modalities=MODALITIES if info.voices or not info.answers else TEXT_ALONE,
        )

    @property
    def primary_language(self) -> str | None:
        """The primary BCP-47 subtag, or None for automatic."""
        return None if self.language == AUTO else primary_language(self.language)

    def text_language(self, info: ModelInfo) -> str:
        """The primary BCP-47 subtag of the text: as configured, or that of the voice."""
        if self.language != AUTO:
            return primary_language(self.language)
        return primary_language((self.voice and info.language_of(self.voice)) or "en")

    @property
    def has_voice(self) -> bool:
        return self.voice is not None or self.reference is not None or self.speaker_embedding is not None


def uploaded_voice(config: Configure, info: ModelInfo) -> str | None:
    """The configured voice if it is not one of the model's own and may have been uploaded; otherwise None."""
    if not isinstance(config.voice, str) or not info.clones_voices:
        return None
    name = info.unaliased(config.voice)
    return None if name in info.voice_names else name


def apply_config(
    current: SessionSettings,
    config: Configure,
    info: ModelInfo,
    reference: Reference | None = None,
) -> tuple[SessionSettings, tuple[str, ...]]:
    """The settings after `config`, and the names of fields that have no effect with this model.

    `reference` is the fetched recording of `config.ref_audio` or of an `uploaded_voice`.  Raises `InvalidConfig`,
    `UnknownVoice` or `UnsupportedFormat` with the field's name; `current` then remains in force.
    """
    default = SessionSettings.default(info)
    ignored = [*config.unknown, *_ignored_fields(config, info)]
    _reject_unsupported(config, info)
    voice = _chosen(config.voice, current.voice, default.voice)
    if isinstance(config.voice, str) and not info.selects_voices:
        voice = None
        ignored.append("voice")
    if voice is not None and voice != current.voice and (uploaded_voice(config, info) is None or reference is None):
        voice = info.find_voice(voice)
    if reference is None and config.voice is UNSET and config.ref_audio is UNSET:
        reference = current.reference
    rate_hz = _chosen(config.sample_rate_hz, current.sample_rate_hz, None)
    threshold_s = _chosen(config.continuity_threshold_s, current.continuity_threshold_s, default.continuity_threshold_s)
    delay_s = _chosen(config.max_buffer_delay_s, current.max_buffer_delay_s, default.max_buffer_delay_s)
    settings = replace(
        current,
        voice=voice,
        audio_format=_format(
            _chosen(config.response_format, current.audio_format.encoding.value, "wav"), rate_hz, info
        ),
        sample_rate_hz=rate_hz,
        language=_language(_chosen(config.language, current.language, default.language), info),
        stream_audio=_chosen(config.stream_audio, current.stream_audio, default.stream_audio),
        speed=_between("speed", _chosen(config.speed, current.speed, default.speed), MIN_SPEED, MAX_SPEED),
        split_granularity=_granularity(_chosen(config.split_granularity, current.split_granularity, "sentence")),
        max_buffer_delay_s=_between("max_buffer_delay_ms", delay_s * 1000, 0.0, 600_000.0) / 1000,
        text_filters=_filters(_chosen(config.text_filters, tuple(current.text_filters), ())),
        pronunciations=_pronunciations(config, current, info),
        initial_codec_chunk_frames=_initial_chunk(
            _chosen(config.initial_codec_chunk_frames, current.initial_codec_chunk_frames, None)
        ),
        sampling=_sampling(config, current.sampling),
        word_timestamps=_chosen(config.word_timestamps, current.word_timestamps, False),
        timestamps_in_audio=_chosen(config.timestamps_in_audio, current.timestamps_in_audio, False),
        frame_header=_chosen(config.frame_header, current.frame_header, False),
        continuity_threshold_s=_between("continuity_threshold_ms", threshold_s * 1000, 0.0, 60_000.0) / 1000,
        on_new_context=_one_of(
            "on_new_context", _chosen(config.on_new_context, current.on_new_context, "queue"), ("queue", "interrupt")
        ),
        modalities=_modalities(_chosen(config.modalities, tuple(current.modalities), tuple(default.modalities))),
        input_rate_hz=_optionally_between(
            "input_sample_rate",
            _chosen(config.input_rate_hz, current.input_rate_hz, None),
            MIN_INPUT_RATE_HZ,
            MAX_INPUT_RATE_HZ,
        ),
        live=_chosen(config.live, current.live, True),
        **_conditioning(config, current, reference, info),
    )
    return settings, tuple(ignored)


def _chosen(value: T | UnsetType | None, current: T, default: T) -> T:
    if isinstance(value, UnsetType):
        return current
    return default if value is None else value


def _language(name: str, info: ModelInfo) -> str:
    if name.lower() == AUTO.lower():
        return AUTO
    primary = primary_language(name)
    supported = {primary_language(voice.language) for voice in info.voices} | set(info.languages)
    if primary not in supported:
        message = f"{info.name} has no voice for {printable(name)!r}; its languages: {', '.join(sorted(supported))}"
        raise InvalidConfig(message, param="language")
    return printable(name)


def _format(name: str, rate_hz: int | None, info: ModelInfo) -> AudioFormat:
    return AudioFormat.parse(
        name, AudioFormat.default_rate_hz(name, info.sample_rate_hz) if rate_hz is None else rate_hz
    )


def _ignored_fields(config: Configure, info: ModelInfo) -> Iterator[str]:
    """Sampling fields that the model does not have: ignored, since the speech is equally good without them."""
    for name, value in (
        ("seed", config.seed),
        ("temperature", config.temperature),
        ("top_k", config.top_k),
        ("top_p", config.top_p),
        ("repetition_penalty", config.repetition_penalty),
        ("max_new_tokens", config.max_new_tokens),
    ):
        if name not in info.fields and not isinstance(value, UnsetType | None):
            yield name


def _reject_unsupported(config: Configure, info: ModelInfo) -> None:
    """Rejects fields that the model does not have and that change the voice: ignoring them would surprise a client."""
    for name, value in (
        ("instructions", config.instructions),
        ("ref_audio", config.ref_audio),
        ("ref_text", config.ref_text),
        ("x_vector_only_mode", config.x_vector_only_mode),
        ("speaker_embedding", config.speaker_embedding),
    ):
        if name == "instructions" and info.answers:
            continue  # the system prompt of its Thinker
        if value and not isinstance(value, UnsetType) and name not in info.fields:
            raise InvalidConfig(f"{info.name} does not support this field", param=name)
    answer_fields = {"modalities": config.modalities, "input_sample_rate": config.input_rate_hz}
    for name, field_value in answer_fields.items():
        if field_value and not info.answers:  # UNSET is false
            raise InvalidConfig(f"{info.name} answers no conversations", param=name)
    if config.modalities and "audio" in config.modalities and not info.voices:
        raise InvalidConfig(f"{info.name} answers in text alone", param="modalities")
    _check_task_type(config.task_type, info)


def _check_task_type(name: str | UnsetType | None, info: ModelInfo) -> None:
    """A model without task types has one if it has voices of its own: to speak with these is what CustomVoice means."""
    own = info.task_type or (CUSTOM_VOICE if info.voices else None)
    if isinstance(name, str) and name != own:
        kind = "no task types" if own is None else f"{own} only"
        raise InvalidConfig(f"{info.name} has {kind}, got {printable(name)!r}", param="task_type")


def _initial_chunk(frames: int | None) -> int | None:
    """0 leaves the choice to the server, as in vLLM-Omni."""
    return _optionally_between("initial_codec_chunk_frames", frames, 0, MAX_INITIAL_CHUNK_FRAMES) or None


def _granularity(name: str) -> Granularity:
    match name:
        case "sentence" | "clause" | "none":
            return name
    raise InvalidConfig(f"must be sentence, clause or none, got {printable(name)!r}", param="split_granularity")


def _one_of(field: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise InvalidConfig(f"must be {' or '.join(allowed)}, got {printable(value)!r}", param=field)
    return value


def _modalities(names: Sequence[str]) -> frozenset[str]:
    if not names or not set(names) <= MODALITIES:
        listed = ", ".join(printable(name) for name in names)
        raise InvalidConfig(f"must be text, audio or both, got {listed or 'none'}", param="modalities")
    return frozenset(names)


def _filters(names: Sequence[str]) -> frozenset[TextFilter]:
    known = {each.value for each in TextFilter}
    if unknown := [name for name in names if name not in known]:
        message = f"unknown filter {printable(unknown[0])!r}; must be some of {', '.join(sorted(known))}"
        raise InvalidConfig(message, param="text_filters")
    return frozenset(TextFilter(name) for name in names)


def _pronunciations(config: Configure, current: SessionSettings, info: ModelInfo) -> Pronunciations:
    chosen = _chosen(config.pronunciations, None, {})
    if chosen is None:
        return current.pronunciations
    pronunciations = Pronunciations(chosen)
    for word, ipa in pronunciations.ipa:
        if "pronunciations" not in info.fields:
            message = f"{info.name} does not support IPA; respell {printable(word)!r} with letters"
            raise InvalidConfig(message, param="pronunciations")
        if unknown := set(ipa) - info.ipa_symbols - {" "}:
            message = f"{info.name} has no IPA symbol {printable(min(unknown))!r}, used in {printable(ipa)!r}"
            raise InvalidConfig(message, param="pronunciations")
    return pronunciations


def _sampling(config: Configure, current: Sampling) -> Sampling:
    return Sampling(
        seed=_optionally_between("seed", _chosen(config.seed, current.seed, None), 0, 2**63 - 1),
        temperature=_optionally_between(
            "temperature", _chosen(config.temperature, current.temperature, None), 0.0, 5.0
        ),
        top_k=_optionally_between("top_k", _chosen(config.top_k, current.top_k, None), 1, 100_000),
        top_p=_optionally_between("top_p", _chosen(config.top_p, current.top_p, None), 0.0, 1.0),
        repetition_penalty=_optionally_between(
            "repetition_penalty", _chosen(config.repetition_penalty, current.repetition_penalty, None), 0.1, 10.0
        ),
        max_new_tokens=_optionally_between(
            "max_new_tokens", _chosen(config.max_new_tokens, current.max_new_tokens, None), 2, 32_768
        ),
    )


class _Conditioning(TypedDict):
    instructions: str | None
    reference: Reference | None
    ref_text: str | None
    x_vector_only_mode: bool
    speaker_embedding: tuple[float, ...] | None


def _conditioning(
    config: Configure, current: SessionSettings, reference: Reference | None, info: ModelInfo
) -> _Conditioning:
    """The fields that determine the voice and the manner of speaking."""
    instructions = _chosen(config.instructions, current.instructions, None)
    if instructions is not None and len(instructions) > MAX_INSTRUCTION_CHARS:
        message = f"must have at most {MAX_INSTRUCTION_CHARS} characters, got {len(instructions)}"
        raise InvalidConfig(message, param="instructions")
    ref_text = _chosen(config.ref_text, current.ref_text, None)
    x_vector_only = _chosen(config.x_vector_only_mode, current.x_vector_only_mode, False)
    if reference is not None:
        if uploaded_voice(config, info) is not None and not (ref_text or reference.text):
            x_vector_only = True  # its transcript is not known
        if not x_vector_only and not (ref_text or reference.text):
            raise InvalidConfig("must be the transcript of ref_audio; or set x_vector_only_mode", param="ref_text")
        reference = replace(reference, text=ref_text or reference.text, x_vector_only=x_vector_only)
    embedding = _chosen(config.speaker_embedding, current.speaker_embedding, None)
    if embedding is not None and not all(math.isfinite(value) for value in embedding):
        raise InvalidConfig("must be finite numbers", param="speaker_embedding")
    return _Conditioning(
        instructions=instructions,
        reference=reference,
        ref_text=ref_text,
        x_vector_only_mode=x_vector_only,
        speaker_embedding=embedding,
    )


def _optionally_between(field: str, value: N | None, low: float, high: float) -> N | None:
    if value is not None:
        _between(field, value, low, high)
    return value


def _between(field: str, value: float, low: float, high: float) -> float:
    if not low <= value <= high:  # also refuses NaN
        raise InvalidConfig(f"must be from {low:g} to {high:g}, got {str(value)[:40]}", param=field)
    return value
