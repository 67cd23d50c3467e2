"""Texts of the load tests: ordinary English sentences with the lengths of real speech.

The sentences are the project's own, one per line in texts_en.txt.  Spoken at an ordinary rate they last 2 to 12 s, with
a median of 4.5 s and a long tail: close to lognormal.
"""

from pathlib import Path
from random import Random

SENTENCES = tuple((Path(__file__).parent / "texts_en.txt").read_text("utf-8").splitlines())

FRAME_S = 0.08
FRAMES_PER_CHARACTER = 0.8  # 15.6 characters per second, as the model `tone` speaks


def spoken_s(text: str) -> float:
    """The duration of one sentence spoken by `tone`; other voices are within a third of it."""
    return max(1, round(len(text) * FRAMES_PER_CHARACTER)) * FRAME_S


def pick_text(rng: Random, sentences: int = 1) -> str:
    """A text of that many sentences, each drawn from the whole set: the same `rng` state gives the same text."""
    return " ".join(rng.choice(SENTENCES) for _ in range(sentences))
