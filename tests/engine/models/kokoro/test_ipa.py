"""IPA as people write it becomes the symbols that the voice was taught, and nothing that is not a sound gets in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime_tts.engine.models.kokoro.ipa import IPA_SYMBOLS, taught_symbols
from realtime_tts.engine.models.kokoro.phonemes import PAUSES, load_vocabulary


@pytest.mark.parametrize(
    ("ipa", "symbols"),
    [
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
    ],
)
def test_common_ipa_becomes_what_the_voice_was_taught(ipa: str, symbols: str) -> None:
    assert taught_symbols(ipa) == symbols


@given(st.text(alphabet=sorted(IPA_SYMBOLS), max_size=30))
def test_whatever_is_announced_can_be_spoken(ipa: str) -> None:
    said = set(taught_symbols(ipa))
    assert said <= load_vocabulary().keys()
    assert not said & (PAUSES - {" "})


@given(st.text(max_size=30))
def test_no_text_fails(text: str) -> None:
    taught_symbols(text)
