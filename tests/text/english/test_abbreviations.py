"""Short forms are said in full where their place tells what they mean, and stay where it does not."""

import pytest

from realtime_tts.engine.models.kokoro.spoken_words import EARLY_RULES, LATE_RULES
from realtime_tts.engine.models.kokoro.traced import Traced


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ("Mt. Fuji", "Mount Fuji"),
        ("Louis XIV", "Louis the fourteenth"),
        ("Henry I think", "Henry I think"),
        ("Part I like", "Part I like"),
        ("World War I", "World War one"),
        ("min. 5", "minimum 5"),
        ("in 5 min. or so", "in 5 min. or so"),
        ("w/o milk, etc", "without milk, etc."),
        ("AT&T", "A T and T"),
        ("let US$ be", "let US$ be"),
        ("p. 7", "page 7"),
    ],
)
def test_short_forms_are_said_in_full(raw: str, words: str) -> None:
    assert Traced.of(raw).apply(EARLY_RULES).text == words


@pytest.mark.parametrize(
    ("raw", "words"),
    [("yes/no", "yes slash no"), ("A W S", "eigh W S"), ("the letter A.", "the letter eigh."), ("A dog", "A dog")],
)
def test_symbols_and_single_letters_are_named(raw: str, words: str) -> None:
    assert Traced.of(raw).apply(LATE_RULES).text == words
