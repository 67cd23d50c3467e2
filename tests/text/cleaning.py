"""Checks of cleaned text for tests: the same for any slicing, with offsets in order."""

from realtime_tts.text.cleaner import TextCleaner, TextFilter

ALL = frozenset(TextFilter)


def clean(text: str, slices: list[str], filters: frozenset[TextFilter]) -> tuple[str, list[int], list[int]]:
    """The clean text, and for each of its characters where that came from, and where that ended."""
    assert "".join(slices) == text
    cleaner = TextCleaner(filters)
    spoken = "".join([*(cleaner.push(piece) for piece in slices), cleaner.flush()])
    return (
        spoken,
        [cleaner.source(at) for at in range(len(spoken) + 1)],
        [cleaner.source_end(at) for at in range(len(spoken) + 1)],
    )


def sliced(text: str, cuts: list[int]) -> list[str]:
    edges = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[start:end] for start, end in zip(edges, [*edges[1:], len(text)], strict=True)]


def check(text: str, cuts: list[int], filters: frozenset[TextFilter]) -> None:
    whole = clean(text, [text], filters)
    assert clean(text, list(text), filters) == whole
    assert clean(text, sliced(text, cuts), filters) == whole
    spoken, sources, ends = whole
    assert sources == sorted(sources)
    assert ends == sorted(ends)
    assert sources[-1] <= len(text)
    for at, char in enumerate(spoken):
        start, end = sources[at], ends[at + 1]
        assert 0 <= start <= end <= len(text)
        # A character that was received, an entity's, or one put where a mark has kept two words apart.
        assert text[start:end] == char or "&" in text[start:end] or char in " \n,"


def assert_spoken(rows: list[tuple[str, str]], filters: frozenset[TextFilter] = ALL) -> None:
    """Each written text gives the clean text beside it, however it is sliced."""
    for written, spoken in rows:
        assert clean(written, [written], filters)[0] == spoken, written
        check(written, [3, 10, 17], filters)
