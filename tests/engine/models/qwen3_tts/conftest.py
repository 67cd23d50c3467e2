"""Tiny models, made once a session and only where they are asked for."""

import functools
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.engine.models.qwen3_tts.tiny import GetTiny


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> "GetTiny":
    from tests.engine.models.qwen3_tts.tiny import load_tiny

    return functools.cache(lambda name: load_tiny(tmp_path_factory.mktemp(name), name))
