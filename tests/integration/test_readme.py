"""The documents are true: commands exist and run, examples work, links and names lead to files."""

import asyncio
import contextlib
import io
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import soundfile

from realtime_tts.engine.api import Submit, SynthesisRequest
from tests.fakes import ends_of, make_engine, run_to_end, samples_of
from tests.serving import tone_server

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "README.md").read_text("utf-8")
COMMANDS = [
    line.strip()
    for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    for line in block.splitlines()
    if line.strip()
]
PYTHON = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
MODEL_OF_TESTS = ["--model", "tone"]


def test_the_two_commands_are_there() -> None:
    assert {"make serve", "make test"} <= set(COMMANDS)


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
@pytest.mark.parametrize("command", [c for c in COMMANDS if c.startswith("make")])
def test_every_make_command_has_its_target(command: str) -> None:
    result = subprocess.run([*shlex.split(command), "--dry-run"], cwd=ROOT, capture_output=True, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("command", [c for c in COMMANDS if "realtime-tts" in c])
def test_every_other_command_runs(command: str, tmp_path: Path) -> None:
    program, name, *arguments = shlex.split(command)
    assert Path(program).name == "realtime-tts"
    if name == "doctor":
        arguments = ["--help"]  # what it measures is tested where it is defined
    elif name not in ("config", "key"):
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


def test_every_command_is_of_a_kind_that_is_tested() -> None:
    assert all(c.startswith("make") or "realtime-tts" in c or " -m bench." in c for c in COMMANDS)


async def test_the_client_in_ten_lines_works() -> None:
    block = PYTHON[0]
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
    _, block = PYTHON
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {}
    exec(block.replace("\nmain()\n", "").replace("af_heart", "tone_low"), namespace)
    async with tone_server() as (url, _):
        await asyncio.to_thread(namespace["main"], f"{url}/v1")
    assert soundfile.info(tmp_path / "hello.mp3").format == "MP3"


DOCUMENTS = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "protocol.md")] + sorted(
    (ROOT / "docs").glob("*.md")
)


def test_every_link_leads_somewhere() -> None:
    for document in DOCUMENTS:
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text("utf-8")):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"


def test_every_folder_and_file_that_is_named_exists() -> None:
    for document in DOCUMENTS:
        names = re.findall(r"`((?:[\w.-]+/)+[\w.-]*(?:\.py|\.md|/))`", document.read_text("utf-8"))
        for name in names:
            places = (ROOT / name, ROOT / "realtime_tts" / name)
            assert any(place.exists() for place in places) or "<" in name, f"{document.name} names {name}"


def test_the_make_commands_of_contributing_exist() -> None:
    commands = re.findall(r"^make ([\w-]+)$", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.MULTILINE)
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert commands
    for command in commands:
        assert re.search(rf"^{command}:", makefile, re.MULTILINE), command


def test_the_example_of_a_model_speaks() -> None:
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/adding-a-model.md").read_text("utf-8"), re.DOTALL)
    namespace: dict[str, Any] = {}
    exec(block, namespace)
    model = namespace["MODEL"].build()
    engine, events = make_engine(model)
    engine.handle(Submit(SynthesisRequest("r", "s", "Hello.", "beep")))
    run_to_end(engine)
    (end,) = ends_of(events, "r")
    assert end.reason == "complete"
    assert sum(len(samples) for samples in samples_of(events, "r")) == 6 * 1280
