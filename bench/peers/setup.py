"""Installation of other servers in virtual environments of their own: none of them is a dependency of this project."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from realtime_tts.engine.models.kokoro.onnx_rewrite.prepare_model import user_cache_dir
from realtime_tts.engine.models.kokoro.styles import load_styles
from realtime_tts.engine.models.kokoro.weights import find_weights

KOKORO_MODEL, KOKORO_VOICES = "model.onnx", "voices-v1.0.bin"
_DONE = "installed.txt"


@dataclass(frozen=True, slots=True)
class Recipe:
    name: str
    """Of its virtual environment, which several servers may share."""
    packages: tuple[str, ...]
    alone: tuple[str, ...] = ()
    """Installed last and without their dependencies; `packages` has those needed for English."""
    prepare: Callable[[Path], None] | None = None
    """Puts files into the directory."""

    @property
    def _mark(self) -> str:
        return "\n".join((*self.packages, *self.alone)) + "\n"

    def is_installed(self, home: Path) -> bool:
        done = home / self.name / _DONE
        return done.exists() and done.read_text("utf-8") == self._mark

    def install(self, home: Path) -> None:
        """Replaces an existing environment.  Raises subprocess.CalledProcessError."""
        directory = home / self.name
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(directory)], check=True)
        for flags, packages in (((), self.packages), (("--no-deps",), self.alone)):
            if packages:
                pip = [str(python_of(directory)), "-m", "pip", "install", "--disable-pip-version-check", "-q"]
                # Progress and warnings go to stderr: stdout is for the table.
                subprocess.run([*pip, *flags, *packages], check=True, stdout=sys.stderr)
        if self.prepare is not None:
            self.prepare(directory)
        (directory / _DONE).write_text(self._mark, "utf-8")


def python_of(directory: Path) -> Path:
    return directory / "bin" / "python"


def peers_dir() -> Path:
    return user_cache_dir() / "realtime_tts" / "peers"


def kokoro_files(directory: Path) -> None:
    """The embedded weights and the compared voice, in the layout of kokoro-onnx and servers derived from it."""
    find_weights().write_to(directory / KOKORO_MODEL)
    with (directory / KOKORO_VOICES).open("wb") as file:
        np.savez(file, af_heart=load_styles()["af_heart"].table.astype(np.float32)[:, None, :])
    variant = {"model": KOKORO_MODEL, "custom_ops": [], "backend": "upstream-onnx"}
    manifest = {"variant": "upstream", "voice": "af_heart", "variants": {"upstream": variant}}
    (directory / "models.json").write_text(json.dumps(manifest), "utf-8")
