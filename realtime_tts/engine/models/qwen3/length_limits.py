"""Bounds on the number of frames of a text: beyond them, speech has run away or has broken off.

The Talker misses its end in 0.3 to 0.5% of requests (published field reports), and would then continue for minutes.
Both bounds are generous: slow or fast speech is never mistaken for a fault.
"""

import unicodedata

MAX_BASE_FRAMES = 50
MAX_FRAMES_PER_TOKEN = 16
"""English takes 3.7 frames per token, Chinese about 4.5; "WWW" and the digits of a number are the slowest, up to 15."""

FRAMES_PER_CHARACTER = 0.8
"""15.6 characters per second at 12.5 frames per second: ordinary English."""
FRAMES_PER_WIDE_CHARACTER = 2.5
"""A syllable, as in Chinese or Japanese: five per second."""
MIN_EXPECTED_FRAMES = 12
"""Texts of less than a second, about three words, have no lower bound."""
MIN_SHARE = 0.25


def max_frames(tokens: int) -> int:
    """More frames than any reading of so many tokens takes: 4 s, plus 1.28 s per token."""
    return MAX_BASE_FRAMES + MAX_FRAMES_PER_TOKEN * tokens


def min_frames(text: str) -> int:
    """Fewer frames than any complete reading of `text` takes: a quarter of an ordinary one, or 0 for a short text."""
    expected = 0.0
    for character in text:
        if character.isalnum():  # other characters may be silent
            wide = unicodedata.east_asian_width(character) in "WF"
            expected += FRAMES_PER_WIDE_CHARACTER if wide else FRAMES_PER_CHARACTER
    return int(MIN_SHARE * expected) if expected >= MIN_EXPECTED_FRAMES else 0
