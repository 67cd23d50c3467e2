"""Configuration files of a published Qwen3-TTS directory, read strictly and without importing torch."""

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Literal

from realtime_tts.engine.models.qwen3.config import TalkerStackConfig, read_json


class ModelType(StrEnum):
    CUSTOM_VOICE = "custom_voice"
    VOICE_DESIGN = "voice_design"
    BASE = "base"


@dataclass(frozen=True, slots=True)
class RopeScaling:
    """Three position axes interleaved.  The Talker's are always equal, so it is plain RoPE (reference, measured)."""

    rope_type: Literal["default"] = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class TalkerConfig(TalkerStackConfig):
    rope_scaling: RopeScaling | None = None
    text_hidden_size: int
    text_vocab_size: int
    codec_bos_id: int
    codec_pad_id: int
    codec_think_id: int
    codec_nothink_id: int
    codec_think_bos_id: int
    codec_think_eos_id: int
    codec_language_id: dict[str, int]
    spk_id: dict[str, int] = field(default_factory=dict)
    spk_is_dialect: dict[str, str | bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Not super(): see CodeStackConfig.
        TalkerStackConfig.__post_init__(self)
        tags = (self.codec_bos_id, self.codec_pad_id, self.codec_think_id, self.codec_nothink_id)
        ids = (*tags, self.codec_think_bos_id, self.codec_think_eos_id, *self.codec_language_id.values())
        if bad := [i for i in (*ids, *self.spk_id.values()) if not 0 <= i < self.vocab_size]:
            raise ValueError(f"codec ids {bad} are outside the vocabulary")
        for speaker, dialect in self.spk_is_dialect.items():
            if dialect is not False and dialect not in self.codec_language_id:
                raise ValueError(f"speaker {speaker} has the unknown dialect {dialect}")

    def dialect_of(self, speaker: str) -> str | None:
        """The dialect that a speaker's Chinese is; None for the standard language."""
        dialect = self.spk_is_dialect.get(speaker)
        return dialect if isinstance(dialect, str) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    tts_model_type: ModelType
    tts_model_size: str
    tokenizer_type: Literal["qwen3_tts_tokenizer_12hz"]
    talker_config: TalkerConfig
    im_start_token_id: int = 151_644
    im_end_token_id: int = 151_645
    tts_pad_token_id: int = 151_671
    tts_bos_token_id: int = 151_672
    tts_eos_token_id: int = 151_673

    def __post_init__(self) -> None:
        tts = (self.tts_pad_token_id, self.tts_bos_token_id, self.tts_eos_token_id)
        for token in (self.im_start_token_id, self.im_end_token_id, *tts):
            if not 0 <= token < self.talker_config.text_vocab_size:
                raise ValueError(f"text id {token} is outside the vocabulary")
        if self.tts_model_type is ModelType.CUSTOM_VOICE and not self.talker_config.spk_id:
            raise ValueError("a custom_voice model without a speaker")

    @property
    def speakers(self) -> tuple[str, ...]:
        return tuple(self.talker_config.spk_id)

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages that a request may name, such as english.  A dialect is selected by its speaker."""
        return tuple(name for name in self.talker_config.codec_language_id if "dialect" not in name)

    @property
    def supports_instructions(self) -> bool:
        """The prompt of a voice clone has no instruction, and the small CustomVoice ignores it."""
        if self.tts_model_type is ModelType.CUSTOM_VOICE:
            return self.tts_model_size != "0b6"
        return self.tts_model_type is ModelType.VOICE_DESIGN


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationConfig:
    """The published sampling parameters.  A value that the file omits has the reference's default."""

    do_sample: bool = True
    temperature: float = 0.9
    top_k: int = 50
    top_p: float = 1.0
    repetition_penalty: float = 1.05
    subtalker_dosample: bool = True
    subtalker_temperature: float = 0.9
    subtalker_top_k: int = 50
    subtalker_top_p: float = 1.0
    max_new_tokens: int = 2048


def read_config(directory: Path) -> ModelConfig:
    """Reads `config.json`.  Raises ModelNotUsable, which names the invalid field."""
    return read_json(directory / "config.json", ModelConfig)


def read_generation_config(directory: Path) -> GenerationConfig:
    """Reads `generation_config.json`.  Raises ModelNotUsable."""
    return read_json(directory / "generation_config.json", GenerationConfig)
