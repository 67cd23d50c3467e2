"""Ordinary English loses no sound on its way to the model, and no length of text is cut short."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.engine.models.kokoro.phonemes import (
    MAX_PIECE_TOKENS,
    Pronouncer,
    load_vocabulary,
    split_phonemes,
)

ORDINARY = [
    "Hello there, how can I help you today?",
    "The quick brown fox jumps over the lazy dog.",
    "“It's raining,” she said — (quietly) — and left; why? Wait… no!",
    "Dr. Smith paid $3.50 for 2 kg of flour at 3:30 p.m. on Nov 29th, 2026.",
    "See https://example.com/docs or write to bob.smith@example.com.",
    "Zyxqwv blorptang, naïve café über alles.",
    "NASA's GPU ran snake_case code in main.py at 72°F.",
]


@pytest.fixture(scope="module")
def pronouncer() -> Pronouncer:
    return Pronouncer()


@given(st.text(alphabet="aˈn .,;—", max_size=3000), st.integers(1, 510))
def test_pieces_joined_are_the_whole_and_none_is_too_long(phonemes: str, limit: int) -> None:
    pieces = split_phonemes(phonemes, limit)
    assert "".join(pieces) == phonemes
    assert all(1 <= len(piece) <= limit for piece in pieces)


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("aaaaa. aa, aa aaaa", "aaaaa."),
        ("aaaaaa, aa aaaa", "aaaaaa,"),
        ("aaaaaa aaaaaaa", "aaaaaa "),
        ("aaaaaaaaaaaaaa", "aaaaaaaaaa"),
        ("a. aaaaa aaaaaaa", "a. aaaaa "),
    ],
)
def test_pieces_end_at_the_best_place(text: str, first: str) -> None:
    assert split_phonemes(text, 10)[0] == first


@pytest.mark.model
@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_loses_no_symbol(pronouncer: Pronouncer, text: str) -> None:
    assert pronouncer.unknown_symbols(text) == ""
    assert len(pronouncer.phonemes(text)) > 10


@pytest.mark.model
@pytest.mark.parametrize("text", ["", " ", "...", "😀", "你好", "\ud800", "—", "'", '""', "?!"])
def test_text_without_a_sound_has_no_pieces(pronouncer: Pronouncer, text: str) -> None:
    assert pronouncer.read(text) == []


@pytest.mark.model
def test_pieces_are_tokens_that_the_model_knows(pronouncer: Pronouncer) -> None:
    pieces = pronouncer.read("This goes on and on. " * 60)
    tokens = set(load_vocabulary().values())
    assert len(pieces) > 1
    assert all(0 < len(piece) <= MAX_PIECE_TOKENS and set(piece) <= tokens for piece in pieces)


@pytest.mark.model
@settings(deadline=None, max_examples=60)  # a guess at an unknown word takes 50 ms
@given(st.text(alphabet=st.one_of(st.characters(), st.sampled_from("aA1 .'-_@#$%\"()é")), max_size=40))
def test_no_text_fails(text: str) -> None:
    PRONOUNCER.read(text)


PRONOUNCER = Pronouncer()
