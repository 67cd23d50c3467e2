"""What the comparison has found, as tables and plots for a report."""

from collections.abc import Callable, Mapping, Sequence

from bench.peers import qwen3_tts
from bench.peers.catalogue import Peer
from bench.peers.cells import Kept
from bench.peers.contest import Cell, Scenario
from bench.peers.figures import CPU, Figures, Versus, figures, rows, ttfp_s, versus, versus_rows
from bench.plot import cdf
from bench.results import Bar, Bars, Line, Plot, Result, Table

Figured = Mapping[tuple[str, Scenario], Figures]

NOTES = (
    "Every server stayed loaded and one at a time was driven; what the idle ones computed meanwhile is told below.",
    "Servers of one model are compared in seconds, those of another only in continuity and in the work before the first"
    " sound: a lighter model is faster whoever serves it.",
    "A stream of a single packet has no continuity: '-' is not applicable.",
    "A failed stream is never fast, and never continuous.",
    "Ours against theirs is by pairs of listeners of the same text who were served by both.",
)


def figured(cells: Sequence[Cell], peers: Sequence[Peer]) -> dict[tuple[str, Scenario], Figures]:
    """All rounds together, by scenario and then in the peers' order."""
    scenarios = sorted({cell.scenario for cell in cells}, key=lambda one: (one.tokens_per_s or 0.0, one.listeners))
    return {
        (peer.name, scenario): figures(chosen)
        for scenario in scenarios
        for peer in peers
        if (chosen := [cell for cell in cells if (cell.peer, cell.scenario) == (peer.name, scenario)])
    }


def against(cells: Sequence[Cell], peers: Sequence[Peer], ours: Peer) -> list[Versus]:
    """Ours by each other server, where both were measured."""
    found = [
        versus(cells, ours.name, peer.name, scenario, same_model=peer.model == ours.model)
        for _name, scenario in figured(cells, [ours])
        for peer in peers
        if peer is not ours
    ]
    return [one for one in found if one.rounds]


def result(kept: Kept, peers: Sequence[Peer], ours: Peer, conditions: Mapping[str, str], qwen: Result | None) -> Result:
    """`qwen` is what bench.qwen3_tts_vs_reference has found."""
    table = figured(kept.cells, peers)
    compared = against(kept.cells, peers, ours)
    tables = [_table("What the listeners heard", rows(table)), _table("Ours against theirs", versus_rows(compared))]
    if qwen is not None:
        tables += qwen3_tts.tables(qwen)
    about = {peer.name: f"{peer.about}. {peer.model}; {peer.text}" for peer in peers}
    absent = {name: f"not measured: {reason}" for name, reason in kept.absent.items() if name not in about}
    return Result(
        bench="bench.peers",
        title="How does our server fare beside others?",
        conditions=about | absent | dict(conditions) | {"idle servers": idle(kept.cells)},
        headline=headline(compared),
        tables=tuple(tables),
        plots=tuple(_plots(kept.cells, table, peers)),
        bars=tuple(_bars(compared)),
        notes=NOTES,
    )


def headline(compared: Sequence[Versus]) -> str:
    """The first packet of one listener, by the servers of the same model."""
    told = [
        f"{one.ratios['TTFP'].median:.2f} times {one.peer}'s"
        for one in compared
        if "TTFP" in one.ratios and one.scenario == Scenario(1, None)
    ]
    return f"Alone, our first packet takes {' and '.join(told)}" if told else ""


def idle(cells: Sequence[Cell]) -> str:
    spent = [cell.idle_cpu_s for cell in cells if cell.idle_cpu_s is not None]
    driven = sum(cell.cpu_s for cell in cells if cell.cpu_s is not None)
    return f"{sum(spent):.1f} CPU s, while those that were driven computed {driven:.0f} s" if spent else "not measured"


def _table(title: str, lines: Sequence[tuple[str, ...]]) -> Table:
    head, *body = lines
    return Table(title, head, tuple(body))


def _plots(cells: Sequence[Cell], table: Figured, peers: Sequence[Peer]) -> list[Plot]:
    speeds = sorted({scenario.tokens_per_s for _name, scenario in table}, key=lambda speed: speed or 0.0)
    plots = []
    for speed in speeds:
        text = _text(speed)
        for title, note, value in (
            ("Time to first packet", "The median of all rounds.", lambda one: one.ttfp_s.p50),
            ("Underrun", "The 95th percentile of the longest wait in mid-speech.", lambda one: one.underrun_s.p95),
        ):
            lines = [_by_listeners(peer.name, table, speed, value) for peer in peers]
            plots.append(Plot(f"{title}, {text}", "listeners at once", "ms", _drawn(lines), note))
        chosen = [cell for cell in cells if cell.scenario.tokens_per_s == speed]
        lines = [_distribution(peer.name, chosen) for peer in peers]
        title = f"First packet of all listeners, {text}"
        note = "The share of listeners, of all scenarios, who heard something within this time."
        plots.append(Plot(title, "ms", "share of listeners", _drawn(lines), note, logarithmic=True))
    return plots


def _text(tokens_per_s: float | None) -> str:
    return "whole text" if tokens_per_s is None else f"text at {tokens_per_s:g} tokens/s"


def _by_listeners(name: str, table: Figured, speed: float | None, value: Callable[[Figures], float | None]) -> Line:
    points = [
        (float(scenario.listeners), seconds * 1000)
        for (peer, scenario), one in table.items()
        if peer == name and scenario.tokens_per_s == speed and (seconds := value(one)) is not None
    ]
    return Line(name, tuple(points))


def _distribution(name: str, cells: Sequence[Cell]) -> Line:
    values = [ttfp_s(outcome) for cell in cells if cell.peer == name for outcome in cell.outcomes]
    return Line(name, tuple(cdf([value * 1000 for value in values if value is not None])))


def _drawn(lines: Sequence[Line]) -> tuple[Line, ...]:
    return tuple(line for line in lines if line.points)


def _bars(compared: Sequence[Versus]) -> list[Bars]:
    """Below 1, ours is less."""
    names = {"TTFP": "Time to first packet", CPU: "CPU seconds for a second of speech"}
    found = []
    for name, words in names.items():
        for speed in dict.fromkeys(one.scenario.tokens_per_s for one in compared):
            bars = [
                Bar(f"{one.peer} ×{one.scenario.listeners}", ratio.median, ratio.low, ratio.high)
                for one in compared
                if one.scenario.tokens_per_s == speed and (ratio := one.ratios.get(name)) is not None
            ]
            if bars:
                note = "Ours by theirs, by how many listen; servers of our model, median and range of the rounds."
                found.append(Bars(f"{words}, ours by theirs: {_text(speed)}", "times", tuple(bars), note))
    return found
