"""Symbols are spoken where they are signs or operators, and by their names elsewhere."""

from realtime_tts.text.english import money, units
from realtime_tts.text.english.symbols import NAME_RULES, OPERATOR_RULES, RANGE_RULES
from realtime_tts.text.offsets import AlignedText
from realtime_tts.text.rules import apply_rules


def test_ranges_and_signs_are_spoken_before_money_and_units() -> None:
    for raw, words in [
        ("-$5", "minus five dollars"),
        ("$5-$10", "five dollars to ten dollars"),
        ("2-3%", "2 to three percent"),
        ("$5/month", "five dollars per month"),
    ]:
        assert (
            " ".join(apply_rules(AlignedText.of(raw), [*RANGE_RULES, *money.RULES, *units.RULES]).text.split()) == words
        ), raw


def test_operators_are_spoken() -> None:
    for raw, words in [
        ("10 / 2", "10 divided by 2"),
        ("3 < 4", "3 is less than 4"),
        ("3x4", "3 by 4"),
        ("± 2", "plus or minus 2"),
    ]:
        assert " ".join(apply_rules(AlignedText.of(raw), OPERATOR_RULES).text.split()) == words, raw


def test_symbols_that_are_left_have_names() -> None:
    for raw, words in [
        ("yes/no", "yes slash no"),
        ("salt & pepper", "salt and pepper"),
    ]:
        assert " ".join(apply_rules(AlignedText.of(raw), NAME_RULES).text.split()) == words, raw
