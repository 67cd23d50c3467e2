"""What the listeners of a load test ask for: ordinary English sentences whose lengths are those of real speech.

The sentences are the project's own, in texts_en.txt, one a line.  Spoken at an ordinary pace they last 2 to 12 s, with
a median of 4.5 s and a long tail: close to lognormal.
"""

from pathlib import Path
from random import Random

SENTENCES = tuple((Path(__file__).parent / "texts_en.txt").read_text("utf-8").splitlines())

FRAME_S = 0.08
FRAMES_PER_CHARACTER = 0.8  # 15.6 characters a second, as the model `tone` speaks


def spoken_s(text: str) -> float:
    """How long one sentence lasts when it is spoken by `tone`; other voices come within a third of it."""
    return max(1, round(len(text) * FRAMES_PER_CHARACTER)) * FRAME_S


def pick_text(rng: Random, sentences: int = 1) -> str:
    """A text of that many sentences, each drawn from the whole set: the same `rng` state gives the same text."""
    return " ".join(rng.choice(SENTENCES) for _ in range(sentences))
