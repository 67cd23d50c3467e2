"""Location of a Qwen3-TTS model."""

from collections.abc import Callable
from pathlib import Path

from realtime_tts.engine.models.qwen3 import directory
from realtime_tts.engine.models.spec import Report

FILES = ("*.json", "*.txt", "*.safetensors", "speech_tokenizer/*")
"""The files of a repository that are downloaded."""
REPOSITORY = directory.Repository("qwen3_tts", "Qwen/Qwen3-TTS-12Hz-1.7B-CustomVoice", FILES)


def find_directory(
    model_dir: str | Path | None, progress: Report, download: Callable[[str], str] | None = None
) -> tuple[Path, str]:
    """The directory and its name.  Raises ModelNotUsable."""
    return directory.find_directory(REPOSITORY, model_dir, progress, download)
