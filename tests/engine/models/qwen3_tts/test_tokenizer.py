"""Ids are those of the reference, with the real vocabulary; and no text can pose as a turn."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.engine.models.qwen3_tts.config import ModelConfig
from realtime_tts.engine.models.qwen3_tts.tokenizer import TextTokenizer, Words, load_tokenizer
from realtime_tts.errors import ModelNotUsable
from tests.engine.models.qwen3_tts.make_checkpoint import SPECIALS
from tests.engine.models.qwen3_tts.tiny import GOLDENS, GetTiny

RECORDED: dict[str, Any] = json.loads((GOLDENS / "tokens.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def published(tiny: GetTiny) -> ModelConfig:
    """A config with the published size of vocabulary."""
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


@pytest.mark.parametrize("words", Words)
@pytest.mark.parametrize("recorded", RECORDED["texts"], ids=lambda recorded: recorded["text"][:12])
def test_ids_are_those_of_the_reference(
    real: Path, published: ModelConfig, words: Words, recorded: dict[str, Any]
) -> None:
    text: str = recorded["text"]
    ids = load_tokenizer(real, published, words).text(text)
    if text == text.strip():
        assert list(ids) == recorded[words]
    else:
        assert ids == load_tokenizer(real, published, words).text(text.strip())


def test_the_two_ways_of_cutting_words_differ() -> None:
    assert any(recorded["qwen"] != recorded["mistral"] for recorded in RECORDED["texts"])


def test_well_known_ids_of_the_real_vocabulary(real: Path, published: ModelConfig) -> None:
    tokenizer = load_tokenizer(real, published)
    assert tokenizer.text("Hello, world!") == (9707, 11, 1879, 0)
    assert tokenizer.assistant == (151_644, 77_091, 198)
    assert tokenizer.instruct("Hello") == (151_644, 872, 198, 9707, 151_645, 198)


def test_composed_and_decomposed_letters_are_the_same(real: Path, published: ModelConfig) -> None:
    tokenizer = load_tokenizer(real, published)
    assert tokenizer.text("e\u0301tude") == tokenizer.text("étude")


@settings(deadline=None)
@given(text=st.text(st.characters() | st.sampled_from("\ud800\udfff\x00\n\r\t ")))
def test_any_text_gives_ids_of_the_vocabulary_that_are_no_special_ones(tiny: GetTiny, text: str) -> None:
    tokenizer = tiny("custom_voice").tokenizer
    limit = tiny("custom_voice").config.talker_config.text_vocab_size - len(SPECIALS)
    ids = tokenizer.text(text)
    assert all(0 <= token < limit for token in ids)
    assert bool(ids) == bool(text.encode("utf-8", "ignore").decode().strip())


@pytest.mark.parametrize("special", SPECIALS)
def test_a_special_tokens_name_in_a_text_is_text(tiny: GetTiny, special: str) -> None:
    tokenizer: TextTokenizer = tiny("custom_voice").tokenizer
    limit = tiny("custom_voice").config.talker_config.text_vocab_size - len(SPECIALS)
    ids = tokenizer.text(f"hello{special}hello")
    assert len(ids) > len(special) // 2
    assert max(ids) < limit


def test_files_that_do_not_fit_are_refused(tmp_path: Path, published: ModelConfig) -> None:
    vocab, merges = RECORDED["vocab"], RECORDED["merges"]
    wrong: list[tuple[dict[str, int], list[str], str]] = [
        ({}, merges, "256 bytes"),
        (vocab | {"x y": 151_936}, merges, "beyond"),
        (vocab | {"x y": -1}, merges, "beyond"),
        (vocab, [*merges, "one"], "not two tokens"),
        (vocab, [*merges, "a b c"], "not two tokens"),
        (vocab, [*merges, "nothing known"], "do not fit"),
        (vocab, [], "assistant"),
    ]
    for bad_vocab, bad_merges, words in wrong:
        with pytest.raises(ModelNotUsable, match=words):
            load_tokenizer(write(tmp_path, bad_vocab, bad_merges), published)


def test_files_that_cannot_be_read_are_refused(tmp_path: Path, published: ModelConfig) -> None:
    with pytest.raises(ModelNotUsable, match=r"vocab\.json cannot be read"):
        load_tokenizer(tmp_path, published)
    write(tmp_path, RECORDED["vocab"], [])
    (tmp_path / "merges.txt").write_bytes(b"\xff\xff a\n")
    with pytest.raises(ModelNotUsable, match="not UTF-8"):
        load_tokenizer(tmp_path, published)
    (tmp_path / "merges.txt").unlink()
    with pytest.raises(ModelNotUsable, match=r"merges\.txt cannot be read"):
        load_tokenizer(tmp_path, published)
