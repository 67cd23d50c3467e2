"""Preparation of the model: the split and the passes, run once per set of weights and kept in the user's cache."""

import hashlib
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import onnx

from realtime_tts.engine.models.kokoro.onnx_rewrite.conv_to_matmul import convert_convolutions
from realtime_tts.engine.models.kokoro.onnx_rewrite.generator import rewrite_generator
from realtime_tts.engine.models.kokoro.onnx_rewrite.split_graph import (
    check_layout,
    extract_acoustic,
    extract_vocoder,
    unexpected_layout,
)
from realtime_tts.engine.models.kokoro.onnx_rewrite.streaming_inputs import add_streaming_inputs
from realtime_tts.engine.models.kokoro.temporary_directory import remove_abandoned, temporary_directory
from realtime_tts.engine.models.kokoro.weights import MODEL_NAME, Weights
from realtime_tts.errors import ModelNotUsable

PREPARED_VERSION = 6
"""To be raised whenever the same weights give other files."""

_ACOUSTIC_NAME, _VOCODER_NAME, _CHECKSUMS_NAME = "acoustic.onnx", "vocoder.onnx", "SHA256SUMS"
_ATTEMPTS = 3
REQUIRED_MB = 300
"""Of disk while the voice is prepared; 92 MB stay."""
_IN_CACHE, _BESIDE_CACHE = ".preparing-", "realtime_tts-"
"""Names of temporary directories."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PreparedModel:
    acoustic: Path
    vocoder: Path


def prepare_model(weights: Weights, directory: Path) -> None:
    """Writes both graphs into `directory`: the split and the passes (see README.md).  Raises ModelNotUsable."""
    whole = directory / MODEL_NAME
    weights.write_to(whole)
    check_layout(whole)
    extract_acoustic(whole, directory / _ACOUSTIC_NAME)
    vocoder = extract_vocoder(whole, directory / _VOCODER_NAME)
    whole.unlink()
    add_streaming_inputs(vocoder)
    try:
        rewrite_generator(vocoder)
    except KeyError as error:
        raise unexpected_layout(MODEL_NAME, str(error)) from error
    convert_convolutions(vocoder)
    onnx.save(vocoder, directory / _VOCODER_NAME)


def user_cache_dir() -> Path:
    """The platform's directory for files that can be made again."""
    if xdg := os.environ.get("XDG_CACHE_HOME"):
        return Path(xdg)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")


@contextmanager
def prepared_model(
    weights: Weights,
    cache_dir: Path,
    progress: Callable[[str], None],
    prepare: Callable[[Weights, Path], None] = prepare_model,
) -> Iterator[PreparedModel]:
    """Both graphs as files, valid within the `with` block: from the cache, or prepared now and kept there.

    Where the cache cannot be written, the model is prepared at every start, which takes 4 s.
    """
    home = cache_dir / "realtime_tts" / "kokoro" / f"{weights.sha256[:16]}-{PREPARED_VERSION}"
    remove_abandoned(home.parent, _IN_CACHE)
    if _is_intact(home):
        yield _files_in(home)
        return
    progress("Preparing the embedded voice (once, about 4 s) …")
    try:
        _fill_cache(weights, home, prepare)
    except OSError as error:
        logger.warning(
            "cannot keep the prepared voice in %s (%s): it will be prepared at every start",
            *(home, error.strerror),
        )
        with ExitStack() as stack:
            try:
                parent = Path(tempfile.gettempdir())
                remove_abandoned(parent, _BESIDE_CACHE)
                temporary = stack.enter_context(temporary_directory(parent, _BESIDE_CACHE))
                prepare(weights, temporary)
            except OSError as second:
                raise _cannot_be_written(cache_dir, error, second) from second
            yield _files_in(temporary)
        return
    yield _files_in(home)


def _cannot_be_written(cache_dir: Path, error: OSError, second: OSError) -> ModelNotUsable:
    return ModelNotUsable(
        f"the embedded voice can be prepared neither in {cache_dir} ({error.strerror or error}) nor in the directory"
        f" for temporary files ({second.strerror or second}): one of them needs {REQUIRED_MB} MB.  The environment"
        " variables XDG_CACHE_HOME and TMPDIR choose other ones"
    )


def _files_in(directory: Path) -> PreparedModel:
    return PreparedModel(directory / _ACOUSTIC_NAME, directory / _VOCODER_NAME)


def _is_intact(directory: Path) -> bool:
    """Whether both files are present and unaltered.  60 ms for 92 MB; a damaged file means a crash or noise."""
    try:
        return (directory / _CHECKSUMS_NAME).read_text(encoding="ascii") == _checksums(directory)
    except (OSError, UnicodeDecodeError):
        return False


def _checksums(directory: Path) -> str:
    lines = []
    for name in (_ACOUSTIC_NAME, _VOCODER_NAME):
        with (directory / name).open("rb") as file:
            lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {name}\n")
    return "".join(lines)


def _fill_cache(weights: Weights, home: Path, prepare: Callable[[Weights, Path], None]) -> None:
    """Prepares beside `home`, then renames: readers see all of it or nothing, and any of several processes may win."""
    home.parent.mkdir(parents=True, exist_ok=True)
    with temporary_directory(home.parent, _IN_CACHE) as temporary:
        prepared = temporary / "prepared"
        prepared.mkdir()
        prepare(weights, prepared)
        (prepared / _CHECKSUMS_NAME).write_text(_checksums(prepared), encoding="ascii")
        for attempt in range(_ATTEMPTS):
            try:
                prepared.rename(home)
            except OSError:
                if _is_intact(home):
                    return  # another process was faster
                if attempt == _ATTEMPTS - 1:
                    raise
                _move_aside(home, temporary / f"damaged-{attempt}")
            else:
                return


def _move_aside(home: Path, to: Path) -> None:
    try:
        home.rename(to)  # deleted with the temporary directory
    except FileNotFoundError:
        return  # another process moved it first
