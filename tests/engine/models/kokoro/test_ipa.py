"""Tests of the conversion of written IPA to Kokoro's symbols, which are all sounds."""

from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.engine.models.kokoro.ipa import IPA_SYMBOLS, british_symbols, kokoro_symbols
from realtime_tts.engine.models.kokoro.phonemes import PAUSES, load_vocabulary


def test_common_ipa_becomes_kokoros_symbols() -> None:
    for ipa, symbols in (
        ("ˈnaɪki", "ˈnIki"),
        ("t͡ʃeɪndʒ", "ʧAnʤ"),
        ("goʊ", "ɡO"),
        ("ɡəʊ", "ɡO"),
        ("nuː ˈjɔːrk", "nu ˈjɔɹk"),
        ("nɜːs", "nɜɹs"),
        ("nɝs", "nɜɹs"),
        ("ˈbʌtn̩", "ˈbʌtᵊn"),
        ("ˈlɪt.əl̩", "ˈlɪtᵊl"),
        ("haʊ bɔɪ", "hW bY"),
        ("haʊ̯", "hW"),
        ("bed", "bɛd"),
        ("'kæts", "ˈkæts"),
        ("si:t", "sit"),
        ("ˈwɔɾɚ", "ˈwɔTəɹ"),
        ("façade", "façadɛ"),
        ("bɔ\u0303 s\u00e3", "bɔ\u0303 sa\u0303"),
        (" a ", "a"),
        ("ː.", ""),
    ):
        assert kokoro_symbols(ipa) == symbols, ipa


def test_ipa_for_british_voices_stays_as_it_is_written() -> None:
    for ipa, symbols in (
        ("nɜːs", "nɜːs"),
        ("ɡəʊ", "ɡQ"),
        ("goʊ", "ɡQ"),
        ("t͡ʃeɪndʒ", "ʧAnʤ"),
        ("bɑːθ", "bɑːθ"),
        ("hɒt", "hɒt"),
        ("ˈwɔːtə", "ˈwɔːtə"),
        ("si:t", "siːt"),
        ("ˈbʌtn̩", "ˈbʌtᵊn"),
        ("bed", "bɛd"),
    ):
        assert british_symbols(ipa) == symbols, ipa


@settings(max_examples=60)
@given(st.text(alphabet=sorted(IPA_SYMBOLS), max_size=30))
def test_every_announced_symbol_can_be_spoken(ipa: str) -> None:
    for convert in (kokoro_symbols, british_symbols):
        symbols = set(convert(ipa))
        assert symbols <= load_vocabulary().keys()
        assert not symbols & (PAUSES - {" "})


@settings(max_examples=60)
@given(st.text(max_size=30))
def test_no_text_fails(text: str) -> None:
    kokoro_symbols(text)
    british_symbols(text)
