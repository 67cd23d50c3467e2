"""Rules of the summary: bad outcomes count, and no outcome is counted as faster than it was."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.summary import Outcome, Packet, ServerFigures, Status, judge, ms, percent, percentile, summarise


def spoken(*packets: tuple[float, float], intended_s: float = 0.0, status: Status = Status.OK) -> Outcome:
    """Of (arrival, duration) in seconds."""
    ended_s = packets[-1][0] if packets else intended_s
    return judge(intended_s=intended_s, ended_s=ended_s, status=status, timeline=[Packet(*p) for p in packets])


GAPLESS = spoken((0.2, 1.0), (0.5, 1.0), (1.0, 1.0))
LATE = spoken((0.2, 0.5), (1.7, 1.0))


@settings(max_examples=50)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1), st.floats(0, 100))
def test_percentiles_are_those_of_numpy(values: list[float], percent: float) -> None:
    assert percentile(values, percent) == pytest.approx(float(np.percentile(values, percent)), abs=1e-6)


def test_there_is_no_percentile_without_values() -> None:
    assert percentile([], 95) is None


def test_requests_are_measured_with_the_one_definition_of_underrun() -> None:
    assert (GAPLESS.max_underrun_s, GAPLESS.underrun_count, GAPLESS.packets) == (0, 0, 3)
    assert LATE.max_underrun_s == pytest.approx(1.0)
    assert LATE.underrun_count == 1
    assert LATE.ttfp_s == pytest.approx(0.2)
    assert LATE.rtf == pytest.approx(1.7 / 1.5)
    assert (GAPLESS.continuity_ok, LATE.continuity_ok) == (True, False)


def test_delays_count_from_the_intended_start() -> None:
    late = judge(intended_s=1, sent_s=4, ended_s=5, status=Status.OK, timeline=[Packet(4.5, 1), Packet(4.6, 1)])
    assert late.ttfp_s == pytest.approx(3.5)
    assert summarise([late]).late_s.p50 == pytest.approx(3)


def test_no_audio_is_a_failure_and_a_single_packet_is_not_applicable() -> None:
    nothing, single = spoken(), spoken((0.1, 3.0))
    assert (nothing.status, nothing.continuity_ok) == (Status.FAILED, False)
    assert single.continuity_ok is None
    summary = summarise([nothing, single, GAPLESS])
    assert (summary.failed, summary.judged, summary.ok_share) == (1, 2, 0.5)
    assert summarise([single]).ok_share is None
    assert summarise([single]).underrun_s.p50 is None


def test_a_failure_is_never_continuous() -> None:
    broken = spoken((0.1, 1.0), (0.2, 1.0), status=Status.FAILED)
    assert broken.max_underrun_s == 0
    assert summarise([broken]).ok_share == 0


def test_a_refusal_is_counted_separately_and_is_not_fast() -> None:
    refused = judge(intended_s=0, ended_s=0.001, status=Status.REFUSED, retry_after_s=5)
    summary = summarise([refused, GAPLESS])
    assert (summary.refused, summary.refused_share, summary.retry_after_s.p50) == (1, 0.5, 5)
    assert (summary.ok_share, summary.judged) == (1.0, 1)
    assert summary.ttfp_s.p50 == pytest.approx(0.2)


def test_an_unfinished_stream_counts_with_its_deficit_so_far() -> None:
    starving = judge(intended_s=0, ended_s=10, status=Status.UNFINISHED, timeline=[Packet(1, 0.5), Packet(1.2, 0.5)])
    assert starving.max_underrun_s == pytest.approx(8.0)
    assert starving.underrun_count == 1
    assert summarise([starving]).ok_share == 0
    one_packet = judge(intended_s=0, ended_s=10, status=Status.UNFINISHED, timeline=[Packet(1, 0.5)])
    assert one_packet.continuity_ok is False
    assert summarise([one_packet]).underrun_s.p50 == pytest.approx(8.5)


def test_an_unfinished_stream_with_a_lead_has_no_deficit() -> None:
    ahead = judge(intended_s=0, ended_s=1.5, status=Status.UNFINISHED, timeline=[Packet(1, 2.0), Packet(1.2, 2.0)])
    assert (ahead.max_underrun_s, ahead.underrun_count, ahead.continuity_ok) == (0, 0, True)


def test_an_unfinished_request_without_audio_counts_in_ttfp() -> None:
    queued = judge(intended_s=5, ended_s=30, status=Status.UNFINISHED)
    recent = judge(intended_s=29.9, ended_s=30, status=Status.UNFINISHED)
    summary = summarise([queued, recent])
    assert (summary.waiting, summary.unfinished, summary.judged) == (2, 2, 0)
    assert summary.ttfp_s.p99 == summary.ttfp_s.p50 == 25


def test_the_warm_up_is_not_counted_but_its_playback_is() -> None:
    early, later = spoken((0.0, 20.0), (1.0, 1.0)), spoken((12.0, 8.0), (13.0, 0.0), intended_s=12.0)
    summary = summarise([early, later], warm_up_s=10, duration_s=20)
    assert summary.requests == 1
    assert summary.mean_speaking == pytest.approx((10 + 8) / 10)


def test_client_and_server_are_compared_from_the_sending_of_the_text() -> None:
    outcome = judge(
        intended_s=0,
        sent_s=1.0,
        ended_s=3,
        status=Status.OK,
        timeline=[Packet(1.25, 0.5), Packet(2.0, 1)],
        server=ServerFigures(ttfp_s=0.24, max_underrun_s=0.2),
    )
    summary = summarise([outcome])
    assert summary.ttfp_difference_s.p50 == pytest.approx(0.01)
    assert summary.underrun_difference_s.p50 == pytest.approx(0.05)


@settings(max_examples=50)
@given(st.lists(st.tuples(st.floats(0, 5), st.floats(0.01, 5)), min_size=2, max_size=20), st.floats(0, 5))
def test_a_later_interruption_never_looks_better(steps: list[tuple[float, float]], wait_s: float) -> None:
    at_s, timeline = 0.0, []
    for gap_s, duration_s in steps:
        at_s += gap_s
        timeline.append(Packet(at_s, duration_s))
    now, later = (
        judge(intended_s=0, ended_s=end_s, status=Status.UNFINISHED, timeline=timeline)
        for end_s in (at_s, at_s + wait_s)
    )
    assert later.max_underrun_s >= now.max_underrun_s


def test_a_share_is_never_rounded_up() -> None:
    assert [percent(value) for value in (None, 2999 / 3000, 1.0, 0.5)] == ["-", "99.9%", "100%", "50%"]


def test_milliseconds_have_tenths_where_they_matter() -> None:
    assert [ms(value) for value in (None, 0.0, 0.00004, 0.0012, 0.0123, 1.5)] == ["-", "0", "0", "1.2", "12", "1500"]
