"""Environments of the clients: each client has its own, with fixed versions, below `.clients/`."""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
HOME = Path(os.environ.get("CLIENT_ENVIRONMENTS", ROOT / ".clients"))
INSTALL_TIMEOUT_S = 900
VLLM_OMNI = "vllm-omni==0.20.0"
"""The newest version whose source distribution, with the examples, is on PyPI."""


def python_of(name: str, python: str = sys.executable) -> Path:
    """The interpreter of an environment with `environments/NAME.txt`.  Skips the test when it cannot be installed."""
    requirements = (HERE / "environments" / f"{name}.txt").read_text("utf-8")
    if name == "wyoming_openai" and "WYOMING_OPENAI_SOURCE" in os.environ:
        requirements = os.environ["WYOMING_OPENAI_SOURCE"]
    folder = HOME / f"{name}-{_digest(requirements)}"
    if not (folder / "installed").exists():
        shutil.rmtree(folder, ignore_errors=True)
        _run(python, "-m", "venv", str(folder))
        listed = folder / "requirements.txt"
        listed.write_text(requirements, "utf-8")
        _run(str(folder / "bin/python"), "-m", "pip", "install", "--quiet", "--requirement", str(listed))
        (folder / "installed").touch()
    return folder / "bin/python"


def node_modules() -> Path:
    """`node_modules` with the packages of `environments/package.json`."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    package = (HERE / "environments/package.json").read_text("utf-8")
    folder = HOME / f"node-{_digest(package)}"
    if not (folder / "installed").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "package.json").write_text(package, "utf-8")
        _run("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder))
        (folder / "installed").touch()
    return folder / "node_modules"


def vllm_omni_examples() -> Path:
    """The unpacked source distribution of vLLM-Omni: its examples for Qwen3-TTS."""
    folder = HOME / VLLM_OMNI.replace("==", "-")
    if not (folder / "installed").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        _run(
            *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"),
            *("--dest", str(folder), VLLM_OMNI),
        )
        (archive,) = folder.glob("*.tar.gz")
        with tarfile.open(archive) as unpacked:
            unpacked.extractall(folder, filter="data")
        (folder / "installed").touch()
    (examples,) = folder.glob("*/examples/online_serving/text_to_speech/qwen3_tts")
    return examples


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, check=False)
    if done.returncode:
        pytest.skip(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()[-300:]}")
