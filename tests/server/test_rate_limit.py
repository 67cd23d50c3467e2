"""A quota is never exceeded over any stretch of time, and what is refused is not taken."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime_tts.clock import VirtualClock
from realtime_tts.errors import QuotaExceeded
from realtime_tts.server.rate_limit import KeyQuota, QuotaBook, QuotaLimits, TokenBucket

STEPS = st.lists(st.tuples(st.floats(0, 100), st.integers(0, 130)), max_size=40)


@given(st.integers(1, 100), STEPS)
def test_no_stretch_of_time_gives_more_than_a_minute_s_worth_and_what_flowed_back(
    per_minute: int, steps: list[tuple[float, int]]
) -> None:
    bucket, now_s, taken = TokenBucket(per_minute, 0.0), 0.0, [(0.0, 0)]
    for wait_s, amount in steps:
        now_s += wait_s
        if bucket.take(amount, now_s) is None:
            taken.append((now_s, amount))
    for first, (start_s, _) in enumerate(taken):
        for last in range(first, len(taken)):
            total = sum(amount for _, amount in taken[first : last + 1])
            assert total <= per_minute * (1 + (taken[last][0] - start_s) / 60) + 1e-6


@given(st.integers(1, 100), STEPS)
def test_who_comes_again_when_told_to_is_served(per_minute: int, steps: list[tuple[float, int]]) -> None:
    bucket, now_s = TokenBucket(per_minute, 0.0), 0.0
    for wait_s, amount in steps:
        now_s += wait_s
        answer_s = bucket.take(amount, now_s)
        assert (answer_s == math.inf) == (amount > per_minute)
        if answer_s is not None and answer_s != math.inf:
            assert 0 < answer_s <= 60.0 + 1e-6
            now_s += answer_s + 1e-6
            assert bucket.take(amount, now_s) is None


def test_what_is_refused_is_not_taken() -> None:
    quota = KeyQuota(QuotaLimits(characters_per_minute=10), VirtualClock())
    quota.take(6)
    for _ in range(3):
        with pytest.raises(QuotaExceeded) as refused:
            quota.take(5)
    assert (refused.value.code, refused.value.retryable) == ("quota_exceeded", True)
    assert refused.value.retry_after_s == pytest.approx(6.0)
    quota.take(4)


def test_a_text_that_could_never_be_taken_is_told_to_come_in_parts() -> None:
    quota = KeyQuota(QuotaLimits(characters_per_minute=10), VirtualClock())
    with pytest.raises(QuotaExceeded, match="send less at once") as refused:
        quota.take(11)
    assert refused.value.retry_after_s is None
    quota.take(10)


def test_what_was_taken_flows_back_with_time() -> None:
    clock = VirtualClock()
    quota = KeyQuota(QuotaLimits(characters_per_minute=60), clock)
    quota.take(60)
    clock.advance(30)
    with pytest.raises(QuotaExceeded):
        quota.take(31)
    quota.take(30)
    clock.advance(3600)  # no more than a minute's worth is saved up
    quota.take(60)
    with pytest.raises(QuotaExceeded):
        quota.take(1)


def test_a_session_s_place_is_given_back_whatever_happens_in_it() -> None:
    quota = KeyQuota(QuotaLimits(sessions=2), VirtualClock())
    with quota.session():
        with pytest.raises(ZeroDivisionError), quota.session():
            raise ZeroDivisionError
        with quota.session():
            with pytest.raises(QuotaExceeded) as refused, quota.session():
                pass
            assert quota.sessions == 2
        assert quota.sessions == 1
    assert quota.sessions == 0
    assert refused.value.retry_after_s


def test_without_limits_all_is_allowed() -> None:
    quota = KeyQuota(QuotaLimits(), VirtualClock())
    with quota.session():
        quota.take(10**9)


def test_a_key_has_one_quota_and_another_key_another() -> None:
    book, limits = QuotaBook(VirtualClock()), QuotaLimits(characters_per_minute=10)
    book.of("one", limits).take(10)
    with pytest.raises(QuotaExceeded):
        book.of("one", limits).take(1)
    book.of("two", limits).take(10)


@pytest.mark.parametrize("limits", [{"sessions": 0}, {"characters_per_minute": -1}])
def test_a_quota_of_nothing_is_refused(limits: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        QuotaLimits(**limits)
