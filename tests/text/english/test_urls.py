"""Addresses lose nothing that a listener needs to type them, and names lose their punctuation."""

from realtime_tts.text.english.urls import RULES, speak, spell
from realtime_tts.text.offsets import AlignedText
from realtime_tts.text.rules import apply_rules

SPOKEN = [
    ("www.example.com/a-b?x=1", "example dot com slash a dash b question mark x equals one"),
    ("(see example.org)", "(see example dot org )"),
    ("http://localhost:8080/v1", "localhost colon eight zero eight zero slash v one"),
    ("jane_doe+spam@mail.example.co.uk", "jane underscore doe plus spam at mail dot example dot co dot UK"),
    ("__init__.py and data.json", "init dot PY and data dot jay son"),
    ("@bob_smith #bigNews", "at bob smith hashtag big News"),
    ("MAX_RETRIES", "MAX RETRIES"),
    ("Mr.Smith", "Mr.Smith"),
]


def test_addresses_and_names_are_spoken() -> None:
    for raw, words in SPOKEN:
        assert " ".join(apply_rules(AlignedText.of(raw), RULES).text.split()) == words, raw


def test_parts_that_are_no_words_are_spelled() -> None:
    assert spell("py") == "PY"
    assert speak("io") == "IO"
    assert spell("docs") == "docs"
