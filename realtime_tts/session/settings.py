"""What a session has agreed on: `session.config` applied, field by field, to what was in force before."""

from dataclasses import dataclass, replace
from typing import TypeVar

from msgspec import UNSET, UnsetType

from realtime_tts.audio.format import AudioFormat
from realtime_tts.engine.api import ModelInfo
from realtime_tts.errors import InvalidConfig, UnknownVoice
from realtime_tts.session.messages import ConfigInForce, SessionConfig, printable

T = TypeVar("T")

MIN_SPEED, MAX_SPEED = 0.25, 4.0
MAX_INITIAL_CHUNK_FRAMES = 1000
AUTO = "Auto"

LANGUAGE_NAMES = {
    "chinese": "zh",
    "english": "en",
    "french": "fr",
    "german": "de",
    "italian": "it",
    "japanese": "ja",
    "korean": "ko",
    "portuguese": "pt",
    "russian": "ru",
    "spanish": "es",
}
"""Names that public clients of this protocol send in place of BCP-47 tags (Qwen3-TTS's languages)."""


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """Values in force, all checked.  An utterance keeps those that were in force when it began."""

    voice: str | None
    format: AudioFormat
    language: str = AUTO
    stream_audio: bool = False
    speed: float = 1.0
    initial_codec_chunk_frames: int | None = None
    continuity_threshold_s: float = 0.1

    @classmethod
    def default(cls, info: ModelInfo) -> "SessionSettings":
        """Whole wav files, as public clients of this protocol expect where they ask for nothing else."""
        return cls(voice=info.default_voice, format=AudioFormat.parse("wav", info.sample_rate_hz))

    def in_force(self, info: ModelInfo) -> ConfigInForce:
        return ConfigInForce(
            model=info.name,
            voice=self.voice,
            language=self.language,
            response_format=self.format.encoding.value,
            sample_rate=self.format.sample_rate_hz,
            stream_audio=self.stream_audio,
            speed=self.speed,
            initial_codec_chunk_frames=self.initial_codec_chunk_frames,
            continuity_threshold_ms=self.continuity_threshold_s * 1000,
        )


def apply_config(
    current: SessionSettings, config: SessionConfig, info: ModelInfo
) -> tuple[SessionSettings, tuple[str, ...]]:
    """The settings after `config`, and the keys that were ignored because they change nothing here.

    Raises `InvalidConfig`, `UnknownVoice` or `UnsupportedFormat`, naming the field; nothing is then changed.
    """
    default = SessionSettings.default(info)
    ignored = list(config.unknown)
    if isinstance(config.model, str) and config.model != info.name:
        ignored.append("model")  # one model is loaded: `session.updated` says which
    voice = config.voice if config.voice is not UNSET else config.speaker
    threshold_ms = _chosen(
        config.continuity_threshold_ms, current.continuity_threshold_s * 1000, default.continuity_threshold_s * 1000
    )
    settings = replace(
        current,
        voice=_voice(_chosen(voice, current.voice, default.voice), info),
        format=AudioFormat.parse(
            _chosen(config.response_format, current.format.encoding.value, default.format.encoding.value),
            _chosen(config.sample_rate, current.format.sample_rate_hz, default.format.sample_rate_hz),
        ),
        language=_language(_chosen(config.language, current.language, default.language), info),
        stream_audio=_chosen(config.stream_audio, current.stream_audio, default.stream_audio),
        speed=_speed(_chosen(config.speed, current.speed, default.speed), info),
        initial_codec_chunk_frames=_initial_chunk(
            _chosen(config.initial_codec_chunk_frames, current.initial_codec_chunk_frames, None)
        ),
        continuity_threshold_s=_between("continuity_threshold_ms", threshold_ms, 0.0, 60_000.0) / 1000,
    )
    return settings, tuple(ignored)


def primary_language(name: str) -> str:
    """The primary BCP-47 subtag of a language's name or tag: English, en-US and en_GB are all en."""
    return LANGUAGE_NAMES.get(name.lower()) or name.lower().replace("_", "-").split("-")[0]


def _chosen(value: T | UnsetType | None, current: T, default: T) -> T:
    if isinstance(value, UnsetType):
        return current
    return default if value is None else value


def _voice(name: str | None, info: ModelInfo) -> str | None:
    if name is not None and name not in info.voice_names:
        raise UnknownVoice(f"there is no voice {name[:80]!r}; GET /v1/audio/voices lists those of {info.name}")
    return name


def _language(name: str, info: ModelInfo) -> str:
    if name.lower() == AUTO.lower():
        return AUTO
    primary = primary_language(name)
    spoken = {primary_language(voice.language) for voice in info.voices}
    if primary not in spoken:
        raise InvalidConfig(
            f"language: {info.name} has no voice for {printable(name)!r}; it speaks {', '.join(sorted(spoken))}"
        )
    return printable(name)


def _speed(speed: float, info: ModelInfo) -> float:
    if speed != 1.0 and "speed" not in info.fields:
        raise InvalidConfig(f"speed: {info.name} speaks at its own pace only")
    return _between("speed", speed, MIN_SPEED, MAX_SPEED)


def _initial_chunk(frames: int | None) -> int | None:
    if frames is None:
        return None
    return int(_between("initial_codec_chunk_frames", frames, 1, MAX_INITIAL_CHUNK_FRAMES))


def _between(field: str, value: float, low: float, high: float) -> float:
    if not low <= value <= high:  # so written, it also refuses NaN
        raise InvalidConfig(f"{field}: must be from {low:g} to {high:g}, got {str(value)[:40]}")
    return value
