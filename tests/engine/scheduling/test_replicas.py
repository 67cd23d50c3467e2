"""Replicas: new requests begin where the fewest are, while there is a slot."""

from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.engine.scheduling.policy import Candidate
from realtime_tts.engine.scheduling.replicas import beginners


def new(*deadlines_s: float) -> list[Candidate]:
    return [Candidate(deadline_s, number, f"r{number}") for number, deadline_s in enumerate(deadlines_s)]


def test_on_one_lane_the_most_urgent_get_the_free_slots() -> None:
    assert beginners(new(3.0, 1.0, 2.0), "a", {"a": 1}, 3) == {"r1", "r2"}
    assert beginners(new(1.0, 1.0, 1.0), "a", {"a": 0}, 2) == {"r0", "r1"}
    assert beginners(new(1.0), "a", {"a": 3}, 3) == frozenset()
    assert beginners(new(1.0, 2.0), "a", {"a": 9}, None) == {"r0", "r1"}


def test_a_fuller_lane_gets_fewer_new_requests() -> None:
    requests = new(1.0, 2.0, 3.0, 4.0)
    assert beginners(requests, "a", {"a": 2, "b": 0}, None) == {"r2"}
    assert beginners(requests, "b", {"a": 2, "b": 0}, None) == {"r0", "r1", "r3"}


@given(
    deadlines_s=st.lists(st.floats(0, 9), max_size=12),
    counts=st.dictionaries(st.sampled_from("abc"), st.integers(0, 5), min_size=1),
    slots=st.none() | st.integers(1, 6),
)
@settings(max_examples=50)
def test_each_request_begins_on_at_most_one_lane_and_no_lane_exceeds_its_slots(
    deadlines_s: list[float], counts: dict[str, int], slots: int | None
) -> None:
    requests = new(*deadlines_s)
    begin = {lane: beginners(requests, lane, counts, slots) for lane in counts}
    chosen = [name for names in begin.values() for name in names]
    assert len(chosen) == len(set(chosen))
    after = {lane: counts[lane] + len(begin[lane]) for lane in counts}
    if slots is None:
        assert len(chosen) == len(requests)
    else:
        room = sum(max(0, slots - count) for count in counts.values())
        assert len(chosen) == min(len(requests), room)
        assert all(after[lane] <= slots for lane in counts if begin[lane])
    growing = [after[lane] for lane in counts if begin[lane]]
    assert not growing or max(growing) - min(growing) <= 1
