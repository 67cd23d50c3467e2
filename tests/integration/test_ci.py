"""Settings of CI and of pre-commit: they name versions, targets and tools that exist."""

import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def test_ci_runs_all_checks_on_every_supported_version_of_python() -> None:
    job = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text("utf-8"))["jobs"]["test"]
    declared = [name.removeprefix("Programming Language :: Python :: ") for name in PROJECT["classifiers"]]
    assert job["strategy"]["matrix"]["python"] == [name for name in declared if name.startswith("3.")]
    assert job["steps"][-1] == {"run": "bash .ci/run"}


def test_the_targets_of_the_ci_script_exist() -> None:
    targets = re.findall(r"^ *make ([\w-]+)", (ROOT / ".ci/run").read_text("utf-8"), re.MULTILINE)
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert {"lint", "test-all", "test-browser"} <= set(targets)
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_pre_commit_runs_tools_of_the_development_environment() -> None:
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    development = {re.split(r"[<>=\[]", each)[0] for each in PROJECT["optional-dependencies"]["dev"]}
    assert repository["repo"] == "local"
    for hook in repository["hooks"]:
        program = Path(hook["entry"].split()[0])
        assert (program.parent, hook["language"]) == (Path(".venv/bin"), "system"), hook["id"]
        assert program.name in development, hook["id"]
