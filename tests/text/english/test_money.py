"""Money is spoken with its currency, in the singular for one, and scales are words."""

from realtime_tts.text.english.money import RULES, SCALE_RULES
from realtime_tts.text.offsets import AlignedText
from realtime_tts.text.rules import apply_rules


def test_amounts_of_money_are_spoken() -> None:
    for raw, words in [
        ("$1", "one dollar"),
        ("$0.99", "ninety nine cents"),
        ("$1.01", "one dollar and one cent"),
        ("$1,234.56", "one thousand two hundred thirty four dollars and fifty six cents"),
        ("50€ or 20 USD", "fifty euros or twenty U.S. dollars"),
        ("$5k", "five thousand dollars"),
    ]:
        assert " ".join(apply_rules(AlignedText.of(raw), RULES).text.split()) == words, raw


def test_scales_are_words_but_not_after_a_house_number() -> None:
    for raw, words in [
        ("house 221B", "house 221B"),
        ("3.2bn users", "three point two billion users"),
        ("5M", "five million"),
        ("1.5B", "one point five billion"),
    ]:
        assert " ".join(apply_rules(AlignedText.of(raw), SCALE_RULES).text.split()) == words, raw
