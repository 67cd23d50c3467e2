"""Command line: help, voices, configuration, and errors in one line."""

import asyncio
import re
from pathlib import Path

import pytest

from realtime_tts import __version__
from tests.cli.conftest import Command
from tests.serving import tone_server

COMMANDS = ("serve", "say", "voices", "doctor", "config", "key")


def test_without_arguments_all_commands_are_listed(command: Command) -> None:
    result = command()
    assert all(name in result.output + result.errors for name in COMMANDS)


def test_every_command_has_a_help_text(command: Command) -> None:
    for name in COMMANDS:
        result = command(name, "--help")
        assert result.status == 0, name
        assert len(result.output.splitlines()) > 5, name


def test_the_version_is_printed(command: Command) -> None:
    assert command("--version").output.strip() == __version__


def test_voices_are_listed_one_per_line_and_the_default_is_marked(command: Command) -> None:
    result = command("voices", "--model", "tone")
    assert result.output.splitlines()[:2] == ["tone_low         en-US    default", "tone_high        en-US"]
    assert "nova             alias of tone_high" in result.output.splitlines()


async def test_voices_of_a_running_server_are_listed(command: Command) -> None:
    async with tone_server() as (url, _server):
        result = await asyncio.to_thread(command, "voices", "--url", f"{url}/")
    assert result.output == command("voices", "--model", "tone").output


REFUSED = {
    ("say", "Hello.", "--model", "nope"): "there is no model 'nope'",
    ("say", "Hello.", "--model", "tone", "--voice", "nobody"): "there is no voice 'nobody'",
    ("say", "...", "--model", "tone"): "nothing to speak",
    ("say", "Hello.", "--url", "http://127.0.0.1:9"): "there is no realtime voice server",
    ("voices", "--url", "http://127.0.0.1:9"): "no answer from",
    ("serve", "--model", "tone", "--threads", "2"): "there is no option threads",
    ("serve", "--model", "tone", "--model", "tone"): "another model tone",
    ("serve", "--model", "tone", "--key-file", "missing"): "auth.key_file: missing cannot be read",
    ("serve", "--model", "tone", "--tls-cert", "missing.pem", "--tls-key", "k"): "cannot read missing.pem",
    ("serve", "--model", "tone", "--set", "fast"): "flag --set: 'fast' is not NAME=VALUE",
    ("serve", "--model", "tone", "--scheduler", "fifo"): "scheduler must be one of",
    ("serve", "--model", "tone", "--compare", "fifo"): "compare may name round_robin",
    ("serve", "--model", "tone", "--compare", "deadline"): "compare may name round_robin",
    ("serve", "--model", "tone", "--log-level", "loud"): "flag --log-level: Invalid enum value 'loud'",
    ("serve", "--model", "tone", "--port", "70000"): "flag --port: Expected `int` <= 65535",
    ("serve", "--model", "tone", "--config", "missing.toml"): "missing.toml cannot be read",
    ("serve", "--model", "tone", "--tls-cert", "missing.pem"): "tls_cert and tls_key go together",
    ("config", "--config", "missing.toml"): "missing.toml cannot be read",
    ("key", "two words"): "a key's name is",
}


def test_an_error_is_one_line_and_no_traceback(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for arguments, words in REFUSED.items():
        result = command(*arguments)
        assert result.status == 1, arguments
        assert words in result.errors.splitlines()[-1], (arguments, result.errors)
        assert "Traceback" not in result.errors, arguments
    assert not list(tmp_path.iterdir())


def test_the_configuration_is_shown_with_its_origins_and_can_be_read_again(command: Command, tmp_path: Path) -> None:
    first, second = tmp_path / "first.toml", tmp_path / "second.toml"
    first.write_text('[server]\nport = 8123\n[auth]\nkeys = "me=rtts_not-to-be-seen-anywhere"\n')
    shown = command("config", "--config", str(first))
    assert re.search(rf"^server.port += 8123 +# {re.escape(str(first))}: server.port$", shown.output, re.M)
    second.write_text(command("config", "--config", str(first), "--toml").output)
    again = command("config", "--config", str(second))
    assert re.search(rf"^server.port += 8123 +# {re.escape(str(second))}", again.output, re.M)
    for text in (shown.output, second.read_text(), again.output):
        assert "not-to-be-seen" not in text
