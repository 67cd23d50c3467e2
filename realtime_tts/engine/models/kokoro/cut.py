"""Cuts the model once into a front half (phonemes to frames) and a vocoder half (frames to sound), and keeps both."""

import hashlib
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import onnx
from onnx.utils import extract_model

from realtime_tts.engine.models.kokoro.generator import rewrite_generator
from realtime_tts.engine.models.kokoro.products import multiply_convolutions
from realtime_tts.engine.models.kokoro.steady import NORM_SIZES, PHASE_SUM, make_steady
from realtime_tts.engine.models.kokoro.weights import MODEL_NAME, Weights
from realtime_tts.errors import ModelNotUsable

CUT_VERSION = 5
"""Goes up whenever the same weights would be cut into other files."""

# Where the graph falls apart: 92% of the compute comes after, and everything here has one column a frame (F0 and N
# two).  `style` feeds both halves.
TEXT_FEATURES = "/encoder/MatMul_1_output_0"  # (1, 512, frames)
F0 = "/encoder/Reshape_output_0"  # (1, 2 * frames)
NOISE = "/encoder/Reshape_1_output_0"  # (1, 2 * frames)
DURATIONS = "/encoder/Clip_output_0"  # (1, tokens): whole frames, at least 1, already divided by the speed
FRONT_INPUTS, FRONT_OUTPUTS = ["tokens", "style", "speed"], [TEXT_FEATURES, F0, NOISE, DURATIONS]
VOCODER_INPUTS, VOCODER_OUTPUTS = [TEXT_FEATURES, F0, NOISE, "style"], ["audio"]

_FRONT_NAME, _VOCODER_NAME, _SUMS_NAME = "front.onnx", "vocoder.onnx", "SHA256SUMS"
_ATTEMPTS = 3

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CutModel:
    front: Path
    vocoder: Path


def user_cache_dir() -> Path:
    """Where this platform keeps files that may be made again."""
    if xdg := os.environ.get("XDG_CACHE_HOME"):
        return Path(xdg)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")


@contextmanager
def cut_model(weights: Weights, cache_dir: Path, progress: Callable[[str], None]) -> Iterator[CutModel]:
    """The two halves as files, good for the length of the `with`: from the cache, or cut now and kept there.

    A cache that cannot be written costs 4 s at every start, never the start itself.
    """
    home = cache_dir / "realtime_tts" / "kokoro" / f"{weights.sha256[:16]}-{CUT_VERSION}"
    if _is_whole(home):
        yield _files_in(home)
        return
    progress("Preparing the embedded voice (once, about 4 s) …")
    try:
        _cut_into_cache(weights, home)
    except OSError as error:
        logger.warning("cannot keep the prepared voice in %s (%s): it will be prepared at every start", home, error)
        with tempfile.TemporaryDirectory(prefix="realtime_tts-") as temporary:
            _cut(weights, Path(temporary))
            yield _files_in(Path(temporary))
        return
    yield _files_in(home)


def _files_in(directory: Path) -> CutModel:
    return CutModel(directory / _FRONT_NAME, directory / _VOCODER_NAME)


def _is_whole(directory: Path) -> bool:
    """Whether both files are there and unaltered: 60 ms for 92 MB, against a crash or noise from a half-written one."""
    try:
        return (directory / _SUMS_NAME).read_text(encoding="ascii") == _sums(directory)
    except (OSError, UnicodeDecodeError):
        return False


def _sums(directory: Path) -> str:
    lines = []
    for name in (_FRONT_NAME, _VOCODER_NAME):
        with (directory / name).open("rb") as file:
            lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {name}\n")
    return "".join(lines)


def _cut_into_cache(weights: Weights, home: Path) -> None:
    """Cuts beside `home`, then renames: whoever looks sees all of it or nothing, and of two processes either wins."""
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.parent, prefix=".preparing-") as temporary:
        made = Path(temporary) / "made"
        made.mkdir()
        _cut(weights, made)
        for attempt in range(_ATTEMPTS):
            try:
                made.rename(home)
            except OSError:
                if _is_whole(home):
                    return  # another process was quicker
                if attempt == _ATTEMPTS - 1:
                    raise
                _set_aside(home, Path(temporary) / f"damaged-{attempt}")
            else:
                return


def _set_aside(home: Path, to: Path) -> None:
    try:
        home.rename(to)  # deleted with the temporary directory
    except FileNotFoundError:
        return  # another process set it aside first


def _cut(weights: Weights, directory: Path) -> None:
    whole = directory / MODEL_NAME
    weights.write_to(whole)
    _check_layout(whole)
    # check_model off: the export has no opset for its Microsoft operators, which the checker refuses and
    # onnxruntime does not.
    extract_model(whole, directory / _FRONT_NAME, FRONT_INPUTS, FRONT_OUTPUTS, check_model=False)
    vocoder = extract_vocoder(whole, directory / _VOCODER_NAME)
    make_steady(vocoder)
    try:
        rewrite_generator(vocoder)
    except KeyError as error:
        raise ModelNotUsable(f"{MODEL_NAME} is not a Kokoro-82M export of the expected layout: no {error}") from error
    multiply_convolutions(vocoder)
    onnx.save(vocoder, directory / _VOCODER_NAME)
    whole.unlink()
    (directory / _SUMS_NAME).write_text(_sums(directory), encoding="ascii")


def extract_vocoder(whole: Path, to: Path) -> onnx.ModelProto:
    """The vocoder half as published, which passes through the file `to`."""
    extract_model(whole, to, VOCODER_INPUTS, VOCODER_OUTPUTS, check_model=False)
    return onnx.load(to)


def _check_layout(path: Path) -> None:
    """Says which tensor is missing, before the cut fails in words that only its author would understand."""
    try:
        graph = onnx.load(path).graph
    except Exception as error:  # protobuf raises its own, undocumented
        raise ModelNotUsable(f"{path.name} is not an ONNX model: {error}") from error
    has = {value.name for value in (*graph.input, *graph.output)}
    has.update(name for node in graph.node for name in node.output)
    wanted = [*FRONT_INPUTS, *FRONT_OUTPUTS, *VOCODER_INPUTS, *VOCODER_OUTPUTS, PHASE_SUM, *NORM_SIZES]
    missing = list(dict.fromkeys(name for name in wanted if name not in has))
    if missing:
        raise ModelNotUsable(
            f"{path.name} is not a Kokoro-82M export of the expected layout: no {', '.join(missing[:5])}"
        )
