"""Tiny models, created once per session; all tests that use them run in one pytest-xdist worker."""

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from realtime_tts.engine.stage import Model

if TYPE_CHECKING:
    from tests.engine.models.qwen3_omni.parts import OmniParts
    from tests.engine.models.qwen3_tts.tiny import GetTiny

EXPENSIVE = {"tiny", "whole", "built"}
OMNI = {"omni", "omni_parts", "omni_model"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    own = [item for item in items if item.path.is_relative_to(Path(__file__).parent)]
    for item in own:
        if isinstance(item, pytest.Function) and EXPENSIVE & set(item.fixturenames):
            item.add_marker(pytest.mark.xdist_group("qwen3_tts"))
        if isinstance(item, pytest.Function) and OMNI & set(item.fixturenames):
            item.add_marker(pytest.mark.xdist_group("qwen3_omni"))


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    """One thread is faster for matrices this small, and much faster while other processes use the cores."""
    # Tests of models on torch have imported it at collection.
    if "torch" in sys.modules:
        import torch

        torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> "GetTiny":
    """The Talker of a tiny model, by the name of its recipe."""
    from tests.engine.models.qwen3_tts.tiny import load_tiny

    return functools.cache(lambda name: load_tiny(tmp_path_factory.mktemp(name), name))


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The directory of a complete tiny model with its codec, by the name of its recipe."""
    pytest.importorskip("torch")
    from tests.engine.models.qwen3_tts.make_whole import make_whole

    @functools.cache
    def made(name: str) -> Path:
        directory = tmp_path_factory.mktemp("whole") / name
        make_whole(directory, name)
        return directory

    return made


@pytest.fixture(scope="session")
def built(whole: Callable[[str], Path]) -> Callable[[str], Model]:
    """A complete tiny model with three slots, loaded, by the name of its recipe.  Tests must leave its slots free."""
    from tests.engine.models.qwen3_tts.pipeline import build

    return functools.cache(lambda name: build(whole(name)))


@pytest.fixture(scope="session")
def omni(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a tiny Qwen3-Omni, whose expected values are recorded."""
    pytest.importorskip("torch")
    from tests.engine.models.qwen3_omni.make_checkpoint import make_checkpoint

    directory = tmp_path_factory.mktemp("omni") / "tiny"
    make_checkpoint(directory)
    return directory


@pytest.fixture(scope="session")
def omni_parts(omni: Path) -> "OmniParts":
    from tests.engine.models.qwen3_omni.parts import load_parts

    return load_parts(omni)


@pytest.fixture(scope="session")
def omni_model(omni: Path) -> Model:
    """A complete tiny Qwen3-Omni with five slots, loaded.  Tests must leave its slots free."""
    from tests.engine.models.qwen3_omni.whole import build

    return build(omni)
