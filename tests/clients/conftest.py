"""A server with the embedded voice, started as a user starts it, and programs that run in a client's environment."""

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bench.server_process import HOST, free_port

HERE = Path(__file__).parent
START_TIMEOUT_S = 180.0
PROGRAM_TIMEOUT_S = 240.0

RunsProgram = Callable[..., Any]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.clients)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server with its defaults."""
    with serve(tmp_path_factory.mktemp("server") / "log") as url:
        yield url


@contextmanager
def serve(log: Path, *options: str) -> Iterator[str]:
    """The URL of a server process."""
    url = f"http://{HOST}:{(port := free_port())}"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "realtime_tts", "serve", "--port", str(port), *options],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        end_s = time.monotonic() + START_TIMEOUT_S
        while not _is_ready(url):
            if process.poll() is not None or time.monotonic() > end_s:
                pytest.fail(f"the server did not start: {log.read_text('utf-8', 'replace')[-1500:]}")
            time.sleep(0.2)
        yield url
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=2) as response:
            return bool(response.status == 200)
    except OSError:
        return False


@pytest.fixture
def program(tmp_path: Path) -> RunsProgram:
    """Runs a program of `programs/` with an interpreter: its last line of output, parsed as JSON."""

    def run(interpreter: str | Path, name: str, *arguments: str, **environment: str) -> Any:
        output = run_command(tmp_path, interpreter, HERE / "programs" / name, *arguments, **environment)
        return json.loads(output.strip().splitlines()[-1])

    return run


def run_command(folder: Path, *command: str | Path, **environment: str) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env={**os.environ, "OPENAI_API_KEY": "none", "NO_PROXY": "*", **environment},
        capture_output=True,
        text=True,
        timeout=PROGRAM_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, (
        f"{command} exited with {done.returncode}:\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
    )
    return done.stdout
