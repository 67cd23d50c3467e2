"""Measures are spoken with their units, in the singular for one."""

from realtime_tts.text.english.units import EARLY_RULES, RULES
from realtime_tts.text.offsets import AlignedText
from realtime_tts.text.rules import apply_rules


def test_measures_are_spoken() -> None:
    for raw, words in [
        ("1 km", "one kilometer"),
        ("5km/h", "five kilometers per hour"),
        ("90° turn", "ninety degrees turn"),
        ("5m²", "five square meters"),
        ("five dollars/month", "five dollars per month"),
    ]:
        assert " ".join(apply_rules(AlignedText.of(raw), RULES).text.split()) == words, raw


def test_heights_and_durations_are_spoken() -> None:
    for raw, words in [
        ("5'10\"", "five foot ten"),
        ("1h 5m", "one hour five minutes"),
        ("~5", "about 5"),
    ]:
        assert " ".join(apply_rules(AlignedText.of(raw), EARLY_RULES).text.split()) == words, raw
