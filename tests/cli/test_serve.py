"""Command `serve`: authentication, and the end of the server on a signal."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from realtime_tts.audio.pcm import pcm_bytes
from realtime_tts.cli.serve import serve_until_signal
from realtime_tts.config.schema import ModelSection, ServerConfig, ServerSection
from realtime_tts.frontends.native.messages import STREAM_PATH
from tests.cli.conftest import Command
from tests.fakes import spoken, until


class RunningServer:
    def __init__(self, task: asyncio.Task[None], capsys: pytest.CaptureFixture[str]) -> None:
        self.task = task
        self._capsys = capsys
        self._lines = ""

    def output(self) -> str:
        self._lines += self._capsys.readouterr().err
        return self._lines

    def connect(self) -> connect:
        found = re.search(r"listening on http(\S+)", self.output())
        assert found is not None
        return connect(f"ws{found[1]}{STREAM_PATH}", proxy=None)

    async def stop(self, number: signal.Signals) -> str:
        """Sends a signal, waits for the end and returns the output."""
        os.kill(os.getpid(), number)
        await self.task
        return self.output()


@asynccontextmanager
async def running(capsys: pytest.CaptureFixture[str], drain_s: float = 30.0) -> AsyncIterator[RunningServer]:
    config = ServerConfig(server=ServerSection(port=0, drain_s=drain_s), model=ModelSection(name=("tone",)))
    server = RunningServer(asyncio.create_task(serve_until_signal(config)), capsys)
    try:
        await until(lambda: server.task.done() or "listening on" in server.output())
        yield server
    finally:
        server.task.cancel()


async def received(socket: ClientConnection) -> list[str | bytes]:
    """All frames until the connection is closed."""
    frames: list[str | bytes] = []
    with suppress(ConnectionClosed):
        while True:
            frames.append(await asyncio.wait_for(socket.recv(), 20))
    return frames


def types(frames: list[str | bytes]) -> list[str]:
    return [json.loads(frame)["type"] for frame in frames if isinstance(frame, str)]


async def test_ctrl_c_stops_the_server_at_once(process_state: None, capsys: pytest.CaptureFixture[str]) -> None:
    async with running(capsys) as server:
        output = await server.stop(signal.SIGINT)
    assert output.endswith("Stopping ...\nStopped.\n")
    assert "Draining" not in output


async def test_after_sigterm_an_open_session_is_finished(
    process_state: None, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(capsys) as server, server.connect() as socket:
        config = {"type": "session.config", "response_format": "pcm", "stream_audio": True}
        for message in (config, {"type": "input.text", "text": "Hello world."}):
            await socket.send(json.dumps(message))
        assert types([await socket.recv(), await socket.recv()]) == ["session.created", "session.updated"]
        os.kill(os.getpid(), signal.SIGTERM)
        assert types([await socket.recv()]) == ["session.expiring"]
        await socket.send(json.dumps({"type": "input.done"}))
        rest = await received(socket)
        await server.task
    assert (types(rest)[0], types(rest)[-1]) == ("audio.start", "session.done")
    assert b"".join(part for part in rest if isinstance(part, bytes)) == pcm_bytes(spoken("Hello world."))
    assert "Draining: open sessions have 30 s to finish" in server.output()


async def test_a_session_that_is_open_after_the_drain_time_is_closed(
    process_state: None, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(capsys, drain_s=0.1) as server, server.connect() as socket:
        await socket.send(json.dumps({"type": "input.text", "text": "Hello"}))
        assert types([await socket.recv()]) == ["session.created"]
        os.kill(os.getpid(), signal.SIGTERM)
        assert types(await received(socket))[0] == "session.expiring"
        await server.task


def test_a_second_signal_ends_the_process_immediately() -> None:
    command = [sys.executable, "-m", "realtime_tts", "serve", "--model", "tone", "--port", "0", "--drain", "3600"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            address = next(found[1] for line in process.stderr if (found := re.search(r"listening on http(\S+)", line)))

            async def stop_twice() -> None:
                async with connect(f"ws{address}{STREAM_PATH}", proxy=None) as socket:
                    await socket.send(json.dumps({"type": "input.text", "text": "Hello"}))
                    await socket.recv()
                    process.send_signal(signal.SIGTERM)
                    assert types([await socket.recv()]) == ["session.expiring"]
                    process.send_signal(signal.SIGINT)
                    assert await asyncio.to_thread(process.wait, 20) == 128 + signal.SIGINT

            asyncio.run(stop_twice())
        finally:
            process.kill()


def test_a_public_address_needs_keys_or_an_explicit_flag(command: Command, tmp_path: Path) -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org"):
        result = command("serve", "--host", host, "--model", "nope")
        assert result.status == 2, host
        assert "--allow-public" in result.errors, host
    result = command("serve", "--host", "0.0.0.0", "--allow-public", "--model", "nope")
    assert "WARNING: everyone who can reach 0.0.0.0" in result.errors
    assert "there is no model 'nope'" in result.errors
    (tmp_path / "keys").write_text(command("key", "alice").output)
    result = command("serve", "--host", "0.0.0.0", "--key-file", str(tmp_path / "keys"), "--model", "nope")
    assert "there is no model 'nope'" in result.errors
    assert "WARNING" not in result.errors


def test_a_server_for_all_web_pages_starts_with_a_warning(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    for origins, words in (('["*"]', "WARNING: any web page"), ("null", "WARNING: any HTML file"), ("", "")):
        monkeypatch.setenv("REALTIME_TTS_SERVER_ORIGINS", origins)
        result = command("serve", "--model", "nope")
        assert words in result.errors, origins
        assert ("WARNING" in result.errors) is bool(words), origins


def test_unused_variables_are_listed(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REALTIME_TTS_SERVICE_HOST", "10.0.0.1")
    assert "Not used: REALTIME_TTS_SERVICE_HOST" in command("serve", "--model", "nope").errors


@pytest.mark.slow
@pytest.mark.model
@pytest.mark.xdist_group("kokoro")
@pytest.mark.skipif(sys.platform != "linux", reason="ulimit -v")
def test_too_little_memory_is_one_line_and_no_traceback() -> None:
    command = [sys.executable, "-m", "realtime_tts", "serve", "--model", "kokoro", "--port", "0"]
    limited = ["sh", "-c", 'ulimit -v 700000 && exec "$@"', "sh", *command]
    result = subprocess.run(limited, check=False, capture_output=True, text=True, timeout=120)
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    assert result.stderr.splitlines()[-1].startswith("Error: this machine has too little memory")
