"""Offsets of a rewritten text lead back to the original: in order, exact, and in bounded memory."""

from hypothesis import given
from hypothesis import strategies as st

from realtime_tts.text.offsets import AlignedText, OffsetMap

Spans = list[tuple[int, int]]

# Characters copied, replaced (by how many), or dropped.
changes = st.lists(st.tuples(st.sampled_from(["copy", "replace", "drop"]), st.integers(1, 5), st.integers(1, 3)))


def built(steps: list[tuple[str, int, int]]) -> tuple[OffsetMap, Spans]:
    """A map, and the span that each of its characters must have."""
    offsets, expected, at = OffsetMap(), [], 0
    for kind, chars, spoken in steps:
        if kind == "copy":
            offsets.append_copy(at, chars)
            expected += [(at + each, at + each + 1) for each in range(chars)]
        elif kind == "replace":
            offsets.append_replacement(at, at + chars, spoken)
            expected += [(at, at + chars)] * spoken
        at += chars
    return offsets, expected


def spans(offsets: OffsetMap, start: int = 0) -> Spans:
    return [(offsets.source(at), offsets.source_end(at + 1)) for at in range(start, offsets.length)]


@given(changes)
def test_every_character_leads_back_to_its_span(steps: list[tuple[str, int, int]]) -> None:
    offsets, expected = built(steps)
    assert offsets.length == len(expected)
    assert spans(offsets) == expected
    assert offsets.source(len(expected)) == (expected[-1][1] if expected else 0)
    kept = len(expected) // 2
    offsets.forget(kept)
    assert spans(offsets, kept) == expected[kept:]
    assert kept == 0 or offsets.source_end(kept) == expected[kept - 1][1]


@given(changes, st.data())
def test_a_part_has_the_spans_of_its_characters(steps: list[tuple[str, int, int]], data: st.DataObject) -> None:
    offsets, expected = built(steps)
    start = data.draw(st.integers(0, len(expected)))
    end = data.draw(st.integers(start, len(expected) + 2))
    part = offsets.part(start, end)
    assert spans(part) == expected[start:end]
    assert part.source_end(0) == offsets.source_end(start)
    joined = OffsetMap()
    for one, other in ((0, start), (start, end), (end, len(expected))):
        joined.append_part(offsets, one, other)
    assert joined == offsets, "parts joined are the whole, in as many runs"


@given(changes, st.data())
def test_a_replacement_is_spread_over_all_that_it_replaces_in_order(
    steps: list[tuple[str, int, int]], data: st.DataObject
) -> None:
    offsets, expected = built([*steps, ("copy", 1, 1)])
    start = data.draw(st.integers(0, len(expected) - 1))
    end = data.draw(st.integers(start + 1, len(expected)))
    chars = data.draw(st.integers(1, 12))
    spread = OffsetMap()
    spread.append_spread(offsets, start, end, chars)
    replaced = end - start
    assert spread.length == chars
    assert [spread.source(at) for at in range(chars)] == [
        expected[start + at * replaced // chars][0] for at in range(chars)
    ]
    assert spread.source_end(chars) == expected[end - 1][1]
    ends = [spread.source_end(at + 1) for at in range(chars)]
    assert ends == sorted(ends)


def test_a_spread_is_even() -> None:
    for replaced, chars, sources in ((2, 4, [4, 4, 5, 5]), (3, 2, [4, 5]), (1, 3, [4, 4, 4]), (2, 0, [])):
        spread = OffsetMap()
        spread.append_spread(AlignedText.of("abcdefgh").offsets, 4, 4 + replaced, chars)
        assert [spread.source(at) for at in range(spread.length)] == sources, (replaced, chars)


def test_an_unchanged_text_is_one_run_and_one_run_remains_of_a_forgotten_text() -> None:
    offsets = OffsetMap()
    for at in range(100):
        offsets.append_copy(at, 1)
    assert offsets.runs == 1
    for at in range(101, 300, 2):
        offsets.append_copy(at, 1)
    assert offsets.runs == 101
    offsets.forget(offsets.length)
    assert offsets.runs == 1
    assert offsets.source_end(offsets.length) == 300


def test_an_empty_map_leads_to_its_origin() -> None:
    assert (OffsetMap().source(0), OffsetMap().source_end(0), OffsetMap().source(5)) == (0, 0, 0)
    assert (OffsetMap(7).source(0), OffsetMap(7).source_end(1)) == (7, 7)
    OffsetMap().forget(3)


@given(st.text(" a", max_size=12))
def test_strip_is_that_of_text(text: str) -> None:
    stripped = AlignedText.of(text).strip()
    assert stripped.text == text.strip()
    assert "".join(text[source] for source in stripped.sources) == stripped.text


def test_a_text_is_aligned_with_itself() -> None:
    aligned = AlignedText.of("abc")
    assert aligned.source(2) == aligned.source_end(2) == 2
    assert aligned.sources == [0, 1, 2]
    assert aligned.part(1, 9) == AlignedText("bc", aligned.offsets.part(1, 3))
