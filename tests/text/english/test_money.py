"""Money is spoken with its currency, in the singular for one, and scales are words."""

from realtime_tts.text.english.money import RANGE_RULES, RULES, SCALE_RULES
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
        ("C$50, A$50, HK$5", "fifty Canadian dollars , fifty Australian dollars , five Hong Kong dollars"),
        ("₽100 ₩1000 ₺5", "one hundred rubles one thousand won five lira"),
        ("5 CHF, CAD 20, 50 kr", "five Swiss francs, twenty Canadian dollars, fifty kroner"),
        ("a $20 bill", "a twenty dollar bill"),
        ("a $2 million house", "a two million dollar house"),
        ("the $3.50 fee", "the three dollar and fifty cent fee"),
        ("the $5 is mine", "the five dollars is mine"),
        ("27,50 €", "twenty seven euros fifty"),
        ("€1.234,56", "one thousand two hundred thirty four euros fifty six"),
        ("1.234 €", "one thousand two hundred thirty four euros"),
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


def test_a_range_of_money_names_its_currency_once() -> None:
    for raw, words in [
        ("$5–10", "five to ten dollars"),
        ("$1.5M–$2M", "one point five million to two million dollars"),
        ("$1.5-2 million", "one point five to two million dollars"),
        ("$5-$10", "five dollars -ten dollars"),
        ("$5-£10", "five dollars -ten pounds"),
    ]:
        assert " ".join(apply_rules(AlignedText.of(raw), [*RANGE_RULES, *RULES]).text.split()) == words, raw
