"""Amounts are said with their units, in the singular for one, and numbers that identify something digit by digit."""

import pytest

from realtime_tts.engine.models.kokoro.spoken_quantities import RULES
from realtime_tts.engine.models.kokoro.traced import Traced


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ("$1", "one dollar"),
        ("$0.99", "ninety nine cents"),
        ("$1.01", "one dollar and one cent"),
        ("-$5", "minus five dollars"),
        ("$1,234.56", "one thousand two hundred thirty four dollars and fifty six cents"),
        ("$5-$10", "five dollars to ten dollars"),
        ("$5/month", "five dollars per month"),
        ("50€ or 20 USD", "fifty euros or twenty U.S. dollars"),
        ("1 km", "one kilometer"),
        ("5km/h", "five kilometers per hour"),
        ("90° turn", "ninety degrees turn"),
        ("2-3%", "2 to three percent"),
        ("(555) 123-4567", "five five five, one two three, four five six seven"),
        ("+44 20 7946 0958", "plus four four, two zero, seven nine four six, zero nine five eight"),
        ("10 / 2", "10 divided by 2"),
        ("3 < 4", "3 is less than 4"),
        ("3x4", "3 by 4"),
        ("± 2", "plus or minus 2"),
        ("house 221B", "house 221B"),
        ("v2", "version two"),
        ("5m²", "five square meters"),
    ],
)
def test_amounts_are_said(raw: str, words: str) -> None:
    assert " ".join(Traced.of(raw).apply(RULES).text.split()) == words
