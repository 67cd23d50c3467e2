"""Every flag and every setting that a message of the package mentions exists."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import typer.main
from typer.core import TyperGroup

from realtime_tts.cli.main import app
from realtime_tts.config.schema import SECTIONS, settings
from realtime_tts.frontends.native.messages import CLIENT_MESSAGES, SERVER_MESSAGES

PACKAGE = Path(__file__).parents[2] / "realtime_tts"
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
SETTING = re.compile(rf"(?<![\w.`])(?:{'|'.join(SECTIONS)})\.[a-z_]+")
COMMAND_OF_OTHERS = re.compile(r"pip install [^`']*")


def flags() -> Iterator[str]:
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    for command in (group, *group.commands.values()):
        for parameter in command.params:
            yield from parameter.opts


def messages() -> Iterator[tuple[str, str]]:
    """Every string of the package that reads as a sentence, with its place.  Docstrings are not sent to anyone."""
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                parts = [part.value if isinstance(part, ast.Constant) else "{}" for part in node.values]
                text = "".join(map(str, parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
                text = node.value
            else:
                continue
            if " " in text:
                yield f"{path.relative_to(PACKAGE)}:{node.lineno}", COMMAND_OF_OTHERS.sub("", text)


def test_messages_mention_only_flags_and_settings_that_exist() -> None:
    known_flags = {"--help", *flags()}
    others = {*CLIENT_MESSAGES, *SERVER_MESSAGES}
    found = set()
    for place, text in messages():
        for flag in FLAG.findall(text):
            assert flag in known_flags, f"{place}: there is no flag {flag}"
            found.add(flag)
        for setting in set(SETTING.findall(text)) - others:
            assert setting in settings(), f"{place}: there is no setting {setting}"
            found.add(setting)
    assert {"--key-file", "--allow-public", "server.hosts", "http.voices_dir"} <= found, "the search finds them"
