"""Arrival traces: the mean rate, reproducibility by seed, and the JSON form."""

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench import trace
from bench.texts import pick_text
from bench.trace import Arrival


def test_random_arrivals_have_the_rate_and_are_ordered() -> None:
    arrivals = trace.poisson(20, 500, Random(0), pick_text)
    assert len(arrivals) == pytest.approx(20 * 500, rel=0.05)
    times_s = [arrival.at_s for arrival in arrivals]
    assert times_s == sorted(times_s)
    assert times_s[0] >= 0
    assert times_s[-1] < 500
    # Independent: the standard deviation of the gaps of a Poisson process equals their mean.
    gaps_s = [later - earlier for earlier, later in pairwise(times_s)]
    mean_s = sum(gaps_s) / len(gaps_s)
    assert sum((gap_s - mean_s) ** 2 for gap_s in gaps_s) / len(gaps_s) == pytest.approx(mean_s**2, rel=0.1)


def test_the_same_seed_makes_the_same_trace() -> None:
    first, again, other = (trace.poisson(5, 30, Random(seed), pick_text) for seed in (3, 3, 4))
    assert first == again != other


def test_bursts_are_simultaneous_and_within_the_duration() -> None:
    arrivals = trace.bursts(3, 10, 30, Random(0), pick_text)
    assert [arrival.at_s for arrival in arrivals] == [10, 10, 10, 20, 20, 20]


def test_merging_keeps_all_arrivals_ordered_by_time() -> None:
    single, bursts = trace.poisson(2, 30, Random(0), pick_text), trace.bursts(4, 7, 30, Random(1), pick_text)
    both = trace.merged(single, bursts)
    assert [arrival.at_s for arrival in both] == sorted(arrival.at_s for arrival in single + bursts)
    assert set(both) == set(single + bursts)


@settings(max_examples=50)
@given(
    st.lists(
        st.builds(
            Arrival,
            at_s=st.integers(0, 10**9).map(lambda us: us / 1e6),
            text=st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip),
            session=st.none() | st.text(st.characters(exclude_categories=["Cs"])),
        )
    )
)
def test_what_is_written_is_what_is_read(arrivals: list[Arrival]) -> None:
    ordered = trace.merged(arrivals)
    assert trace.loads(trace.dumps(ordered)) == ordered


def test_a_trace_can_be_written_by_hand() -> None:
    assert trace.loads('[{"at_s": 0.5, "text": "Hello."}, {"at_s": 1, "text": "Hi.", "session": "a"}]') == [
        Arrival(0.5, "Hello."),
        Arrival(1.0, "Hi.", "a"),
    ]


def test_invalid_traces_are_refused() -> None:
    for text in (
        "{}",
        "nonsense",
        '[{"at_s": 1}]',
        '[{"at_s": -1, "text": "a"}]',
        '[{"at_s": 1, "text": " "}]',
        '[{"at_s": 2, "text": "a"}, {"at_s": 1, "text": "b"}]',
    ):
        with pytest.raises(ValueError, match=r"."):
            trace.loads(text)


def test_impossible_loads_are_refused() -> None:
    with pytest.raises(ValueError, match="rate"):
        trace.poisson(0, 10, Random(0), pick_text)
    with pytest.raises(ValueError, match="burst"):
        trace.bursts(0, 1, 10, Random(0), pick_text)
