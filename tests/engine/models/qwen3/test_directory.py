"""Only the files of a repository's model are downloaded."""

from pathlib import Path

import pytest

from realtime_tts.engine.models.qwen3.directory import Repository, find_directory
from realtime_tts.errors import ModelNotUsable

REPOSITORY = Repository("some_model", "Someone/Some-Model")


def test_a_directory_or_a_downloaded_repository_is_found(tmp_path: Path) -> None:
    assert find_directory(REPOSITORY, tmp_path, print) == (tmp_path, tmp_path.name)
    lines: list[str] = []
    found = find_directory(REPOSITORY, "Someone/Some-Model", lines.append, lambda _name: str(tmp_path))
    assert found == (tmp_path, "Some-Model")
    assert "Someone/Some-Model" in lines[0]


def test_an_error_names_the_model_and_an_example() -> None:
    with pytest.raises(ModelNotUsable, match=r"some_model has no weights of its own.*Someone/Some-Model"):
        find_directory(REPOSITORY, None, print)
    with pytest.raises(ModelNotUsable, match="is not a directory"):
        find_directory(REPOSITORY, "no such directory", print)
