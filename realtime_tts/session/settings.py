"""What a session has agreed on: `session.config` applied, field by field, to what was in force before."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypedDict, TypeVar

from msgspec import UNSET, UnsetType

from realtime_tts.audio.format import AudioFormat
from realtime_tts.engine.api import ModelInfo, Reference, Sampling
from realtime_tts.errors import InvalidConfig, UnknownVoice
from realtime_tts.session.messages import ConfigInForce, SessionConfig, printable
from realtime_tts.text.cleaner import TextFilter
from realtime_tts.text.languages import AUTO, primary_language
from realtime_tts.text.pronunciations import NO_PRONUNCIATIONS, Pronunciations
from realtime_tts.text.splitter import Granularity

T = TypeVar("T")
N = TypeVar("N", int, float)

MIN_SPEED, MAX_SPEED = 0.25, 4.0
MAX_INITIAL_CHUNK_FRAMES = 1000
MAX_INSTRUCTION_CHARS = 4096
VOICE_SCHEME = "voice:"
"""`ref_audio` that names an uploaded voice."""


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """Values in force, all checked.  An utterance keeps those that were in force when it began."""

    voice: str | None
    format: AudioFormat
    sample_rate_hz: int | None = None
    """As asked for; None takes the format's own."""
    language: str = AUTO
    stream_audio: bool = False
    speed: float = 1.0
    split_granularity: Granularity = "sentence"
    max_buffer_delay_s: float = 3.0
    """Text that waits with no more coming is spoken after so long; 0 waits for ever."""
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
    frame_header: bool = False
    continuity_threshold_s: float = 0.1
    on_new_context: str = "queue"

    @classmethod
    def default(cls, info: ModelInfo) -> "SessionSettings":
        """Whole wav files, as public clients of this protocol expect where they ask for nothing else."""
        return cls(voice=info.default_voice, format=AudioFormat.parse("wav", info.sample_rate_hz))

    def in_force(self, info: ModelInfo) -> ConfigInForce:
        return ConfigInForce(
            model=info.name,
            voice=self.voice,
            task_type=info.task_type,
            language=self.language,
            instructions=self.instructions,
            ref_audio=None if self.reference is None else self.reference.key,
            ref_text=self.ref_text,
            x_vector_only_mode=self.x_vector_only_mode,
            speaker_embedding=None if self.speaker_embedding is None else len(self.speaker_embedding),
            response_format=self.format.encoding.value,
            sample_rate=self.format.sample_rate_hz,
            stream_audio=self.stream_audio,
            speed=self.speed,
            split_granularity=self.split_granularity,
            max_buffer_delay_ms=self.max_buffer_delay_s * 1000,
            text_filters=tuple(sorted(self.text_filters)),
            pronunciations=dict(self.pronunciations.words),
            initial_codec_chunk_frames=self.initial_codec_chunk_frames,
            max_new_tokens=self.sampling.max_new_tokens,
            seed=self.sampling.seed,
            temperature=self.sampling.temperature,
            top_k=self.sampling.top_k,
            top_p=self.sampling.top_p,
            repetition_penalty=self.sampling.repetition_penalty,
            word_timestamps=self.word_timestamps,
            frame_header=self.frame_header,
            continuity_threshold_ms=self.continuity_threshold_s * 1000,
            on_new_context=self.on_new_context,
        )


def uploaded_voice(config: SessionConfig, info: ModelInfo) -> str | None:
    """The name of a voice that is none of the model's, and may have been uploaded; None where the config has none."""
    asked = config.voice if config.voice is not UNSET else config.speaker
    if not isinstance(asked, str) or asked in info.voice_names or "ref_audio" not in info.fields:
        return None
    return asked


def apply_config(
    current: SessionSettings,
    config: SessionConfig,
    info: ModelInfo,
    reference: Reference | None = None,
) -> tuple[SessionSettings, tuple[str, ...]]:
    """The settings after `config`, and the keys that were ignored because they change nothing here.

    `reference` is the recording that `config.ref_audio` or an `uploaded_voice` means, once it was fetched.
    Raises `InvalidConfig`, `UnknownVoice` or `UnsupportedFormat`, naming the field; nothing is then changed.
    """
    default = SessionSettings.default(info)
    ignored = [*config.unknown, *_harmless(config, info)]
    _refuse_unsupported(config, info)
    asked = config.voice if config.voice is not UNSET else config.speaker
    voice = _chosen(asked, current.voice, default.voice)
    if uploaded_voice(config, info) is None or reference is None:
        _check_voice(voice, current, info)
    if reference is None and isinstance(asked, UnsetType) and config.ref_audio is UNSET:
        reference = current.reference
    rate_hz = _chosen(config.sample_rate, current.sample_rate_hz, None)
    threshold_ms = _chosen(
        config.continuity_threshold_ms, current.continuity_threshold_s * 1000, default.continuity_threshold_s * 1000
    )
    delay_ms = _chosen(config.max_buffer_delay_ms, current.max_buffer_delay_s * 1000, default.max_buffer_delay_s * 1000)
    settings = replace(
        current,
        voice=voice,
        format=_format(_chosen(config.response_format, current.format.encoding.value, "wav"), rate_hz, info),
        sample_rate_hz=rate_hz,
        language=_language(_chosen(config.language, current.language, default.language), info),
        stream_audio=_chosen(config.stream_audio, current.stream_audio, default.stream_audio),
        speed=_between("speed", _chosen(config.speed, current.speed, default.speed), MIN_SPEED, MAX_SPEED),
        split_granularity=_granularity(_chosen(config.split_granularity, current.split_granularity, "sentence")),
        max_buffer_delay_s=_between("max_buffer_delay_ms", delay_ms, 0.0, 600_000.0) / 1000,
        text_filters=_filters(_chosen(config.text_filters, tuple(current.text_filters), ())),
        pronunciations=_pronunciations(config, current, info),
        initial_codec_chunk_frames=_optionally_between(
            "initial_codec_chunk_frames",
            _chosen(config.initial_codec_chunk_frames, current.initial_codec_chunk_frames, None),
            1,
            MAX_INITIAL_CHUNK_FRAMES,
        ),
        sampling=_sampling(config, current.sampling),
        word_timestamps=_chosen(config.word_timestamps, current.word_timestamps, False),
        frame_header=_chosen(config.frame_header, current.frame_header, False),
        continuity_threshold_s=_between("continuity_threshold_ms", threshold_ms, 0.0, 60_000.0) / 1000,
        on_new_context=_one_of(
            "on_new_context", _chosen(config.on_new_context, current.on_new_context, "queue"), ("queue", "interrupt")
        ),
        **_conditioning(config, current, reference, info),
    )
    return settings, tuple(ignored)


def _chosen(value: T | UnsetType | None, current: T, default: T) -> T:
    if isinstance(value, UnsetType):
        return current
    return default if value is None else value


def _check_voice(name: str | None, current: SessionSettings, info: ModelInfo) -> None:
    if name is not None and name != current.voice and name not in info.voice_names:
        raise UnknownVoice(f"there is no voice {name[:80]!r}; GET /v1/audio/voices lists those of {info.name}")


def _language(name: str, info: ModelInfo) -> str:
    if name.lower() == AUTO.lower():
        return AUTO
    primary = primary_language(name)
    spoken = {primary_language(voice.language) for voice in info.voices} | set(info.languages)
    if primary not in spoken:
        raise InvalidConfig(
            f"language: {info.name} has no voice for {printable(name)!r}; it speaks {', '.join(sorted(spoken))}"
        )
    return printable(name)


def _format(name: str, rate_hz: int | None, info: ModelInfo) -> AudioFormat:
    return AudioFormat.parse(
        name, AudioFormat.default_rate_hz(name, info.sample_rate_hz) if rate_hz is None else rate_hz
    )


def _harmless(config: SessionConfig, info: ModelInfo) -> Iterator[str]:
    """Fields that were sent and change nothing: what is heard is as good without them."""
    if isinstance(config.model, str) and config.model != info.name:
        yield "model"  # one model is loaded: `session.updated` says which
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


def _refuse_unsupported(config: SessionConfig, info: ModelInfo) -> None:
    """Fields without which something else would be heard than was asked for."""
    for name, value in (
        ("instructions", config.instructions),
        ("ref_audio", config.ref_audio),
        ("ref_text", config.ref_text),
        ("x_vector_only_mode", config.x_vector_only_mode),
        ("speaker_embedding", config.speaker_embedding),
    ):
        if value and not isinstance(value, UnsetType) and name not in info.fields:
            raise InvalidConfig(f"{name}: {info.name} cannot follow it")
    if isinstance(config.task_type, str) and config.task_type != info.task_type:
        kind = "no task types" if info.task_type is None else f"{info.task_type} only"
        raise InvalidConfig(f"task_type: {info.name} has {kind}, got {printable(config.task_type)!r}")


def _granularity(name: str) -> Granularity:
    match name:
        case "sentence" | "clause" | "none":
            return name
    raise InvalidConfig(f"split_granularity: must be sentence, clause or none, got {printable(name)!r}")


def _one_of(field: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise InvalidConfig(f"{field}: must be {' or '.join(allowed)}, got {printable(value)!r}")
    return value


def _filters(names: Sequence[str]) -> frozenset[TextFilter]:
    known = {each.value for each in TextFilter}
    if unknown := [name for name in names if name not in known]:
        raise InvalidConfig(
            f"text_filters: there is no {printable(unknown[0])!r}; there are {', '.join(sorted(known))}"
        )
    return frozenset(TextFilter(name) for name in names)


def _pronunciations(config: SessionConfig, current: SessionSettings, info: ModelInfo) -> Pronunciations:
    chosen = _chosen(config.pronunciations, None, {})
    if chosen is None:
        return current.pronunciations
    pronunciations = Pronunciations(chosen)
    for word, ipa in pronunciations.ipa:
        if "pronunciations" not in info.fields:
            raise InvalidConfig(f"pronunciations: {info.name} reads no IPA; spell {printable(word)!r} another way")
        if unknown := set(ipa) - info.ipa_symbols - {" "}:
            raise InvalidConfig(
                f"pronunciations: {info.name} has no sound for {printable(min(unknown))!r} in {printable(ipa)!r}"
            )
    return pronunciations


def _sampling(config: SessionConfig, current: Sampling) -> Sampling:
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
    config: SessionConfig, current: SessionSettings, reference: Reference | None, info: ModelInfo
) -> _Conditioning:
    """Whose voice, and in what manner."""
    instructions = _chosen(config.instructions, current.instructions, None)
    if instructions is not None and len(instructions) > MAX_INSTRUCTION_CHARS:
        raise InvalidConfig(f"instructions: at most {MAX_INSTRUCTION_CHARS} characters, got {len(instructions)}")
    ref_text = _chosen(config.ref_text, current.ref_text, None)
    x_vector_only = _chosen(config.x_vector_only_mode, current.x_vector_only_mode, False)
    if reference is not None:
        if uploaded_voice(config, info) is not None and not (ref_text or reference.text):
            x_vector_only = True  # nobody has said what is said in it
        if not x_vector_only and not (ref_text or reference.text):
            raise InvalidConfig("ref_text: say what is said in ref_audio, or set x_vector_only_mode")
        reference = replace(reference, text=ref_text or reference.text, x_vector_only=x_vector_only)
    embedding = _chosen(config.speaker_embedding, current.speaker_embedding, None)
    if embedding is not None and not all(math.isfinite(value) for value in embedding):
        raise InvalidConfig("speaker_embedding: must be finite numbers")
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
    if not low <= value <= high:  # so written, it also refuses NaN
        raise InvalidConfig(f"{field}: must be from {low:g} to {high:g}, got {str(value)[:40]}")
    return value
