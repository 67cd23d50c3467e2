"""`ModelInfo` of a Qwen3-Omni model: voices, and what a conversation may have."""

import re

from realtime_tts.engine.api import ModelInfo, Voice
from realtime_tts.engine.models.qwen3_omni.config import INPUT_RATE_HZ, SAMPLE_RATE_HZ, SAMPLES_PER_FRAME, OmniConfig
from realtime_tts.text.languages import UNDETERMINED

DEFAULT_SPEAKER = "ethan"
"""That of the reference's `generate`."""
LANGUAGES = ("de", "en", "es", "fr", "it", "ja", "ko", "pt", "ru", "zh")
"""The languages of speech output (README of github.com/QwenLM/Qwen3-Omni, "Key Features")."""
SAMPLING_FIELDS = frozenset({"seed", "temperature", "top_k", "top_p", "repetition_penalty", "max_new_tokens"})


def describe(config: OmniConfig, name: str, input_modalities: frozenset[str]) -> ModelInfo:
    """The description of a model with this configuration; one without a Talker has no voices."""
    speakers = () if config.speech is None else tuple(config.speech.talker.speaker_id)
    return ModelInfo(
        name=name,
        sample_rate_hz=SAMPLE_RATE_HZ,
        samples_per_frame=SAMPLES_PER_FRAME,
        voices=tuple(Voice(speaker, UNDETERMINED) for speaker in speakers),
        default_voice=_default_speaker(speakers),
        languages=LANGUAGES if speakers else (),
        fields=SAMPLING_FIELDS,
        answers=True,
        input_modalities=input_modalities,
        input_rate_hz=INPUT_RATE_HZ if "audio" in input_modalities else None,
    )


def model_name(directory: str) -> str:
    """The directory's name if it looks like a published one, otherwise a fixed one."""
    return directory if re.fullmatch(r"qwen3[\w.-]*", directory, re.IGNORECASE | re.ASCII) else "Qwen3-Omni"


def _default_speaker(speakers: tuple[str, ...]) -> str | None:
    if DEFAULT_SPEAKER in speakers:
        return DEFAULT_SPEAKER
    return speakers[0] if speakers else None
