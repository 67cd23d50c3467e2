"""How many frames should a text take?  Bounds by which speech that ran away, or broke off, is told from any other.

The Talker misses its end in 0.3 to 0.5% of requests (published field reports), and would then go on for minutes.  Both
bounds are generous: nothing that is merely slow, or merely quick, is taken for a fault.
"""

import unicodedata

MOST_BASE_FRAMES = 50
MOST_FRAMES_PER_TOKEN = 16
"""English takes 3.7 frames a token, Chinese about 4.5; "WWW" and a number's digits are the slowest, at up to 15."""

FRAMES_PER_CHARACTER = 0.8
"""15.6 characters a second at 12.5 frames: an ordinary pace of English."""
FRAMES_PER_WIDE_CHARACTER = 2.5
"""A syllable, as in Chinese or Japanese: five a second."""
LEAST_EXPECTED_FRAMES = 12
"""Texts of less than a second, three words or so, may be as short as they like."""
LEAST_SHARE = 0.25


def most_frames(tokens: int) -> int:
    """More than any reading of a text of so many tokens takes: 4 s, and 1.28 s for each token."""
    return MOST_BASE_FRAMES + MOST_FRAMES_PER_TOKEN * tokens


def least_frames(text: str) -> int:
    """Fewer than any whole reading of `text` takes: a quarter of an ordinary one.  0 where that cannot be said."""
    expected = 0.0
    for character in text:
        if character.isalnum():  # only these are sure to be heard
            wide = unicodedata.east_asian_width(character) in "WF"
            expected += FRAMES_PER_WIDE_CHARACTER if wide else FRAMES_PER_CHARACTER
    return int(LEAST_SHARE * expected) if expected >= LEAST_EXPECTED_FRAMES else 0
