"""Sentence boundaries of whole texts, where sentencex needs correction."""

import itertools

from realtime_tts.text.boundaries import SentenceBoundaries, stop_end
from realtime_tts.text.english.abbreviations import ALSO_WORDS, NEVER_LAST


def sentences(text: str, language: str = "en") -> list[str]:
    edges = [0, *SentenceBoundaries(language).inside(text), len(text)]
    return [text[start:end].strip() for start, end in itertools.pairwise(edges)]


def test_no_sentence_ends_after_an_abbreviation_that_a_name_or_number_follows() -> None:
    for short in NEVER_LAST:
        assert sentences(f"We saw {short} Smith. Then we left.") == [f"We saw {short} Smith.", "Then we left."], short


def test_a_sentence_ends_after_a_plain_word_that_is_also_an_abbreviation() -> None:
    for word in ALSO_WORDS:
        assert sentences(f"This is {word}. Then we left.") == [f"This is {word}.", "Then we left."], word
        assert len(sentences(f"This is {word}. 5 of ten")) == 1, word


def test_initials_and_ordinals_end_no_sentence() -> None:
    assert sentences("M. Dupont est là. Oui.", "fr") == ["M. Dupont est là.", "Oui."]
    assert sentences("Er kam am 3. Mai. Ja.", "de") == ["Er kam am 3. Mai.", "Ja."]


def test_a_mark_inside_a_name_ends_no_sentence() -> None:
    assert sentences("Use Node.JS at ?Name=X now") == ["Use Node.JS at ?Name=X now"]


def test_an_opening_quote_belongs_to_the_next_sentence() -> None:
    assert sentences("Non ? « Oui, non. » Bien.", "fr")[1].startswith("«")


def test_odd_white_space_and_surrogates_do_not_stop_sentencex() -> None:
    """sentencex 1.0.32 panics at the former and refuses the latter."""
    assert sentences("A\u2028. B\u00a0. C")
    assert sentences("a \ud83d. Then b \ude00.")


def test_other_marks_count_in_greek_and_armenian_and_in_lists() -> None:
    assert SentenceBoundaries("el").mark("a").search(";")
    assert SentenceBoundaries("en").mark("a) b").search(";")
    assert not SentenceBoundaries("en").mark("a b").search(";")


def test_a_stop_ends_a_sentence_with_its_closers() -> None:
    for head, char, expected in [
        ("你好。", "再", 3),
        ("你好。」", "再", 4),
        ("３．", "１", None),
        ("你好", "。", None),
        ('他说："好。"', "我", 7),
        ('我走了。"', "再", 4),  # which opens the next
    ]:
        assert stop_end(head, char) == expected, head
