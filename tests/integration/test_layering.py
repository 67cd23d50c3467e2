"""Imports go down only, heavy packages stay in their folders, and every module has a docstring and a test file."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "realtime_tts"
MODULES = sorted(PACKAGE.rglob("*.py"))

LAYERS = [
    *(
        ("errors", "clock"),
        ("text", "audio"),
        ("engine",),
        ("cluster",),
        ("session",),
        ("config",),
        ("voices",),
        ("frontends",),
    ),
    *(("client", "ops"), ("server",), ("cli",)),
]
"""From the bottom up.  Folders of one layer do not import each other."""
ENTRY_POINTS = ("__init__.py", "__main__.py")
MAX_TOP_LEVEL_NAMES = 17

HEAVY = {"torch", "onnxruntime", "onnx", "transformers", "vllm", "sanotts", "safetensors", "tokenizers"}
HEAVY_FOLDERS = ("engine/models/", "engine/executors/")


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def imports_of(path: Path) -> Iterator[str]:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module or ""


def folder_of(name: str) -> str:
    """The folder, or the module, at the top level of the package."""
    return name.removesuffix(".py").split("/")[0]


def layer_of(folder: str) -> int:
    return next(rank for rank, layer in enumerate(LAYERS) if folder in layer)


def test_imports_go_down_only() -> None:
    for path in MODULES:
        name = name_of(path)
        if name in ENTRY_POINTS:
            continue
        for module in imports_of(path):
            parts = module.split(".")
            if parts[0] != "realtime_tts" or len(parts) == 1:
                continue
            is_lower = folder_of(name) == parts[1] or layer_of(parts[1]) < layer_of(folder_of(name))
            assert is_lower, f"{name} imports {module}, which is not below it"
            if name.startswith("session/") and parts[1] == "engine":
                assert parts[2] == "api", f"{name} imports {module}: the session knows engine.api alone"


def test_every_folder_has_its_layer() -> None:
    folders = {folder_of(name_of(path)) for path in MODULES if name_of(path) not in ENTRY_POINTS}
    assert folders == {folder for layer in LAYERS for folder in layer}
    assert len(folders) <= MAX_TOP_LEVEL_NAMES


def test_heavy_packages_are_imported_by_models_and_executors_alone() -> None:
    for path in MODULES:
        name = name_of(path)
        heavy = HEAVY & {module.split(".")[0] for module in imports_of(path)}
        assert not heavy or name.startswith(HEAVY_FOLDERS), f"{name} imports {heavy}"


def test_only_the_clock_reads_the_time() -> None:
    for path in MODULES:
        assert name_of(path) == "clock.py" or "time" not in set(imports_of(path)), name_of(path)


def test_every_module_has_a_docstring() -> None:
    for path in MODULES:
        assert not path.stat().st_size or ast.get_docstring(tree_of(path)), name_of(path)


def has_body(node: ast.AST) -> bool:
    """Whether it is a function with more than a docstring and `...`."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    constants = [each for each in node.body if isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)]
    return len(constants) < len(node.body)


def test_every_module_with_a_function_has_a_test_file() -> None:
    for path in MODULES:
        if not any(has_body(node) for node in ast.walk(tree_of(path))):
            continue  # types, protocols and values
        relative = path.relative_to(PACKAGE)
        mirror = (relative.parent.name or "package") if relative.name == "__init__.py" else relative.stem
        test = ROOT / "tests" / relative.parent / f"test_{mirror}.py"
        assert test.exists(), f"{name_of(path)} has no {test.relative_to(ROOT)}"


def loaded_by(code: str) -> set[str]:
    code = f"import sys, {code}; print(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(result.stdout.split())


def test_importing_the_package_or_the_command_line_loads_nothing_heavy() -> None:
    for module in ("realtime_tts", "realtime_tts.cli.main"):
        assert not (HEAVY | {"numpy", "aiohttp"}) & loaded_by(module), module
