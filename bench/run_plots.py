"""Plots of load runs: underruns, time to first audio, leads over time, and the worst stream."""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

from bench.results import Line, Plot, Point, Run, cumulative
from bench.summary import Outcome, Packet, ms, percentile

LEAD_STEP_S = 0.1


def plots(runs: Sequence[Run]) -> tuple[Plot, ...]:
    """Distributions of all runs together, then two plots of each run."""
    single = len(runs) == 1
    of_each = [
        plot
        for number, run in enumerate(runs)
        for plot in (
            _lead_plot(run, number, "" if single else f": {run.label}"),
            _stream_plot(run, number, "" if single else f": {run.label}"),
        )
    ]
    return (_underrun_plot(runs), _first_audio_plot(runs), *of_each)


def _underrun_plot(runs: Sequence[Run]) -> Plot:
    threshold_ms = runs[0].threshold_s * 1000
    return Plot(
        "Underrun",
        "longest interruption; 1 ms stands for all shorter ones",
        "share of streams",
        tuple(Line(run.label, cumulative([max(1.0, 1000 * value) for value in _underruns_s(run)])) for run in runs),
        "The share of streams whose longest interruption was at most this.",
        logarithmic=True,
        milliseconds=True,
        percent=True,
        steps=True,
        marks=((threshold_ms, f"{threshold_ms:g} ms"),),
    )


def _underruns_s(run: Run) -> list[float]:
    return [o.max_underrun_s for o in run.counted if o.packets and o.continuous_within(run.threshold_s) is not None]


def _first_audio_plot(runs: Sequence[Run]) -> Plot:
    lines = []
    for number, run in enumerate(runs):
        prefix = f"{run.label}, " if len(runs) > 1 else ""
        packets_ms = [outcome.ttfp_s * 1000 for outcome in run.counted if outcome.ttfp_s is not None]
        audible_ms = [outcome.ttfa_s * 1000 for outcome in run.counted if outcome.ttfa_s is not None]
        lines.append(Line(f"{prefix}first packet", cumulative(packets_ms), colour=number))
        lines.append(Line(f"{prefix}first audible sample", cumulative(audible_ms), dashed=True, colour=number))
    return Plot(
        "Time to first audio",
        "time from the intended start of the request",
        "share of streams",
        tuple(line for line in lines if line.points),
        "The share of the streams with audio that had it within this time.",
        logarithmic=True,
        milliseconds=True,
        percent=True,
        steps=True,
    )


def _lead_plot(run: Run, number: int, suffix: str) -> Plot:
    leads = lead_over_time([outcome.timeline for outcome in run.outcomes])
    p05 = tuple((at_s, low_s) for at_s, low_s, _median_s in leads)
    p50 = tuple((at_s, median_s) for at_s, _low_s, median_s in leads)
    return Plot(
        f"Lead over time{suffix}",
        "time from the start of the run, s",
        "lead, s",
        (Line("median", p50, colour=number), Line("5th percentile", p05, dashed=True, colour=number)),
        "Seconds of audio that the listeners of all active streams have left; below 0 playback is interrupted.",
    )


def lead_over_time(timelines: Iterable[Sequence[Packet]]) -> list[tuple[float, float, float]]:
    """(seconds, p05, p50) of the leads of all active streams: from the first packet to the last.

    After the last packet no underrun is possible: the rest only plays to its end.
    """
    leads: dict[int, list[float]] = {}
    for packets in timelines:
        playout_end_s = packets[0].at_s if packets else 0.0
        for packet, following in pairwise(packets):
            playout_end_s = max(playout_end_s, packet.at_s) + packet.duration_s
            for step in range(math.ceil(packet.at_s / LEAD_STEP_S), math.ceil(following.at_s / LEAD_STEP_S)):
                leads.setdefault(step, []).append(playout_end_s - step * LEAD_STEP_S)
    return [
        (step * LEAD_STEP_S, percentile(values, 5) or 0.0, percentile(values, 50) or 0.0)
        for step, values in sorted(leads.items())
    ]


def _stream_plot(run: Run, number: int, suffix: str) -> Plot:
    streams = [outcome for outcome in run.counted if len(outcome.timeline) > 1]
    title, x, y = f"Worst stream{suffix}", "time from the intended start of the request, s", "audio, s"
    if not streams:
        return Plot(title, x, y, (), "No stream had more than one packet.")
    worst = max(streams, key=lambda outcome: max_lateness_s(outcome.timeline))
    received, played, stalls = stream_timeline(worst)
    late_s = max_lateness_s(worst.timeline)
    verdict = f"interrupted for {ms(late_s)} ms at most" if late_s > 0 else f"always at least {ms(-late_s)} ms ahead"
    return Plot(
        title,
        x,
        y,
        (Line("received", received, colour=number), Line("played", played, dashed=True, colour=number)),
        f"Audio that was received and played in the stream with the smallest margin: {verdict}.",
        bands=stalls,
    )


def max_lateness_s(packets: Sequence[Packet]) -> float:
    """How late a packet was for playback at most; negative where every packet was early."""
    playout_end_s = packets[0].at_s
    lateness_s = []
    for packet in packets:
        lateness_s.append(packet.at_s - playout_end_s)
        playout_end_s = max(playout_end_s, packet.at_s) + packet.duration_s
    return max(lateness_s[1:])


def stream_timeline(outcome: Outcome) -> tuple[tuple[Point, ...], tuple[Point, ...], tuple[Point, ...]]:
    """Received and played audio as (seconds from the intended start, seconds of audio); and the range of each stall."""
    received: list[Point] = []
    played: list[Point] = []
    stalls: list[Point] = []
    total_s = 0.0
    playout_end_s = outcome.timeline[0].at_s - outcome.intended_s
    for packet in outcome.timeline:
        at_s = packet.at_s - outcome.intended_s
        if at_s > playout_end_s:
            stalls.append((playout_end_s, at_s))
        played.append((max(playout_end_s, at_s), total_s))
        received += [(at_s, total_s), (at_s, total_s + packet.duration_s)]
        total_s += packet.duration_s
        playout_end_s = max(playout_end_s, at_s) + packet.duration_s
        played.append((playout_end_s, total_s))
    return tuple(received), tuple(played), tuple(stalls)
