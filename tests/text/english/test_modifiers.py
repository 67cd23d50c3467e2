"""A measure is a modifier between a determiner and a noun, and nowhere else."""

import re

from realtime_tts.text.english.modifiers import is_modifier


def test_measures_before_nouns() -> None:
    for text, expected in (
        ("a 5 km run", True),
        ("an old 5 km run", True),
        ("the 5 km Berlin run", True),
        ("a 5 km tall tower", True),
        ("it is 5 km away", False),
        ("ran 5 km today", False),
        ("a 5 km", False),
        ("the 5 km is long", False),
        ("a loss of 5 km runs", False),
        ("a 5 km's", False),
    ):
        match = re.search(r"5 km", text)
        assert match is not None
        assert is_modifier(match) is expected, text
