"""Documents are correct: their commands and examples run, quoted code is verbatim, links and names exist."""

import ast
import asyncio
import builtins
import contextlib
import io
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import soundfile

from realtime_tts.config.schema import SECTIONS, settings
from realtime_tts.engine.api import Submit, SynthesisRequest
from realtime_tts.frontends.native.messages import CLIENT_MESSAGES, SERVER_MESSAGES
from realtime_tts.frontends.sglang import messages as sglang
from tests.fakes import ends_of, make_engine, run_to_end, samples_of
from tests.integration.test_error_messages import FLAG, flags
from tests.serving import answer_server, tone_server

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "realtime_tts"
README, CONTRIBUTING, CHANGELOG = (ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"))
DOCUMENTS = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), ROOT / "deploy/README.md"]
PRESENT = [path for path in DOCUMENTS if path != CHANGELOG]
"""Those that describe the present only."""
MODEL_OF_TESTS = ["--model", "tone"]
QUOTE = re.compile(r"# ([\w/]+\.py)\n")
"""The first line of quoted code names its file."""


def blocks(document: Path, language: str) -> list[str]:
    text = document.read_text("utf-8")
    found = re.finditer(rf"^( *)```{language}\n(.*?)^\1```$", text, re.DOTALL | re.MULTILINE)
    return [textwrap.dedent(match[2]) for match in found]


def spans(documents: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """Code inside a line: the name of its document, and the code."""
    for document in documents:
        prose = re.sub(r"^ *```.*?^ *```$", "", document.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
        assert all(line.count("`") % 2 == 0 for line in prose.splitlines()), f"{document}: code has a line break"
        for span in re.findall(r"`([^`\n]+)`", prose):
            yield document.name, span


COMMANDS = [
    line
    for document in (README, CONTRIBUTING)
    for block in blocks(document, "sh")
    for line in block.splitlines()
    if line
]

# -- Commands ----------------------------------------------------------------------------------------------------------


def test_the_two_commands_are_there() -> None:
    assert {"make serve", "make test"} <= set(COMMANDS)


def test_every_command_is_of_a_kind_that_is_tested() -> None:
    for document in DOCUMENTS:
        for block in blocks(document, "sh"):
            assert set(block.splitlines()) <= {"", *COMMANDS}, f"{document.name} has commands that are not tested"
    assert all(c.startswith("make") or "realtime-tts" in c or " -m bench." in c for c in COMMANDS)


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_every_make_command_has_its_target() -> None:
    for command in sorted({*COMMANDS, *(span for _, span in spans(DOCUMENTS))}):
        if command.startswith("make "):
            arguments = [*shlex.split(command), "--dry-run"]
            result = subprocess.run(arguments, cwd=ROOT, capture_output=True, check=False)
            assert result.returncode == 0, (command, result.stderr)


@pytest.mark.parametrize("command", [c for c in COMMANDS if "realtime-tts" in c])
def test_every_other_command_runs(command: str, tmp_path: Path) -> None:
    program, name, *arguments = shlex.split(command)
    assert Path(program).name == "realtime-tts"
    if name in ("doctor", "serve"):
        arguments = ["--help"]  # tests/cli/ runs them
    elif name not in ("config", "key", "explain"):
        arguments += MODEL_OF_TESTS
    result = subprocess.run(
        [sys.executable, "-m", "realtime_tts", name, *arguments], cwd=tmp_path, capture_output=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert name != "say" or (tmp_path / "speech.wav").stat().st_size > 44


@pytest.mark.parametrize("command", [c for c in COMMANDS if " -m bench." in c])
def test_every_measurement_explains_itself(command: str) -> None:
    module = shlex.split(command)[2]
    result = subprocess.run([sys.executable, "-m", module, "--help"], cwd=ROOT, capture_output=True, check=False)
    assert result.returncode == 0, result.stderr
    assert b"usage" in result.stdout


def test_every_flag_exists() -> None:
    known = {"--help", "--report", *flags()}  # --report is an option of every benchmark
    found = set()
    for document, span in spans(DOCUMENTS):
        for flag in () if "-m bench." in span else FLAG.findall(span):
            assert flag in known, f"{document}: `{span}`"
            found.add(flag)
    assert {"--model", "--compare", "--set", "--allow-public"} <= found, "the search finds them"


def test_every_setting_exists() -> None:
    known = {*settings(), *CLIENT_MESSAGES, *SERVER_MESSAGES, *sglang.SERVER_MESSAGES}
    found = set()
    for document, span in spans(PRESENT):
        if re.fullmatch(rf"(?:{'|'.join(SECTIONS)})\.[a-z_]+", span):
            assert span in known, f"{document}: there is no setting {span}"
            found.add(span)
    assert "server.drain_s" in found, "the search finds them"


def test_every_extra_exists() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    named = [name for each in DOCUMENTS for name in re.findall(r"(?:realtime-tts|\.)\[(\w+)\]'", each.read_text())]
    assert {"torch", "bench", "tracing"} <= set(named) <= extras.keys()


# -- Examples ----------------------------------------------------------------------------------------------------------


async def test_the_client_in_ten_lines_works() -> None:
    block = blocks(README, "python")[0]
    assert len([line for line in block.splitlines() if line.strip()]) <= 12
    namespace: dict[str, Any] = {}
    exec(block.replace("asyncio.run(main())", ""), namespace)
    printed = io.StringIO()
    async with tone_server() as (url, _):
        with contextlib.redirect_stdout(printed):
            await namespace["main"](url)
    assert "bytes of speech" in printed.getvalue()
    assert "SessionDone(" in printed.getvalue()


async def test_the_client_of_openai_s_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, block, _chat = blocks(README, "python")
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {}
    exec(block.replace("\nmain()\n", "").replace("af_heart", "tone_low"), namespace)
    async with tone_server() as (url, _):
        await asyncio.to_thread(namespace["main"], f"{url}/v1")
    assert soundfile.info(tmp_path / "hello.mp3").format == "MP3"


async def test_the_conversation_of_the_readme_is_answered() -> None:
    block = blocks(README, "python")[2]
    namespace: dict[str, Any] = {}
    exec(block.replace("\nmain()\n", ""), namespace)
    printed = io.StringIO()
    async with answer_server() as (url, _, _):
        with contextlib.redirect_stdout(printed):
            await asyncio.to_thread(namespace["main"], f"{url}/v1")
    assert printed.getvalue() == "You said: Hello?\n"


def test_the_complete_model_speaks() -> None:
    (block,) = (each for each in blocks(ROOT / "docs/adding-a-model.md", "python") if not QUOTE.match(each))
    namespace: dict[str, Any] = {}
    exec(block, namespace)
    engine, events = make_engine(namespace["MODEL"].build())
    engine.handle(Submit(SynthesisRequest("r", "s", "Hello.", "beep")))
    run_to_end(engine)
    (end,) = ends_of(events, "r")
    assert end.reason == "complete"
    assert sum(len(samples) for samples in samples_of(events, "r")) == 6 * 1280


def test_quoted_code_is_in_its_file() -> None:
    quotes = 0
    for document in DOCUMENTS:
        for block in blocks(document, "python"):
            if match := QUOTE.match(block):
                quotes += 1
                whole = (ROOT / match[1]).read_text("utf-8")
                lines = [line.strip() for line in block[match.end() :].strip().splitlines()]
                pattern = r"\n *".join(map(re.escape, lines))
                assert re.search(pattern, whole), f"{document.name} quotes {match[1]}:\n{block}"
            else:
                ast.parse(block)
    assert quotes > 4, "the search finds them"


# -- Names -------------------------------------------------------------------------------------------------------------


def anchors(document: Path) -> set[str]:
    """Of its headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", document.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_link_leads_somewhere() -> None:
    for document in [*DOCUMENTS, ROOT / "bench/RESULTS.md", *PACKAGE.rglob("*.md")]:
        for target in re.findall(r"\]\(([^):]+)\)", document.read_text("utf-8")):
            name, _, anchor = target.partition("#")
            path = document.parent / name if name else document
            assert path.exists(), f"{document.name} links to {target}"
            assert not anchor or anchor in anchors(path), f"{document.name} links to {target}"


def test_every_folder_and_file_that_is_named_exists() -> None:
    found = 0
    for document, span in spans(PRESENT):
        if re.fullmatch(r"(?!build/)(?:[\w.-]+/)+(?:[\w.-]+\.(?:py|md|js|mjs|json|yaml|yml|toml|html))?", span):
            assert (ROOT / span).exists() or (PACKAGE / span).exists(), f"{document} names {span}"
            found += 1
    assert found > 50, "the search finds them"


@cache
def definitions() -> dict[str, set[str]]:
    """Every class, constant and type alias of the package by name, with the names that a class defines."""
    found: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, set()).update(names_in(node))
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found.setdefault(node.target.id, set())
    return found


def names_in(definition: ast.ClassDef) -> Iterator[str]:
    for node in definition.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def test_every_class_and_method_that_docs_name_exists() -> None:
    found = 0
    for document, span in spans(ROOT.glob("docs/*.md")):
        match = re.fullmatch(r"([A-Z]\w*[a-z]\w*)(?:\.(\w+))?", span)
        if match is None or hasattr(builtins, match[1]):
            continue
        assert match[1] in definitions(), f"{document} names {span}"
        assert match[2] is None or match[2] in definitions()[match[1]], f"{document} names {span}"
        found += 1
    assert found > 50, "the search finds them"


def test_the_changelog_has_the_present_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    headings = re.findall(r"^## (.+)$", CHANGELOG.read_text("utf-8"), re.MULTILINE)
    assert headings[0] in ("Unreleased", version)
    assert version in headings
