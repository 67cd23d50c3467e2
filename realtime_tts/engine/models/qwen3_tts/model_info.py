"""`ModelInfo` of a Qwen3-TTS model: voices, languages as BCP-47 tags, and the supported fields of a request."""

import re

from realtime_tts.engine.api import ModelInfo, Voice
from realtime_tts.engine.models.qwen3_tts.config import ModelConfig, ModelType
from realtime_tts.engine.voice_names import QWEN3_TTS_VOICES
from realtime_tts.errors import InvalidConfig
from realtime_tts.text.languages import NAME_OF_SUBTAG, SUBTAG_OF_NAME, UNDETERMINED, primary_language

SAMPLE_RATE_HZ = 24_000
SAMPLES_PER_FRAME = 1920

NATIVE_LANGUAGES = {
    "vivian": "zh",
    "serena": "zh",
    "uncle_fu": "zh",
    "dylan": "zh-CN",
    "eric": "zh-CN",
    "ryan": "en",
    "aiden": "en-US",
    "ono_anna": "ja",
    "sohee": "ko",
}
"""Native language of each published speaker; all speak all ten languages (README of github.com/QwenLM/Qwen3-TTS,
"Custom Voice Generate").  With a region where that list names one: Dylan is of Beijing, Eric of Chengdu, Aiden
American."""
DEFAULT_SPEAKER = "vivian"
"""The first of that list, and the speaker of its first example: the publisher names no default."""
VOICE_ALIASES = {
    "alloy": "serena",
    "ash": "aiden",
    "ballad": "ryan",
    "cedar": "ryan",
    "coral": "vivian",
    "echo": "aiden",
    "fable": "ryan",
    "marin": "serena",
    "nova": "vivian",
    "onyx": "uncle_fu",
    "sage": "sohee",
    "shimmer": "ono_anna",
    "verse": "aiden",
}
"""Speakers for the voices of OpenAI's API, of the same gender.  None with a dialect, which would change the
language."""
SILENT_FRAMES = 1
"""A CustomVoice begins with 80 ms of digital silence, at most -103 dBFS over 2229 requests (published measurement,
github.com/sgl-project/sglang-omni, pull 1901)."""
RESUME_FADE_S = 0.005
"""With the same seed a sentence is made again with the same codes, up to the rounding of another batch."""

TASK_TYPES = {
    ModelType.CUSTOM_VOICE: "CustomVoice",
    ModelType.VOICE_DESIGN: "VoiceDesign",
    ModelType.BASE: "Base",
}
SAMPLING_FIELDS = frozenset({"seed", "temperature", "top_k", "top_p", "repetition_penalty", "max_new_tokens"})
CLONING_FIELDS = frozenset({"ref_audio", "ref_text", "x_vector_only_mode", "speaker_embedding"})


def describe(config: ModelConfig, name: str) -> ModelInfo:
    """The description of a model with this configuration."""
    fields = SAMPLING_FIELDS
    if config.supports_instructions:
        fields |= {"instructions"}
    if config.tts_model_type is ModelType.BASE:
        fields |= CLONING_FIELDS
    default_voice = _default_speaker(config.speakers)
    return ModelInfo(
        name=name,
        sample_rate_hz=SAMPLE_RATE_HZ,
        samples_per_frame=SAMPLES_PER_FRAME,
        voices=tuple(Voice(speaker, _native_language(config, speaker)) for speaker in config.speakers),
        default_voice=default_voice,
        voice_aliases={} if default_voice is None else _voice_aliases(config.speakers, default_voice),
        languages=tuple(sorted(SUBTAG_OF_NAME.get(language, language) for language in config.languages)),
        # A cloned voice needs the whole text: the prompt places it beside the recording.
        reads_ahead=config.tts_model_type is not ModelType.BASE,
        fields=fields,
        task_type=TASK_TYPES[config.tts_model_type],
        resume_fade_s=RESUME_FADE_S,
        silent_frames=SILENT_FRAMES if config.tts_model_type is ModelType.CUSTOM_VOICE else 0,
    )


def model_name(directory: str, config: ModelConfig) -> str:
    """The directory's name if it looks like a published one, otherwise a name made of the model's type."""
    if re.fullmatch(r"qwen3[\w.-]*", directory, re.IGNORECASE | re.ASCII):
        return directory
    return f"Qwen3-TTS-12Hz-{TASK_TYPES[config.tts_model_type]}"


def language_name(config: ModelConfig, tag: str | None) -> str | None:
    """The model's own name of a language, by its BCP-47 tag; None: the model chooses.  Raises InvalidConfig."""
    primary = UNDETERMINED if tag is None else primary_language(tag)
    if primary == UNDETERMINED:
        return None
    name = NAME_OF_SUBTAG.get(primary, primary)
    if name not in config.languages:
        raise InvalidConfig(
            f"language: this model does not speak {primary[:80]!r}; it speaks {', '.join(config.languages)}"
        )
    return name


def _native_language(config: ModelConfig, speaker: str) -> str:
    if config.talker_config.dialect_of(speaker) is not None:
        return "zh-CN"  # all dialects of the model are Chinese
    return NATIVE_LANGUAGES.get(speaker, UNDETERMINED)


def _voice_aliases(speakers: tuple[str, ...], default_voice: str) -> dict[str, str]:
    """The default speaker stands for all that a checkpoint with speakers of its own does not have."""
    names = {**VOICE_ALIASES, **{name: name for name in QWEN3_TTS_VOICES}}
    return {
        alias: speaker if speaker in speakers else default_voice
        for alias, speaker in names.items()
        if alias not in speakers
    }


def _default_speaker(speakers: tuple[str, ...]) -> str | None:
    if DEFAULT_SPEAKER in speakers:
        return DEFAULT_SPEAKER
    return speakers[0] if speakers else None
