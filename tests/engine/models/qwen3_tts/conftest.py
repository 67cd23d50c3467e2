"""Tiny models, made once a session and only where they are asked for."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.engine.models.qwen3_tts.tiny import GetTiny


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> "GetTiny":
    from tests.engine.models.qwen3_tts.tiny import load_tiny

    return functools.cache(lambda name: load_tiny(tmp_path_factory.mktemp(name), name))


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The directory of a whole tiny model, with its codec, by the name of its recipe."""
    from tests.engine.models.qwen3_tts.make_whole import make_whole

    @functools.cache
    def made(name: str) -> Path:
        directory = tmp_path_factory.mktemp("whole") / name
        make_whole(directory, name)
        return directory

    return made
