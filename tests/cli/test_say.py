"""Command `say`: with a running server, and with an engine of its own."""

import asyncio
import subprocess
import sys
import wave
from pathlib import Path

import pytest

from realtime_tts.audio.pcm import pcm_bytes
from realtime_tts.cli.say import get_json
from realtime_tts.errors import RealtimeTTSError
from tests.cli.conftest import Command
from tests.fakes import spoken
from tests.serving import tone_server


def test_without_a_server_it_loads_a_model_and_writes_a_wav_file(command: Command, tmp_path: Path) -> None:
    output = tmp_path / "hello.wav"
    result = command("say", "Hello world. How are you?", "--model", "tone", "-o", str(output))
    assert result.status == 0, result.errors
    with wave.open(str(output)) as file:
        assert file.getframerate() == 24_000
        data = file.readframes(file.getnframes())
    assert data == pcm_bytes(spoken("Hello world.")) + pcm_bytes(spoken("How are you?"))
    assert "gap" in result.errors


async def test_a_running_server_is_used(command: Command, tmp_path: Path) -> None:
    async with tone_server() as (url, _server):
        arguments = ("say", "Hello world.", "--voice", "tone_high", "-o", str(tmp_path / "a.wav"), "--url", url)
        result = await asyncio.to_thread(command, *arguments)
    assert result.status == 0, result.errors
    with wave.open(str(tmp_path / "a.wav")) as file:
        assert file.readframes(file.getnframes()) == pcm_bytes(spoken("Hello world.", voice="tone_high"))


def test_it_reads_standard_input_and_writes_standard_output() -> None:
    command = [sys.executable, "-m", "realtime_tts", "say", "-", "--model", "tone", "-o", "-"]
    result = subprocess.run(command, input="Grüße, Welt. Bye.".encode(), capture_output=True, check=True, timeout=60)
    assert result.stdout == pcm_bytes(spoken("Grüße, Welt.")) + pcm_bytes(spoken("Bye."))


def test_a_server_that_does_not_answer_is_an_error() -> None:
    with pytest.raises(RealtimeTTSError, match=r"no answer from http://127\.0\.0\.1:9/x"):
        get_json("http://127.0.0.1:9/x")
