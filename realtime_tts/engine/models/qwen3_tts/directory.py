"""Location of a model: a directory in the published layout, or a repository on the Hugging Face Hub."""

import re
from collections.abc import Callable
from pathlib import Path

from realtime_tts.engine.models.spec import Report
from realtime_tts.errors import ModelNotUsable

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
EXAMPLE = "Qwen/Qwen3-TTS-12Hz-1.7B-CustomVoice"
FILES = ("*.json", "*.txt", "*.safetensors", "speech_tokenizer/*")
"""The files of a repository that are downloaded."""


def find_directory(
    model_dir: str | Path | None, progress: Report, download: Callable[[str], str] | None = None
) -> tuple[Path, str]:
    """The directory and its name.  A Hub repository is downloaded, unless it is in the Hub's local cache already.

    Raises ModelNotUsable.
    """
    if model_dir is None or not str(model_dir):
        raise ModelNotUsable(
            f"qwen3_tts has no weights of its own: set model_dir to a directory in the published layout,"
            f" or to a Hugging Face id such as {EXAMPLE}"
        )
    path = Path(model_dir).expanduser()
    if path.is_dir():
        return path, path.resolve().name
    name = str(model_dir)
    if not _HUB_ID.fullmatch(name):
        raise ModelNotUsable(f"model_dir {model_dir} is not a directory")
    fetch = download or _downloader(name)
    progress(f"looking for {name} (an interrupted download is resumed)")
    return Path(fetch(name)), name.split("/")[1]


def _downloader(name: str) -> Callable[[str], str]:
    try:
        from huggingface_hub import errors, snapshot_download
    except ImportError:
        raise ModelNotUsable(f"there is no directory {name}; to download it: pip install huggingface_hub") from None

    def download(repository: str) -> str:
        try:
            return str(snapshot_download(repository, allow_patterns=list(FILES)))
        except (OSError, ValueError, errors.HfHubHTTPError) as error:
            first_line = str(error).strip().partition("\n")[0]
            raise ModelNotUsable(f"{repository} could not be downloaded: {first_line}") from error

    return download
