"""Listeners count every sound however it is cut, and who is left without is never counted as well served."""

import socket

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.server_overhead_listeners import Listener, judged, trial
from bench.server_overhead_servers import Mark, frame

MARKS = (Mark(0.0, 0.0, 0.0, 1000, ()), Mark(1.0, 0.5, 0.1, 2000, ()), Mark(3.0, 1.5, 0.3, 5000, (0.001, 0.003)))


def listener(*arrivals_s: float, failed: bool = False) -> Listener:
    return Listener(socket.socket(), list(arrivals_s), failed)


def text(payload: bytes) -> bytes:
    return bytes((0x81, 126)) + len(payload).to_bytes(2) + payload


@settings(deadline=None)
@given(st.lists(st.integers(0, 4000), max_size=8), st.lists(st.integers(0, 20_000)))
def test_sounds_are_counted_however_they_are_cut(sizes: list[int], cuts: list[int]) -> None:
    data = b"".join(frame(bytes(size)) + text(b'{"type":"audio.start"}') for size in sizes)
    one = listener()
    for begin, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(data)], strict=True):
        one.feed(data[begin:end], 1.0)
    one.socket.close()
    # A sound of no bytes is told apart from none only by its header, and none of ours is empty.
    assert len(one.arrivals_s) == sum(size > 0 for size in sizes)
    assert not one.failed


@pytest.mark.parametrize("data", [text(b'{"type":"error","code":"overloaded"}'), bytes((0x88, 2, 3, 232))])
def test_an_error_or_a_close_is_a_failure(data: bytes) -> None:
    one = listener(1.0, 2.0)
    one.feed(frame(b"sound") + data[:3], 3.0)
    one.feed(data[3:], 3.0)
    one.socket.close()
    assert one.failed
    assert one.waits(0.0, 4.0, 0.08) == (float("inf"), True)


def test_the_wait_is_that_of_a_listener_without_reserve() -> None:
    one = listener(0.5, 1.0, 1.08, 1.46, 1.47)
    one.socket.close()
    assert one.waits(0.9, 1.5, 0.08)[0] == pytest.approx(0.3)
    assert one.waits(0.9, 2.5, 0.08)[0] == pytest.approx(2.5 - 1.0 - 4 * 0.08)  # it waits still
    assert one.waits(1.47, 2.0, 0.08) == (float("inf"), True)  # a single packet has stopped at once


def test_a_failure_counts_as_one_who_waits_for_ever() -> None:
    steady = [0.08 * number for number in range(50)]
    crowd = [listener(*steady) for _ in range(18)] + [listener(), listener(*steady, failed=True)]
    found = judged("ours", crowd, (1.0, 3.0), MARKS, 0.25, "pcm")
    for one in crowd:
        one.socket.close()
    assert (found.streams, found.failed, found.ok_share) == (20, 2, 0.9)
    assert found.underrun_p95_s == float("inf")
    assert not found.carried
    assert (found.server_cpu, found.client_cpu, found.rss_per_stream_bytes) == (0.5, 0.25, 200.0)
    assert found.server_waited == pytest.approx(0.1)
    assert found.messages_per_s == 19 * 25 / 2
    assert found.lag_p99_s == pytest.approx(0.003, abs=1e-4)
    assert found.cpu_us_per_message == pytest.approx(0.5 / (19 * 25 / 2) * 1e6)


def test_opus_comes_in_four_packets_a_chunk() -> None:
    found = trial("ours", "opus", 3, 0.4, None)
    assert found.failed == 0
    assert found.messages_per_s > 3 * 12.5 * 1.5
    assert found.server_cpu > 0
