"""Ids equal those of the reference with the real vocabulary, and no text can contain a special token."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.engine.models.qwen3_tts.config import ModelConfig
from realtime_tts.engine.models.qwen3_tts.tokenizer import load_tokenizer
from realtime_tts.errors import ModelNotUsable
from tests.engine.models.qwen3_tts.make_checkpoint import SPECIALS
from tests.engine.models.qwen3_tts.tiny import GOLDENS, GetTiny

RECORDED: dict[str, Any] = json.loads((GOLDENS / "tokens.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def published(tiny: GetTiny) -> ModelConfig:
    """A config with the size of the published vocabulary."""
    config = tiny("custom_voice").config
    talker = replace(config.talker_config, text_vocab_size=151_936)
    return replace(config, talker_config=talker, im_start_token_id=151_644, im_end_token_id=151_645)


def write(directory: Path, vocab: dict[str, int], merges: list[str]) -> Path:
    (directory / "vocab.json").write_text(json.dumps(vocab), "utf-8")
    (directory / "merges.txt").write_text("\n".join(["#version: 0.2", *merges, ""]), "utf-8")
    return directory


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("real"), RECORDED["vocab"], RECORDED["merges"])


def test_ids_equal_those_of_the_reference(real: Path, published: ModelConfig) -> None:
    tokenizer = load_tokenizer(real, published)
    for recorded in RECORDED["texts"]:
        text: str = recorded["text"]
        if text == text.strip():
            assert list(tokenizer.text(text)) == recorded["qwen"], text
        else:
            assert tokenizer.text(text) == tokenizer.text(text.strip()), text


def test_well_known_ids_of_the_real_vocabulary(real: Path, published: ModelConfig) -> None:
    tokenizer = load_tokenizer(real, published)
    assert tokenizer.text("Hello, world!") == (9707, 11, 1879, 0)
    assert tokenizer.assistant == (151_644, 77_091, 198)
    assert tokenizer.instruct("Hello") == (151_644, 872, 198, 9707, 151_645, 198)


def test_composed_and_decomposed_letters_have_the_same_ids(real: Path, published: ModelConfig) -> None:
    tokenizer = load_tokenizer(real, published)
    assert tokenizer.text("e\u0301tude") == tokenizer.text("étude")


@settings(max_examples=40, deadline=None)
@given(text=st.text(st.characters() | st.sampled_from("\ud800\udfff\x00\n\r\t ")))
def test_no_text_gives_a_special_id(tiny: GetTiny, text: str) -> None:
    tokenizer = tiny("custom_voice").tokenizer
    limit = tiny("custom_voice").config.talker_config.text_vocab_size - len(SPECIALS)
    ids = tokenizer.text(text)
    assert all(0 <= token < limit for token in ids)
    assert bool(ids) == bool(text.encode("utf-8", "ignore").decode().strip())


def test_the_name_of_a_special_token_is_plain_text(tiny: GetTiny) -> None:
    tokenizer = tiny("custom_voice").tokenizer
    limit = tiny("custom_voice").config.talker_config.text_vocab_size - len(SPECIALS)
    for special in SPECIALS:
        ids = tokenizer.text(f"hello{special}hello")
        assert len(ids) > len(special) // 2
        assert max(ids) < limit


def test_inconsistent_files_are_rejected(tmp_path: Path, published: ModelConfig) -> None:
    vocab, merges = RECORDED["vocab"], RECORDED["merges"]
    wrong: list[tuple[dict[str, int], list[str], str]] = [
        ({}, merges, "256 bytes"),
        (vocab | {"x y": 151_936}, merges, "outside"),
        (vocab | {"x y": -1}, merges, "outside"),
        (vocab, [*merges, "one"], "not two tokens"),
        (vocab, [*merges, "a b c"], "not two tokens"),
        (vocab, [*merges, "nothing known"], "do not match"),
        (vocab, [], "assistant"),
    ]
    for bad_vocab, bad_merges, words in wrong:
        with pytest.raises(ModelNotUsable, match=words):
            load_tokenizer(write(tmp_path, bad_vocab, bad_merges), published)


def test_unreadable_files_are_rejected(tmp_path: Path, published: ModelConfig) -> None:
    with pytest.raises(ModelNotUsable, match=r"vocab\.json cannot be read"):
        load_tokenizer(tmp_path, published)
    write(tmp_path, RECORDED["vocab"], [])
    (tmp_path / "merges.txt").write_bytes(b"\xff\xff a\n")
    with pytest.raises(ModelNotUsable, match="not UTF-8"):
        load_tokenizer(tmp_path, published)
    (tmp_path / "merges.txt").unlink()
    with pytest.raises(ModelNotUsable, match=r"merges\.txt cannot be read"):
        load_tokenizer(tmp_path, published)
