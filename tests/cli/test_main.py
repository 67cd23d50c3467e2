"""The command line: teaches, refuses in plain words, and speaks."""

import contextlib
import json
import re
import signal
import subprocess
import sys
import urllib.request
import wave
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from realtime_tts import __version__
from realtime_tts.audio.pcm import pcm_bytes
from realtime_tts.cli import main as cli
from realtime_tts.config.schema import ServerConfig
from realtime_tts.frontends.native.messages import STREAM_PATH
from realtime_tts.server.api_keys import KeyStore
from realtime_tts.server.rate_limit import QuotaLimits
from tests.fakes import spoken

COMMANDS = ("serve", "say", "voices", "doctor", "config", "key")


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
        (["serve", "--model", "tone", "--key-file", "missing"], "auth.key_file: missing cannot be read"),
        (["serve", "--model", "tone", "--tls-cert", "missing.pem", "--tls-key", "k"], "cannot read missing.pem"),
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


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["serve", "--model", "tone", "--set", "fast"], "'fast' is not NAME=VALUE"),
        (["serve", "--model", "tone", "--scheduler", "fifo"], "scheduler must be one of"),
        (["serve", "--model", "tone", "--compare", "fifo"], "compare may name deadline"),
        (["serve", "--model", "tone", "--compare", "deadline"], "compare must name others"),
        (["serve", "--model", "tone", "--log-level", "loud"], "flag --log-level"),
        (["serve", "--model", "tone", "--config", "missing.toml"], "missing.toml cannot be read"),
        (["serve", "--model", "tone", "--tls-cert", "missing.pem"], "tls_cert and tls_key go together"),
        (["config", "--config", "missing.toml"], "missing.toml cannot be read"),
        (["key", "two words"], "a key's name is"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_setting_that_cannot_be_is_refused_before_anything_starts(
    arguments: list[str], words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["realtime-tts", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 1
    assert words in capsys.readouterr().err


def test_the_configuration_is_shown_with_its_origins_and_is_itself_a_configuration(tmp_path: Path) -> None:
    first = tmp_path / "first.toml"
    first.write_text('[server]\nport = 8123\n[auth]\nkeys = "me=rtts_not-to-be-seen-anywhere"\n')
    shown = run("config", "--config", str(first))
    assert shown.returncode == 0, shown.stderr
    assert re.search(rf"^server.port += 8123 +# {re.escape(str(first))}: server.port$", shown.stdout.decode(), re.M)
    second = tmp_path / "second.toml"
    second.write_bytes(run("config", "--config", str(first), "--toml").stdout)
    again = run("config", "--config", str(second))
    assert re.search(rf"^server.port += 8123 +# {re.escape(str(second))}", again.stdout.decode(), re.M)
    for output in (shown.stdout, second.read_bytes(), again.stdout):
        assert b"not-to-be-seen" not in output


def test_a_key_is_shown_once_and_only_its_hash_is_for_the_file(tmp_path: Path) -> None:
    made = run("key", "alice", "--sessions", "2", "--chars-per-minute", "900")
    assert made.returncode == 0, made.stderr
    (key,) = re.findall(r"rtts_\S+", made.stderr.decode())
    line = made.stdout.decode()
    assert key not in line
    found = KeyStore.from_lines(line.splitlines()).find(key)
    assert found is not None
    assert (found.name, found.limits) == ("alice", QuotaLimits(2, 900))


@contextlib.contextmanager
def server(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server of its own process, ready, and its address."""
    command = [sys.executable, "-m", "realtime_tts", "serve", "--model", "tone", "--port", "0", *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            lines: list[str] = []
            for line in process.stderr:
                lines.append(line)
                if address := re.search(r"listening on (\S+)", line):
                    break
            else:
                pytest.fail("".join(lines))
            yield process, address[1]
        finally:
            process.kill()


def talking(url: str) -> str:
    return url.replace("http", "ws", 1) + STREAM_PATH


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_server_that_is_asked_to_end_ends_well(number: signal.Signals) -> None:
    with server() as (process, _url):
        process.send_signal(number)
        assert process.wait(20) == 0
        assert process.stderr is not None
        said = process.stderr.read()
    assert "Stopped." in said
    assert "Traceback" not in said
    assert ("Draining" in said) is (number == signal.SIGTERM)


def test_schedulers_are_offered_for_comparison_as_they_are_named() -> None:
    with server("--compare", "policy_c", "--compare", "edf_only") as (process, url):
        with urllib.request.urlopen(f"{url}/v1/demo", timeout=10) as answer:
            assert json.load(answer)["schedulers"] == ["deadline", "policy_c", "edf_only"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


def test_on_sigterm_what_has_begun_comes_to_its_end() -> None:
    with server() as (process, url), connect(talking(url)) as client:
        client.send(json.dumps({"type": "session.config", "response_format": "pcm", "stream_audio": True}))
        client.send(json.dumps({"type": "input.text", "text": "Hello world."}))
        assert kinds(client.recv(10) for _ in range(2)) == ["session.created", "session.updated"]
        process.send_signal(signal.SIGTERM)
        assert kinds([client.recv(10)]) == ["session.expiring"]
        client.send(json.dumps({"type": "input.done"}))
        rest = list_until_closed(client)
        assert kinds(rest)[0] == "audio.start"
        assert kinds(rest)[-1] == "session.done"
        assert b"".join(part for part in rest if isinstance(part, bytes)) == pcm_bytes(spoken("Hello world."))
        assert process.wait(20) == 0


def test_whoever_does_not_end_within_the_deadline_is_ended() -> None:
    with server("--drain", "0.2") as (process, url), connect(talking(url)) as client:
        client.send(json.dumps({"type": "input.text", "text": "Hello"}))
        assert kinds([client.recv(10)]) == ["session.created"]
        process.send_signal(signal.SIGTERM)
        assert kinds(list_until_closed(client))[0] == "session.expiring"
        assert process.wait(20) == 0


@pytest.mark.parametrize(("second", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_second_signal_ends_it_there_and_then(second: signal.Signals, status: int) -> None:
    with server("--drain", "3600") as (process, url), connect(talking(url)) as client:
        client.send(json.dumps({"type": "input.text", "text": "Hello"}))
        client.recv(10)
        process.send_signal(signal.SIGTERM)
        assert kinds([client.recv(10)]) == ["session.expiring"]
        process.send_signal(second)
        assert process.wait(20) == status


def test_a_server_beyond_this_machine_without_keys_says_so_aloud() -> None:
    with server("--host", "0.0.0.0", "--allow-public") as (process, _url):
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    result = run("serve", "--host", "0.0.0.0", "--allow-public", "--model", "nope")
    assert b"WARNING: whoever reaches 0.0.0.0" in result.stderr


def test_with_keys_a_public_address_needs_no_waiver(tmp_path: Path) -> None:
    (tmp_path / "keys").write_bytes(run("key", "alice").stdout)
    result = run("serve", "--host", "0.0.0.0", "--key-file", str(tmp_path / "keys"), "--model", "nope")
    assert b"there is no model 'nope'" in result.stderr
    assert b"WARNING" not in result.stderr


def test_the_defaults_that_help_names_are_the_defaults() -> None:
    text = " ".join(CliRunner().invoke(cli.app, ["serve", "--help"], terminal_width=300).output.split())
    config = ServerConfig()
    for flag, value in {
        "--host": config.server.host,
        "--port": config.server.port,
        "--model": config.model.name,
        "--max-sessions": config.server.max_sessions,
        "--max-wait": config.engine.max_wait_s,
        "--drain": f"{config.server.drain_s:g}",
        "--log-level": config.logging.level,
        "--log-format": config.logging.format,
    }.items():
        assert re.search(rf"{flag} <[^>]+>(?:(?! --).)*\[default: {re.escape(str(value))}\]", text), flag


def kinds(frames: Iterable[str | bytes]) -> list[str]:
    return [json.loads(frame)["type"] for frame in frames if isinstance(frame, str)]


def list_until_closed(client: ClientConnection) -> list[str | bytes]:
    frames = []
    with contextlib.suppress(ConnectionClosed):
        while True:
            frames.append(client.recv(10))
    return frames
