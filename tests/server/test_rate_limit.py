"""A quota is never exceeded over any period, and a refused amount is not charged."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.clock import VirtualClock
from realtime_tts.errors import QuotaExceeded
from realtime_tts.server.rate_limit import KeyQuota, QuotaBook, QuotaLimits, TokenBucket

STEPS = st.lists(st.tuples(st.floats(0, 100), st.integers(0, 130)), max_size=40)


@settings(max_examples=40)
@given(st.integers(1, 100), STEPS)
def test_no_period_allows_more_than_a_full_bucket_and_its_refill(
    per_minute: int, steps: list[tuple[float, int]]
) -> None:
    bucket, now_s, taken = TokenBucket(per_minute, 0.0), 0.0, [(0.0, 0)]
    for wait_s, amount in steps:
        now_s += wait_s
        if bucket.withdraw(amount, now_s) is None:
            taken.append((now_s, amount))
    for first, (start_s, _) in enumerate(taken):
        for last in range(first, len(taken)):
            total = sum(amount for _, amount in taken[first : last + 1])
            assert total <= per_minute * (1 + (taken[last][0] - start_s) / 60) + 1e-6


@settings(max_examples=40)
@given(st.integers(1, 100), STEPS)
def test_a_retry_after_the_stated_wait_succeeds(per_minute: int, steps: list[tuple[float, int]]) -> None:
    bucket, now_s = TokenBucket(per_minute, 0.0), 0.0
    for wait_s, amount in steps:
        now_s += wait_s
        answer_s = bucket.withdraw(amount, now_s)
        assert (answer_s == math.inf) == (amount > per_minute)
        if answer_s is not None and answer_s != math.inf:
            assert 0 < answer_s <= 60.0 + 1e-6
            now_s += answer_s + 1e-6
            assert bucket.withdraw(amount, now_s) is None


def test_a_refused_amount_is_not_charged() -> None:
    quota = KeyQuota(QuotaLimits(characters_per_minute=10), VirtualClock())
    quota.charge(6)
    for _ in range(3):
        with pytest.raises(QuotaExceeded) as refused:
            quota.charge(5)
    assert (refused.value.code, refused.value.retryable) == ("quota_exceeded", True)
    assert refused.value.retry_after_s == pytest.approx(6.0)
    quota.charge(4)


def test_a_text_above_the_whole_quota_must_be_sent_in_parts() -> None:
    quota = KeyQuota(QuotaLimits(characters_per_minute=10), VirtualClock())
    with pytest.raises(QuotaExceeded, match="send less at once") as refused:
        quota.charge(11)
    assert refused.value.retry_after_s is None
    quota.charge(10)


def test_the_quota_refills_with_time() -> None:
    clock = VirtualClock()
    quota = KeyQuota(QuotaLimits(characters_per_minute=60), clock)
    quota.charge(60)
    clock.advance(30)
    with pytest.raises(QuotaExceeded):
        quota.charge(31)
    quota.charge(30)
    clock.advance(3600)  # no more than one minute's amount is saved
    quota.charge(60)
    with pytest.raises(QuotaExceeded):
        quota.charge(1)


def test_a_session_is_no_longer_counted_after_any_kind_of_end() -> None:
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


def test_without_limits_everything_is_allowed() -> None:
    quota = KeyQuota(QuotaLimits(), VirtualClock())
    with quota.session():
        quota.charge(10**9)


def test_each_key_has_its_own_quota() -> None:
    book, limits = QuotaBook(VirtualClock()), QuotaLimits(characters_per_minute=10)
    book.of("one", limits).charge(10)
    with pytest.raises(QuotaExceeded):
        book.of("one", limits).charge(1)
    book.of("two", limits).charge(10)


def test_a_quota_below_one_is_invalid() -> None:
    for limits in ({"sessions": 0}, {"characters_per_minute": -1}):
        with pytest.raises(ValueError, match="at least 1"):
            QuotaLimits(**limits)
