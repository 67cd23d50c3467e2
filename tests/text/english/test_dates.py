"""Dates and times are spoken however they are written, and what is not a date is left to other rules."""

from realtime_tts.text.english.dates import RULES
from realtime_tts.text.offsets import AlignedText
from realtime_tts.text.rules import apply_rules

SPOKEN = [
    ("29/11/2026", "November twenty ninth, twenty twenty six"),
    ("3/4/25", "March fourth, twenty twenty five"),
    ("2026-13-40", "2026-13-40"),
    ("2026-11-29T14:05:00Z", "November twenty ninth, twenty twenty six at fourteen five and zero seconds"),
    ("Sept 3", "September third"),
    ("May 32", "May 32"),
    ("the 3rd of May", "the May third"),
    ("12:00 PM", "twelve p.m."),
    ("14:00", "fourteen hundred"),
    ("3.30pm", "three thirty p.m."),
    ("7:05", "seven oh five"),
    ("16:9", "sixteen to nine"),
    ("25:99", "twenty five to ninety nine"),
    ("9:30-10:30 am", "nine thirty to ten thirty a.m."),
    ("Fri at 5", "Friday at 5"),
    ("I may 5", "I may 5"),
]


def test_dates_and_times_are_spoken() -> None:
    for raw, words in SPOKEN:
        assert apply_rules(AlignedText.of(raw), RULES).text == words, raw
