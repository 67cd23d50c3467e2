"""The command line: teaches, refuses in plain words, and speaks."""

import subprocess
import sys
import wave
from pathlib import Path

import pytest
from typer.testing import CliRunner

from realtime_tts import __version__, cli
from realtime_tts.audio.pcm import pcm_bytes
from tests.fakes import spoken

COMMANDS = ("serve", "say", "voices", "doctor")


def run(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "realtime_tts", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, timeout=60, check=False)


def test_without_arguments_it_teaches() -> None:
    result = CliRunner().invoke(cli.app, [])
    assert all(command in result.output for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str) -> None:
    result = CliRunner().invoke(cli.app, [command, "--help"])
    assert result.exit_code == 0
    assert len(result.output.splitlines()) > 5


def test_it_knows_its_version() -> None:
    result = CliRunner().invoke(cli.app, ["--version"])
    assert (result.exit_code, result.output.strip()) == (0, __version__)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_a_public_address_must_be_allowed_aloud(host: str) -> None:
    result = CliRunner().invoke(cli.app, ["serve", "--host", host, "--model", "tone"])
    assert result.exit_code == 2
    assert "--allow-public" in result.output


def test_voices_are_one_a_line_with_the_default_marked() -> None:
    result = CliRunner().invoke(cli.app, ["voices", "--model", "tone"])
    assert result.output.splitlines() == ["tone_low         en-US    default", "tone_high        en-US"]


def test_say_without_a_server_brings_its_own_engine_and_writes_a_wav_file(tmp_path: Path) -> None:
    output = tmp_path / "hello.wav"
    result = run("say", "Hello world. How are you?", "--model", "tone", "-o", str(output))
    assert result.returncode == 0, result.stderr
    with wave.open(str(output)) as file:
        assert file.getframerate() == 24_000
        data = file.readframes(file.getnframes())
    assert data == pcm_bytes(spoken("Hello world.")) + pcm_bytes(spoken("How are you?"))
    assert b"0 gaps" in result.stderr or b"gap" in result.stderr


def test_say_reads_a_pipe_and_writes_one() -> None:
    result = run("say", "-", "--model", "tone", "-o", "-", stdin="Grüße, Welt. Bye.".encode())
    assert result.returncode == 0, result.stderr
    assert result.stdout == pcm_bytes(spoken("Grüße, Welt.")) + pcm_bytes(spoken("Bye."))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["say", "Hello.", "--model", "nope"], "there is no model 'nope'"),
        (["say", "Hello.", "--model", "tone", "--voice", "nobody"], "there is no voice 'nobody'"),
        (["say", "...", "--model", "tone"], "nothing to speak"),
        (["say", "Hello.", "--url", "http://127.0.0.1:9"], "there is no realtime voice server"),
        (["voices", "--url", "http://127.0.0.1:9"], "no answer from"),
        (["serve", "--model", "tone", "--threads", "2"], "has no option threads"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_cannot_be_done_is_said_in_a_line_and_not_in_a_traceback(
    arguments: list[str], words: str, tmp_path: Path
) -> None:
    if arguments[0] == "say":
        arguments = [*arguments, "-o", str(tmp_path / "out.wav")]
    result = run(*arguments)
    assert result.returncode == 1
    assert words in result.stderr.decode()
    assert "Traceback" not in result.stderr.decode()
    assert not (tmp_path / "out.wav").exists()
