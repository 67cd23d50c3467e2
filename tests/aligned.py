"""Aligned texts with given offsets, for tests."""

from collections.abc import Iterable

from realtime_tts.text.offsets import AlignedText, OffsetMap


def aligned(text: str, sources: Iterable[int]) -> AlignedText:
    """A text of which each character stands for one character of the original."""
    offsets = OffsetMap()
    for source in sources:
        offsets.append_replacement(source, source + 1, 1)
    assert offsets.length == len(text), "every character has a source"
    return AlignedText(text, offsets)
