"""Plots of load runs: leads, lateness and stalls of streams."""

import pytest

from bench import run_plots
from bench.results import Run
from bench.summary import Outcome, Packet, Status, judge


def spoken(*packets: tuple[float, float], intended_s: float = 0.0) -> Outcome:
    timeline = [Packet(*packet) for packet in packets]
    return judge(intended_s=intended_s, ended_s=timeline[-1].at_s, status=Status.OK, timeline=timeline, ttfa_s=0.3)


OUTCOMES = (spoken((0.2, 1.0), (0.9, 1.0)), spoken((1.2, 0.5), (2.5, 1.0), intended_s=1.0))


def test_runs_share_the_distributions_and_have_two_plots_each() -> None:
    single, double = ([Run(label, OUTCOMES, 3.0) for label in labels] for labels in ("a", "ab"))
    assert len(run_plots.plots(single)) == 4
    underrun, first_audio, *of_each = run_plots.plots(double)
    assert [line.name for line in underrun.lines] == ["a", "b"]
    assert len(first_audio.lines) == 4
    titles = ["Lead over time: a", "Worst stream: a", "Lead over time: b", "Worst stream: b"]
    assert [plot.title for plot in of_each] == titles
    assert [line.colour for plot in of_each for line in plot.lines] == [0, 0, 0, 0, 1, 1, 1, 1]


def test_the_worst_stream_states_its_longest_interruption() -> None:
    *_others, worst = run_plots.plots([Run("a", OUTCOMES, 3.0)])
    assert worst.note.endswith("interrupted for 800 ms at most.")
    *_others, worst = run_plots.plots([Run("a", OUTCOMES[:1], 3.0)])
    assert worst.note.endswith("always at least 300 ms ahead.")
    *_others, worst = run_plots.plots([Run("a", (), 3.0)])
    assert worst.note == "No stream had more than one packet."


def test_the_lead_counts_streams_from_their_first_packet_to_their_last() -> None:
    leads = run_plots.lead_over_time([[Packet(0.0, 1.0), Packet(1.5, 1.0)], [Packet(0.0, 5.0)]])
    assert leads[0] == (0.0, 1.0, 1.0)
    assert leads[-1] == pytest.approx((1.4, -0.4, -0.4))
    assert len(leads) == 15


def test_the_lateness_is_positive_for_a_stall_and_negative_for_a_lead() -> None:
    assert run_plots.max_lateness_s([Packet(0, 1), Packet(0.4, 1), Packet(1.5, 1)]) == pytest.approx(-0.5)
    assert run_plots.max_lateness_s([Packet(0, 1), Packet(1.4, 1), Packet(1.5, 1)]) == pytest.approx(0.4)


def test_a_timeline_has_received_and_played_audio_and_every_stall() -> None:
    received, played, stalls = run_plots.stream_timeline(spoken((1.5, 0.5), (2.5, 1.0), intended_s=1.0))
    assert list(received) == [(0.5, 0), (0.5, 0.5), (1.5, 0.5), (1.5, 1.5)]
    assert list(played) == [(0.5, 0), (1.0, 0.5), (1.5, 0.5), (2.5, 1.5)]
    assert list(stalls) == [(1.0, 1.5)]
