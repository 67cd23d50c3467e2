"""Offsets of a changed text lead back to the original: in order, exact, and in bounded memory."""

from hypothesis import given
from hypothesis import strategies as st

from realtime_tts.text.offsets import SourceMap

# Characters copied, replaced (by how many), or left out.
steps = st.lists(st.tuples(st.sampled_from(["copy", "replace", "drop"]), st.integers(1, 5), st.integers(1, 3)))


@given(steps)
def test_every_character_leads_back_to_what_gave_it(changes: list[tuple[str, int, int]]) -> None:
    source_map = SourceMap()
    expected: list[tuple[int, int]] = []
    at = 0
    for kind, chars, spoken in changes:
        if kind == "copy":
            source_map.copied(at, chars)
            expected += [(at + each, at + each + 1) for each in range(chars)]
        elif kind == "replace":
            source_map.replaced(at, at + chars, spoken)
            expected += [(at, at + chars)] * spoken
        at += chars
    assert source_map.total == len(expected)
    assert [source_map.source(each) for each in range(len(expected))] == [start for start, _ in expected]
    assert [source_map.source_end(each + 1) for each in range(len(expected))] == [end for _, end in expected]
    assert source_map.source(len(expected)) == (expected[-1][1] if expected else 0)
    kept = len(expected) // 2
    source_map.forget(kept)
    assert [source_map.source(each) for each in range(kept, len(expected))] == [start for start, _ in expected[kept:]]
    assert [source_map.source_end(each) for each in range(max(kept, 1), len(expected) + 1)] == [
        end for _, end in expected[max(kept, 1) - 1 :]
    ]


def test_nothing_changed_is_one_stretch_and_of_what_is_forgotten_one_is_left() -> None:
    source_map = SourceMap()
    for at in range(100):
        source_map.copied(at, 1)
    assert len(source_map) == 1
    for at in range(101, 300, 2):
        source_map.copied(at, 1)
    assert len(source_map) == 101
    source_map.forget(source_map.total)
    assert len(source_map) == 1
    assert source_map.source_end(source_map.total) == 300


def test_the_beginning_of_nothing_is_the_beginning() -> None:
    assert (SourceMap().source(0), SourceMap().source_end(0), SourceMap().source(5)) == (0, 0, 0)
