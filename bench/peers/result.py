"""Result of the comparison: tables and plots for a report."""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence

from bench.peers.catalogue import Peer
from bench.peers.comparison import Measurement, Scenario
from bench.peers.figures import CPU, Figures, Ratios, figures, figures_table, ratios, ratios_table, ttfp_s
from bench.peers.saved_rounds import SavedRounds
from bench.results import Bar, Bars, Line, Plot, Result, cumulative

FiguresByServer = Mapping[tuple[str, Scenario], Figures]

NOTES = (
    "Every server stayed loaded and one at a time was measured; the CPU time of the idle ones is among the conditions.",
    "Servers of one model are compared in seconds, those of another model only in continuity and in the work before"
    " the first audio: a lighter model is faster with any server.",
    "The continuity of a single packet is '-': not applicable.",
    "A failed stream is neither fast nor continuous.",
    "Ratios are taken from pairs of listeners with the same text who were served by both servers.",
)


def figures_by_server(
    measurements: Sequence[Measurement], peers: Sequence[Peer]
) -> dict[tuple[str, Scenario], Figures]:
    """All rounds together, by scenario and then in the order of the peers."""
    scenarios = sorted({one.scenario for one in measurements}, key=lambda one: (one.tokens_per_s or 0.0, one.listeners))
    return {
        (peer.name, scenario): figures(chosen)
        for scenario in scenarios
        for peer in peers
        if (chosen := [one for one in measurements if (one.peer, one.scenario) == (peer.name, scenario)])
    }


def all_ratios(measurements: Sequence[Measurement], peers: Sequence[Peer], ours: Peer) -> list[Ratios]:
    """Ours divided by each other server, where both were measured."""
    found = [
        ratios(measurements, ours.name, peer.name, scenario, same_model=peer.model == ours.model)
        for _name, scenario in figures_by_server(measurements, [ours])
        for peer in peers
        if peer is not ours
    ]
    return [one for one in found if one.rounds]


def result_of(saved: SavedRounds, peers: Sequence[Peer], ours: Peer, conditions: Mapping[str, str]) -> Result:
    found = figures_by_server(saved.measurements, peers)
    compared = all_ratios(saved.measurements, peers, ours)
    descriptions = {peer.name: f"{peer.description}. {peer.model}; {peer.text_input}" for peer in peers}
    absent = {name: f"not measured: {reason}" for name, reason in saved.absent.items() if name not in descriptions}
    return Result(
        bench="bench.peers",
        title="Comparison with other servers",
        conditions=descriptions | absent | dict(conditions) | {"idle servers": idle(saved.measurements)},
        headline=headline(compared),
        tables=(figures_table(found), ratios_table(compared)),
        plots=tuple(_plots(saved.measurements, found, peers)),
        bars=tuple(_bars(compared)),
        notes=NOTES,
    )


def headline(compared: Sequence[Ratios]) -> str:
    """The time to first packet of one listener, divided by that of the servers with the same model."""
    factors = [
        f"{statistics.median(one.by_figure['TTFP']):.2f} times {one.peer}"
        for one in compared
        if "TTFP" in one.by_figure and one.scenario == Scenario(1, None)
    ]
    return f"Time to first packet with one listener: {' and '.join(factors)}" if factors else ""


def idle(measurements: Sequence[Measurement]) -> str:
    idle_s = [one.idle_cpu_s for one in measurements if one.idle_cpu_s is not None]
    measured_s = sum(one.cpu_s for one in measurements if one.cpu_s is not None)
    return f"{sum(idle_s):.1f} CPU s, while the measured ones used {measured_s:.0f} s" if idle_s else "not measured"


def _plots(measurements: Sequence[Measurement], found: FiguresByServer, peers: Sequence[Peer]) -> Iterator[Plot]:
    speeds = sorted({scenario.tokens_per_s for _name, scenario in found}, key=lambda speed: speed or 0.0)
    for speed in speeds:
        text = _text(speed)
        for title, note, value in (
            ("Time to first packet", "The median of all rounds.", lambda one: one.ttfp_s.p50),
            ("Underrun", "The 95th percentile of the longest interruption.", lambda one: one.underrun_s.p95),
        ):
            lines = [_by_listeners(peer.name, found, speed, value) for peer in peers]
            yield Plot(f"{title}, {text}", "concurrent listeners", "ms", _with_points(lines), note, markers=True)
        chosen = [one for one in measurements if one.scenario.tokens_per_s == speed]
        yield Plot(
            f"Time to first packet of all listeners, {text}",
            "time",
            "share of listeners",
            _with_points([_distribution(peer.name, chosen) for peer in peers]),
            "The share of listeners, of all scenarios, with audio within this time.",
            logarithmic=True,
            milliseconds=True,
            percent=True,
        )


def _text(tokens_per_s: float | None) -> str:
    return "whole text" if tokens_per_s is None else f"text at {tokens_per_s:g} tokens/s"


def _by_listeners(
    name: str, found: FiguresByServer, speed: float | None, value: Callable[[Figures], float | None]
) -> Line:
    points = [
        (float(scenario.listeners), seconds * 1000)
        for (peer, scenario), one in found.items()
        if peer == name and scenario.tokens_per_s == speed and (seconds := value(one)) is not None
    ]
    return Line(name, tuple(points))


def _distribution(name: str, measurements: Sequence[Measurement]) -> Line:
    values = [ttfp_s(outcome) for one in measurements if one.peer == name for outcome in one.outcomes]
    return Line(name, cumulative([value * 1000 for value in values if value is not None]))


def _with_points(lines: Sequence[Line]) -> tuple[Line, ...]:
    return tuple(line for line in lines if line.points)


def _bars(compared: Sequence[Ratios]) -> Iterator[Bars]:
    """Below 1 ours is lower."""
    for name, title in {"TTFP": "Time to first packet", CPU: "CPU seconds per second of audio"}.items():
        for speed in dict.fromkeys(one.scenario.tokens_per_s for one in compared):
            bars = [
                Bar(f"{one.peer} ×{one.scenario.listeners}", statistics.median(values), min(values), max(values))
                for one in compared
                if one.scenario.tokens_per_s == speed and (values := one.by_figure.get(name))
            ]
            if bars:
                note = "By the number of listeners; servers of our model, median and range of the rounds."
                yield Bars(f"{title}, ours divided by theirs: {_text(speed)}", "ratio", tuple(bars), note)
