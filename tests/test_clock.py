"""Clocks: virtual time, monotonic time, calendar time."""

import pytest

from realtime_tts.clock import MonotonicClock, VirtualClock, sleep_s, unix_time_s


def test_a_virtual_clock_changes_only_by_advance() -> None:
    clock = VirtualClock(start_s=5.0)
    assert clock.now_s() == clock.now_s() == 5.0
    clock.advance(1.5)
    assert clock.now_s() == 6.5


def test_a_virtual_clock_refuses_to_go_back() -> None:
    with pytest.raises(ValueError, match="does not go back"):
        VirtualClock().advance(-0.1)


def test_the_real_clock_does_not_go_back() -> None:
    clock = MonotonicClock()
    readings = [clock.now_s() for _ in range(100)]
    sleep_s(0.001)
    assert readings == sorted(readings)
    assert clock.now_s() > readings[0]


def test_unix_time_is_a_current_date() -> None:
    assert unix_time_s() > 1_790_000_000
