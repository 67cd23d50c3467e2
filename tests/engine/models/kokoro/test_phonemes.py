"""Tests of the conversion to phonemes: no sound of ordinary English is lost, and text of any length is kept."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.engine.models.kokoro.phonemes import (
    MAX_PIECE_TOKENS,
    Pronouncer,
    load_vocabulary,
    split_phonemes,
)
from realtime_tts.text.english.normalizer import normalize
from realtime_tts.text.offsets import AlignedText
from tests.engine.models.kokoro.conftest import real_voice

ORDINARY = [
    "Hello there, how can I help you today?",
    "The quick brown fox jumps over the lazy dog.",
    "“It's raining,” she said — (quietly) — and left; why? Wait… no!",
    "Dr. Smith paid $3.50 for 2 kg of flour at 3:30 p.m. on Nov 29th, 2026.",
    "See https://example.com/docs or write to bob.smith@example.com.",
    "Zyxqwv blorptang, naïve café über alles.",
    "NASA's GPU ran snake_case code in main.py at 72°F.",
]


@settings(max_examples=50)
@given(st.text(alphabet="aˈn .,;—", max_size=3000), st.integers(1, 510))
def test_concatenated_pieces_are_the_whole_and_none_is_too_long(phonemes: str, limit: int) -> None:
    pieces = split_phonemes(AlignedText.of(phonemes), limit)
    assert "".join(piece.text for piece in pieces) == phonemes
    assert [origin for piece in pieces for origin in piece.sources] == list(range(len(phonemes)))
    assert all(1 <= len(piece.text) <= limit for piece in pieces)


def test_pieces_end_at_the_best_boundary() -> None:
    for text, first in (
        ("aaaaa. aa, aa aaaa", "aaaaa."),
        ("aaaaaa, aa aaaa", "aaaaaa,"),
        ("aaaaaa aaaaaaa", "aaaaaa "),
        ("aaaaaaaaaaaaaa", "aaaaaaaaaa"),
        ("a. aaaaa aaaaaaa", "a. aaaaa "),
    ):
        assert split_phonemes(AlignedText.of(text), 10)[0].text == first, text


@real_voice
def test_ordinary_text_loses_no_symbol(pronouncer: Pronouncer) -> None:
    for text in ORDINARY:
        symbols = pronouncer.transcribe(text).text
        assert set(symbols) <= load_vocabulary().keys(), text
        assert len(symbols) > 10, text


@real_voice
def test_text_without_a_sound_has_no_pieces(pronouncer: Pronouncer) -> None:
    for text in ("", " ", "...", "😀", "你好", "\ud800", "—", "'", '""', "?!"):
        assert pronouncer.read(text) == [], ascii(text)


@real_voice
def test_pieces_are_tokens_that_the_model_knows(pronouncer: Pronouncer) -> None:
    pieces = pronouncer.read("This goes on and on. " * 60)
    tokens = set(load_vocabulary().values())
    assert len(pieces) > 1
    assert all(0 < len(piece.tokens) <= MAX_PIECE_TOKENS and set(piece.tokens) <= tokens for piece in pieces)
    assert all(len(piece.tokens) == len(piece.phonemes.text) for piece in pieces)


@pytest.mark.slow
@real_voice
@settings(max_examples=60)  # the pronunciation of an unknown word takes 50 ms
@given(text=st.text(alphabet=st.one_of(st.characters(), st.sampled_from("aA1 .'-_@#$%\"()é—")), max_size=40))
def test_any_text_is_transcribed_like_the_dictionary_with_ordered_origins(pronouncer: Pronouncer, text: str) -> None:
    pronouncer.read(text)
    phonemes = pronouncer.transcribe(text)
    words = pronouncer._homographs.insert_placeholders(normalize(AlignedText.of(text)))
    assert phonemes.text == pronouncer._g2p(words.text)[0].strip()
    assert phonemes.sources == sorted(phonemes.sources)
    assert all(0 <= origin < len(text) for origin in phonemes.sources)


@real_voice
def test_the_origin_of_each_phoneme_is_in_its_word(pronouncer: Pronouncer) -> None:
    text = "“Hello,” she said: don't well-known a'-b (quietly) — and left; why? Zyxqwv, NASA's café."
    phonemes = pronouncer.transcribe(text)
    starts = [match.start() for match in re.finditer(r"\S+", text)]
    assert [phonemes.sources[match.start()] for match in re.finditer(r"\S+", phonemes.text)] == starts


@real_voice
def test_words_are_pronounced_as_the_request_says(pronouncer: Pronouncer) -> None:
    before = len(pronouncer._g2p.lexicon.golds)
    cases: tuple[tuple[str, dict[str, str], str], ...] = (
        ("Dr. Nguyen, hello!", {"Nguyen": "wɪn"}, "dˈɑktəɹ wɪn, həlˈO!"),
        ("Nguyen's dog", {"Nguyen": "ˈwɪn"}, "ˈwɪnz dˈɔɡ"),
        ("the Anders way", {"Anders": "ˈɑndəs"}, "ði ˈɑndəs wˈA"),
        ("GPT-4 of US", {"GPT-4": "dʒiː", "US": "ʌs"}, "ʤi ʌv ʌs"),
        ("C++ or C", {"C++": "siː", "C": "kiː"}, "si ɔɹ ki"),
        ("New York", {"New York": "nuː ˈjɔːrk", "York": "no"}, "nu ˈjɔɹk"),
        ("cats or cat", {"cat": "dɔg"}, "kˈæts ɔɹ dɔɡ"),
        ("cat", {"Cat": "dɔg", "": "a", "dog": "kæt"}, "kˈæt"),
        ("cat", {"cat": "."}, "kˈæt"),
        ("Łódź", {"Łódź": "wutʃ"}, "wuʧ"),
    )
    for text, own, symbols in cases:
        assert pronouncer.transcribe(text, tuple(own.items())).text == symbols, text
        assert len(pronouncer._g2p.lexicon.golds) == before, text


@real_voice
def test_each_of_many_words_has_its_own_pronunciation(pronouncer: Pronouncer) -> None:
    own = [(f"word{number}x", "ba" * (number % 7 + 1)) for number in range(120)]
    phonemes = pronouncer.transcribe(" ".join(word for word, _ in own), own).text
    assert phonemes.split() == [ipa for _, ipa in own]


@pytest.mark.slow
@real_voice
@settings(max_examples=60)
@given(
    text=st.text("aB1-. '😀", max_size=20),
    own=st.lists(st.tuples(st.text("aB1-. '😀(", max_size=3), st.text(max_size=4)), max_size=4),
)
def test_no_pronunciation_fails(pronouncer: Pronouncer, text: str, own: list[tuple[str, str]]) -> None:
    phonemes = pronouncer.transcribe(text, own)
    assert phonemes.sources == sorted(phonemes.sources)
    pronouncer.read(text, own)
