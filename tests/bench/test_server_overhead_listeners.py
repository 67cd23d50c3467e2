"""Listeners count every message however it is split, and a failed stream never counts as continuous."""

import socket

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.server_overhead_listeners import Listener, trial, trial_of
from bench.server_overhead_servers import Usage, frame

USAGES = (Usage(0.0, 0.0, 0.0, 1000, ()), Usage(1.0, 0.5, 0.1, 2000, ()), Usage(3.0, 1.5, 0.3, 5000, (0.001, 0.003)))


def listener(*arrivals_s: float, failed: bool = False) -> Listener:
    return Listener(socket.socket(), list(arrivals_s), failed)


def text(payload: bytes) -> bytes:
    return bytes((0x81, 126)) + len(payload).to_bytes(2) + payload


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(0, 4000), max_size=8), st.lists(st.integers(0, 20_000)))
def test_messages_are_counted_however_they_are_split(sizes: list[int], splits: list[int]) -> None:
    data = b"".join(frame(bytes(size)) + text(b'{"type":"audio.start"}') for size in sizes)
    one = listener()
    for begin, end in zip([0, *sorted(splits)], [*sorted(splits), len(data)], strict=True):
        one.receive(data[begin:end], 1.0)
    one.socket.close()
    # An empty message is not counted; the servers send none.
    assert len(one.arrivals_s) == sum(size > 0 for size in sizes)
    assert not one.failed


def test_an_error_or_a_close_is_a_failure() -> None:
    for data in (text(b'{"type":"error","code":"overloaded"}'), bytes((0x88, 2, 3, 232))):
        check_failure(data)


def check_failure(data: bytes) -> None:
    one = listener(1.0, 2.0)
    one.receive(frame(b"sound") + data[:3], 3.0)
    one.receive(data[3:], 3.0)
    one.socket.close()
    assert one.failed
    assert one.waits(0.0, 4.0, 0.08) == (float("inf"), True)


def test_the_wait_is_that_of_a_listener_without_a_buffer() -> None:
    one = listener(0.5, 1.0, 1.08, 1.46, 1.47)
    one.socket.close()
    assert one.waits(0.9, 1.5, 0.08)[0] == pytest.approx(0.3)
    assert one.waits(0.9, 2.5, 0.08)[0] == pytest.approx(2.5 - 1.0 - 4 * 0.08)  # the interruption continues
    assert one.waits(1.47, 2.0, 0.08) == (float("inf"), True)  # a single packet: the stream has stopped


def test_a_failure_counts_as_an_infinite_wait() -> None:
    regular = [0.08 * number for number in range(50)]
    listeners = [listener(*regular) for _ in range(18)] + [listener(), listener(*regular, failed=True)]
    found = trial_of("ours", listeners, (1.0, 3.0), USAGES, 0.25, "pcm")
    for one in listeners:
        one.socket.close()
    assert (found.streams, found.failed, found.ok_share) == (20, 2, 0.9)
    assert found.underrun_p95_s == float("inf")
    assert not found.sustained
    assert (found.server_cpu, found.client_cpu, found.rss_per_stream_bytes) == (0.5, 0.25, 200.0)
    assert found.server_waited == pytest.approx(0.1)
    assert found.messages_per_s == 19 * 25 / 2
    assert found.lag_p99_s == pytest.approx(0.003, abs=1e-4)
    assert found.cpu_us_per_message == pytest.approx(0.5 / (19 * 25 / 2) * 1e6)


def test_opus_has_four_packets_per_chunk() -> None:
    found = trial("ours", "opus", 3, 0.4, None)
    assert found.failed == 0
    assert found.messages_per_s > 3 * 12.5 * 1.5
    assert found.server_cpu > 0
