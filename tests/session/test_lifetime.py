"""Idle limit, maximum duration and drain: one warning before each."""

from dataclasses import replace

from realtime_tts.session.events import Expiring
from realtime_tts.session.lifetime import WARNING_S, Lifetime
from realtime_tts.session.limits import SessionLimits

LIMITS = SessionLimits(idle_s=600.0, session_s=3600.0)


def opened(limits: SessionLimits = LIMITS) -> Lifetime:
    lifetime = Lifetime(limits, 0.0)
    lifetime.opened = True
    return lifetime


def test_an_idle_session_gets_one_warning_and_activity_restarts_the_limit() -> None:
    lifetime = opened()
    assert lifetime.deadline_s == 600.0 - WARNING_S
    assert lifetime.warning(569.9) is None
    assert lifetime.warning(570.0) == Expiring("idle", 30.0)
    assert lifetime.warning(571.0) == Expiring("idle", 29.0) or lifetime.deadline_s == 600.0
    lifetime.touch(580.0)
    assert lifetime.deadline_s == 580.0 + 600.0 - WARNING_S
    assert not lifetime.is_over(1179.9)
    assert lifetime.is_over(1180.0)


def test_the_maximum_duration_cannot_be_extended() -> None:
    lifetime = opened()
    for at_s in range(0, 3600, 300):
        lifetime.touch(float(at_s))
    assert lifetime.warning(3570.0) == Expiring("ttl", 30.0)
    assert lifetime.expire("ttl", 30.0) == Expiring("ttl", 30.0)
    assert lifetime.expire("drain", 5.0) is None, "the client was already warned"
    assert lifetime.is_over(3600.0)


def test_short_limits_and_sessions_that_are_not_open_have_no_warning() -> None:
    assert opened(replace(LIMITS, idle_s=60.0)).deadline_s == 60.0
    assert Lifetime(LIMITS, 0.0).deadline_s == 600.0
