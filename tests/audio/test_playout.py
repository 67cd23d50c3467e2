"""The one definition of underrun: its identity, and the test vectors that the browser shares."""

import dataclasses
import itertools
import json
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.audio.playout import ContinuityReport, PlayoutClock, PlayoutLedger

VECTORS = json.loads(Path(__file__).with_name("playout_vectors.json").read_text("utf-8"))["traces"]

Packet = tuple[float, float, bool]
packets = st.lists(st.tuples(st.floats(0, 3), st.floats(0, 3), st.booleans()), min_size=1, max_size=40).map(
    lambda rows: list(
        zip(
            itertools.accumulate(gap for gap, _, _ in rows),
            (duration for _, duration, _ in rows),
            (starved for _, _, starved in rows),
            strict=True,
        )
    )
)


def played(trace: list[Packet]) -> tuple[PlayoutLedger, list[float]]:
    ledger = PlayoutLedger()
    gaps = [ledger.record(arrived_at_s=t, duration_s=d, text_starved=starved) for t, d, starved in trace]
    return ledger, gaps


@given(packets)
@settings(max_examples=60)
def test_the_stalls_add_up_to_the_greatest_deficit(trace: list[Packet]) -> None:
    report = played(trace)[0].report()
    assert report.underrun_total_s == pytest.approx(report.max_underrun_s, abs=1e-6)
    assert report.max_stall_s <= report.underrun_total_s + 1e-9


@given(packets)
@settings(max_examples=60)
def test_a_start_later_by_the_greatest_deficit_is_gapless(trace: list[Packet]) -> None:
    trace = [(t, d, False) for t, d, _ in trace]
    delay_s = played(trace)[0].report().max_underrun_s
    first_s = trace[0][0]
    audio_before_s = 0.0
    for arrived_at_s, duration_s, _ in trace:
        assert arrived_at_s <= first_s + delay_s + audio_before_s + 1e-6
        audio_before_s += duration_s


@given(packets)
@settings(max_examples=60)
def test_every_wait_is_counted_once_as_an_underrun_or_as_text_starvation(trace: list[Packet]) -> None:
    ledger, gaps = played(trace)
    report = ledger.report()
    assert report.underrun_total_s + report.text_starvation_s == pytest.approx(sum(gaps), abs=1e-6)
    assert ledger.playout_end_s == pytest.approx(trace[0][0] + sum(gaps) + report.audio_s, abs=1e-6)


def test_the_vectors_that_the_browser_shares() -> None:
    for trace in VECTORS:
        report = played([tuple(packet) for packet in trace["packets"]])[0].report()
        figures, expected = dataclasses.asdict(report), dict(trace["report"])
        assert report.continuity_ok(0.1) is expected.pop("continuity_ok"), trace["name"]
        for name, value in expected.items():
            assert figures[name] == pytest.approx(value), (trace["name"], name)


def test_time_to_first_packet_counts_from_the_given_start() -> None:
    ledger = PlayoutLedger()
    assert ledger.report(started_at_s=1.0).ttfp_s is None
    ledger.record(arrived_at_s=1.5, duration_s=0.1)
    assert ledger.report(started_at_s=1.0).ttfp_s == pytest.approx(0.5)
    assert ledger.report().ttfp_s is None


def test_lead_is_the_audio_not_yet_played() -> None:
    ledger = PlayoutLedger()
    assert ledger.lead_s(0.0) == 0.0
    ledger.record(arrived_at_s=1.0, duration_s=0.5)
    assert ledger.lead_s(1.2) == pytest.approx(0.3)
    assert ledger.lead_s(2.0) == pytest.approx(-0.5)


def test_the_threshold_itself_counts_as_continuous() -> None:
    report = ContinuityReport(0.1, 2.0, 3, 1, 0.1, 0.1, 0.1, 0.0)
    assert report.continuity_ok(0.1) is True
    assert report.continuity_ok(0.0999) is False


def test_impossible_packets_are_refused() -> None:
    ledger = PlayoutLedger()
    ledger.record(arrived_at_s=1.0, duration_s=0.1)
    with pytest.raises(ValueError, match="in order of time"):
        ledger.record(arrived_at_s=0.9, duration_s=0.1)
    for duration_s in (-0.1, math.nan, math.inf):
        with pytest.raises(ValueError, match="duration of a packet must be"):
            ledger.record(arrived_at_s=2.0, duration_s=duration_s)
    for arrived_at_s in (math.nan, math.inf):
        with pytest.raises(ValueError, match="arrival time of a packet must be"):
            PlayoutLedger().record(arrived_at_s=arrived_at_s, duration_s=0.1)
    assert ledger.report().packets == 1


def test_a_packet_waits_while_the_listener_hears_something_else() -> None:
    ledger = PlayoutLedger()
    ledger.record(arrived_at_s=1.0, duration_s=0.5, playing_until_s=5.0)
    assert ledger.playout_end_s == pytest.approx(5.5)
    ledger.record(arrived_at_s=5.25, duration_s=0.5, playing_until_s=9.0)  # no effect on later packets
    assert ledger.report(0.0) == ContinuityReport(1.0, 1.0, 2, 0, 0.0, 0.0, 0.0, 0.0)
    assert ledger.record(arrived_at_s=6.25, duration_s=0.5) == pytest.approx(0.25)
    assert ledger.report().max_underrun_s == pytest.approx(0.25)


@given(packets, st.floats(0, 10))
@settings(max_examples=60)
def test_hearing_something_before_causes_no_underrun_and_keeps_the_identity(
    trace: list[Packet], until_s: float
) -> None:
    ledger = PlayoutLedger()
    for arrived_at_s, duration_s, starved in trace:
        ledger.record(arrived_at_s=arrived_at_s, duration_s=duration_s, text_starved=starved, playing_until_s=until_s)
    report = ledger.report()
    assert report.underrun_total_s == pytest.approx(report.max_underrun_s, abs=1e-6)
    assert report.max_underrun_s <= played(trace)[0].report().max_underrun_s + report.text_starvation_s + 1e-6


@given(packets)
def test_the_clock_ends_when_the_ledger_does(trace: list[Packet]) -> None:
    ledger, clock = PlayoutLedger(), PlayoutClock()
    for arrived_at_s, duration_s, _starved in trace:
        ledger.record(arrived_at_s=arrived_at_s, duration_s=duration_s)
        clock.advance(arrived_at_s, duration_s)
    assert clock.end_s == ledger.playout_end_s
    assert clock.lead_s(3.0) == ledger.lead_s(3.0)


def test_discarded_audio_is_not_played() -> None:
    clock = PlayoutClock()
    assert (clock.end_s, clock.lead_s(5.0)) == (None, 0.0)
    clock.discard(1.0)
    assert clock.end_s is None
    clock.advance(1.0, 2.0)
    clock.discard(0.5)
    assert clock.end_s == 2.5
