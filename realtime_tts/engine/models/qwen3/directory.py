"""Location of a model: a directory in the published layout, or a repository on the Hugging Face Hub."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from realtime_tts.engine.models.spec import Report
from realtime_tts.errors import ModelNotUsable

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Repository:
    """What is known of a model's repositories."""

    model: str
    """The model's name here, for errors."""
    example: str
    files: tuple[str, ...] = ("*.json", "*.txt", "*.safetensors")
    """The files that are downloaded."""


def find_directory(
    repository: Repository,
    model_dir: str | Path | None,
    progress: Report,
    download: Callable[[str], str] | None = None,
) -> tuple[Path, str]:
    """The directory and its name.  A Hub repository is downloaded, unless it is in the Hub's local cache already.

    Raises ModelNotUsable.
    """
    if model_dir is None or not str(model_dir):
        raise ModelNotUsable(
            f"{repository.model} has no weights of its own: set model_dir to a directory in the published layout,"
            f" or to a Hugging Face id such as {repository.example}"
        )
    path = Path(model_dir).expanduser()
    if path.is_dir():
        return path, path.resolve().name
    name = str(model_dir)
    if not _HUB_ID.fullmatch(name):
        raise ModelNotUsable(f"model_dir {model_dir} is not a directory")
    fetch = download or _downloader(name, repository.files)
    progress(f"looking for {name} (an interrupted download is resumed)")
    return Path(fetch(name)), name.split("/")[1]


def _downloader(name: str, files: tuple[str, ...]) -> Callable[[str], str]:
    try:
        from huggingface_hub import errors, snapshot_download
    except ImportError:
        raise ModelNotUsable(f"there is no directory {name}; to download it: pip install huggingface_hub") from None

    def download(hub_id: str) -> str:
        try:
            return str(snapshot_download(hub_id, allow_patterns=list(files)))
        except (OSError, ValueError, errors.HfHubHTTPError) as error:
            first_line = str(error).strip().partition("\n")[0]
            raise ModelNotUsable(f"{hub_id} could not be downloaded: {first_line}") from error

    return download
