"""Home Assistant by way of wyoming_openai, a proxy from Wyoming to OpenAI's speech endpoint."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.server_process import HOST, free_port
from tests.clients.conftest import RunsProgram
from tests.clients.environments import python_of
from tests.clients.reference import PCM_BYTES_PER_S

START_TIMEOUT_S = 30.0
TEXT = "The kitchen light is on. The door is closed. It is warm outside. Good night, everybody."


def test_the_proxy_lists_voices_and_speaks_four_sentences_of_one_text(
    server: str, program: RunsProgram, tmp_path: Path
) -> None:
    if (python := shutil.which("python3.12")) is None:
        pytest.skip("wyoming_openai needs Python 3.12")
    interpreter = python_of("wyoming_openai", python)
    with proxy(interpreter, server, tmp_path / "log") as port:
        result = program(interpreter, "wyoming_client.py", str(port), TEXT, "alloy")
    assert "alloy" in result["voices"]
    for way in ("whole", "streamed"):
        assert result[way]["error"] == "", way
        assert result[way]["rate_hz"] == 24_000, way
        assert result[way]["bytes"] > 3 * PCM_BYTES_PER_S, way


@contextmanager
def proxy(interpreter: Path, server: str, log: Path) -> Iterator[int]:
    port = free_port()
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                *(str(interpreter), "-m", "wyoming_openai", "--uri", f"tcp://{HOST}:{port}"),
                *("--tts-openai-url", f"{server}/v1", "--tts-models", "tts-1", "--tts-streaming-models", "tts-1"),
            ],
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        end_s = time.monotonic() + START_TIMEOUT_S
        while not is_listening(port):
            assert process.poll() is None, log.read_text("utf-8")[-1500:]
            assert time.monotonic() < end_s, log.read_text("utf-8")[-1500:]
            time.sleep(0.2)
        yield port
    finally:
        process.terminate()
        process.wait(20)


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0
