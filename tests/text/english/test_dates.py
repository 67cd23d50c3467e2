"""Dates and times are spoken however they are written, and what is not a date is left to other rules."""

from realtime_tts.text.english.dates import BRITISH_RULES, RULES
from realtime_tts.text.offsets import AlignedText
from realtime_tts.text.rules import apply_rules

SPOKEN = [
    ("29/11/2026", "November twenty ninth, twenty twenty six"),
    ("3/4/25", "March fourth, twenty twenty five"),
    ("2026-13-40", "2026-13-40"),
    ("2026-11-29T14:05:00Z", "November twenty ninth, twenty twenty six at fourteen oh five and zero seconds"),
    ("Sept 3", "September third"),
    ("May 32", "May 32"),
    ("the 3rd of May", "the third of May"),
    ("the 4th of July.", "the fourth of July."),
    ("July 4th, 1776", "July fourth, seventeen seventy six"),
    ("May 5-7 and 8–9 June", "May fifth to seventh and eighth to ninth of June"),
    ("on 12/25, by 11/30", "on December twenty fifth, by November thirtieth"),
    ("reduced by 1/2", "reduced by 1/2"),
    ("2020-12", "December twenty twenty"),
    ("1999-2003", "1999-2003"),
    ("2024/03/05", "March fifth, twenty twenty four"),
    ("Mon-Fri, Tue–Thu", "Monday to Friday, Tuesday to Thursday"),
    ("in Feb. we, in Dec.", "in February we, in December."),
    ("Tue. the 3rd", "Tuesday the third"),
    ("15:04:05", "fifteen oh four and five seconds"),
    ("00:00, 0:30", "midnight, zero thirty"),
    ("9:00-17:00, 8:15-9:45", "nine to seventeen hundred, eight fifteen to nine forty five"),
    ("the 1,000th and 1,000,001st", "the one thousandth and one million first"),
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


def test_british_dates_have_the_day_first() -> None:
    for raw, words in [
        ("3/4/25", "the third of April, twenty twenty five"),
        ("12/25/2024", "the twenty fifth of December, twenty twenty four"),
        ("2026-11-29", "the twenty ninth of November, twenty twenty six"),
        ("3 May 1999", "the third of May nineteen ninety nine"),
        ("May 3", "May the third"),
        ("on 4/7", "on the fourth of July"),
        ("the 4th of July", "the fourth of July"),
    ]:
        assert apply_rules(AlignedText.of(raw), BRITISH_RULES).text == words, raw
