"""What the layers changed: medians over rounds, their range, and ratios within each round."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from bench.results import Cell as Value
from bench.results import Line, Plot, Result, Table
from bench.stacked_drive import Cell
from bench.stacked_layers import LAYERS, Layer
from bench.summary import TELLING_WAIT_S, THRESHOLD_S, Outcome, Percentiles, Status, Summary, percentiles, summarise


@dataclass(frozen=True, slots=True)
class Metric:
    name: str
    unit: str
    of: Callable[[Cell, Summary], float | None]
    """In one round; None where there was nothing to measure, such as the continuity of a single packet."""
    compared: bool = False
    """Whether its ratios are told."""
    digits: int = 0

    @property
    def head(self) -> str:
        return f"{self.name}, {self.unit}" if self.unit else self.name

    def text(self, value: float | None) -> str:
        return "-" if value is None else f"{value:.{self.digits}f}"


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000


def _delays(cell: Cell, of: Callable[[Outcome], float | None]) -> Percentiles:
    """One that was cut before it came counts with its wait so far, where that tells anything: not only the quick do."""
    delays: list[float | None] = []
    for outcome in cell.outcomes:
        if outcome.status in (Status.OK, Status.UNFINISHED):
            delay_s, so_far_s = of(outcome), outcome.ended_s - outcome.intended_s
            cut = delay_s is None and outcome.status is Status.UNFINISHED and so_far_s >= TELLING_WAIT_S
            delays.append(so_far_s if cut else delay_s)
    return percentiles(delays)


def _e2e(cell: Cell) -> Percentiles:
    return _delays(cell, lambda each: each.ended_s - each.intended_s if each.status is Status.OK else None)


def _ttfp(cell: Cell) -> Percentiles:
    return _delays(cell, lambda each: each.ttfp_s)


def _ttfa(cell: Cell) -> Percentiles:
    return _delays(cell, lambda each: each.ttfa_s)


def _rate(cell: Cell) -> float | None:
    audio_s = sum(each.audio_s for each in cell.outcomes if each.status in (Status.OK, Status.UNFINISHED))
    return audio_s / cell.duration_s if audio_s else None


METRICS_OF_TIME = (
    Metric("E2E p50", "ms", lambda cell, _: _ms(_e2e(cell).p50), compared=True),
    Metric("TTFP p50", "ms", lambda cell, _: _ms(_ttfp(cell).p50), compared=True),
    Metric("TTFP p95", "ms", lambda cell, _: _ms(_ttfp(cell).p95)),
    Metric("TTFA p50", "ms", lambda cell, _: _ms(_ttfa(cell).p50)),
    Metric("first ask to sound p50", "ms", lambda cell, _: _ms(percentiles(cell.waits_s).p50)),
    Metric("RTF", "", lambda _, summary: summary.rtf_median, compared=True, digits=3),
    Metric("audio-s/s", "", lambda cell, _: _rate(cell), compared=True, digits=2),
)
METRICS_OF_CONTINUITY = (
    Metric("underrun p50", "ms", lambda _, summary: _ms(summary.underrun_s.p50)),
    Metric("underrun p95", "ms", lambda _, summary: _ms(summary.underrun_s.p95)),
    Metric("underrun p99", "ms", lambda _, summary: _ms(summary.underrun_s.p99)),
)
METRICS = METRICS_OF_TIME + METRICS_OF_CONTINUITY
PLOTTED = {
    "TTFP p50": "How soon is the first packet there?",
    "RTF": "How long does a second of speech take?",
    "underrun p95": "Does any listener run dry?",
    "audio-s/s": "How much speech comes of it?",
}

NOTES = (
    "Each figure is the median over rounds, and in brackets the least and the most; ratios are taken within a round.",
    "RTF counts from the request to its last packet, so it holds the time in the queue.",
    'Continuity of a single packet is "-": there is none to speak of. "ok" is the share of streams, failed ones with'
    f" them, whose listener never waited for longer than {THRESHOLD_S * 1000:.0f} ms.",
    "Refused requests have no part in times and are no part of ok; who is refused comes again with the same prompt,"
    ' which "first ask to sound" counts from the first time.  Audio-s/s holds the time in which they stay away.',
    "Requests that were cut, as their layer's turn was over, count in E2E, TTFP and TTFA with the time so far; RTF is"
    " without them, so there the layer is slower than told.",
)


@dataclass(slots=True)
class Found:
    """All that was measured: (layer, users) to its rounds, by their numbers."""

    lacking: Mapping[str, str]
    """Layers that are not applicable here, and why."""
    cells: dict[tuple[str, int], dict[int, Cell]] = field(default_factory=dict)

    def add(self, layer: Layer, users: int, number: int, cell: Cell) -> None:
        self.cells.setdefault((layer.name, users), {})[number] = cell

    @property
    def layers(self) -> list[Layer]:
        """The applicable ones."""
        return [layer for layer in LAYERS if layer.name not in self.lacking]

    @property
    def users(self) -> list[int]:
        return sorted({users for _name, users in self.cells})

    def rounds(self, layer: Layer, users: int) -> dict[int, Cell]:
        return self.cells.get((layer.name, users), {})

    def values(self, metric: Metric, layer: Layer, users: int) -> dict[int, float]:
        """By round, where there was anything to measure."""
        found = {number: measured(metric, cell) for number, cell in self.rounds(layer, users).items()}
        return {number: value for number, value in found.items() if value is not None}

    def ratio(self, metric: Metric, layer: Layer, other: Layer, users: int) -> float | None:
        """`layer` by `other`, the median of those of the rounds that have both."""
        ours, theirs = self.values(metric, layer, users), self.values(metric, other, users)
        ratios = [ours[number] / theirs[number] for number in ours if theirs.get(number)]
        return statistics.median(ratios) if ratios else None


def measured(metric: Metric, cell: Cell) -> float | None:
    return metric.of(cell, summarise(cell.outcomes))


# -- Tables ------------------------------------------------------------------------------------------------------------

COUNTS: tuple[tuple[str, Callable[[Sequence[Cell]], str]], ...] = (
    ("ok", lambda cells: _share(cells)),
    ("refused", lambda cells: _count(cells, Status.REFUSED)),
    ("failed", lambda cells: _count(cells, Status.FAILED)),
    ("cut", lambda cells: _count(cells, Status.UNFINISHED)),
    ("prompts heard", lambda cells: f"{_heard(cells)} of {sum(cell.prompts for cell in cells)}"),
)
"""Over all rounds together."""


def _count(cells: Sequence[Cell], status: Status) -> str:
    return str(sum(outcome.status is status for cell in cells for outcome in cell.outcomes))


def _heard(cells: Sequence[Cell]) -> int:
    return sum(outcome.status is Status.OK for cell in cells for outcome in cell.outcomes)


def _share(cells: Sequence[Cell]) -> str:
    summary = summarise([outcome for cell in cells for outcome in cell.outcomes])
    if summary.ok_share is None:
        return "-"
    return f"{round(summary.ok_share * summary.judged)} of {summary.judged}"


def times(found: Found) -> Table:
    return _table(found, METRICS_OF_TIME, (), "Times and rates: median over rounds (least..most)")


def continuity(found: Found) -> Table:
    return _table(found, METRICS_OF_CONTINUITY, COUNTS, "Continuity, and what became of the requests")


def _table(
    found: Found,
    metrics: Sequence[Metric],
    counts: Sequence[tuple[str, Callable[[Sequence[Cell]], str]]],
    title: str,
) -> Table:
    rows: list[tuple[Value, ...]] = []
    for layer, users in ((layer, users) for users in found.users for layer in LAYERS):
        cells = list(found.rounds(layer, users).values())
        if layer.name in found.lacking:
            rows.append((layer.name, users, "not applicable", *("" for _ in (*metrics[1:], *counts))))
        elif cells:
            texts = [_median_and_range(metric, list(found.values(metric, layer, users).values())) for metric in metrics]
            rows.append((layer.name, users, *texts, *(fill(cells) for _head, fill in counts)))
    heads = (*(metric.head for metric in metrics), *(head for head, _fill in counts))
    return Table(title, ("layer", "users", *heads), tuple(rows))


def _median_and_range(metric: Metric, values: Sequence[float]) -> str:
    if not values:
        return "-"
    median = metric.text(statistics.median(values))
    if len(values) == 1:
        return median
    return f"{median} ({metric.text(min(values))}..{metric.text(max(values))})"


def ratios(found: Found) -> Table:
    compared = [metric for metric in METRICS if metric.compared]
    rows: list[tuple[Value, ...]] = []
    for users in found.users:
        present = [layer for layer in found.layers if found.rounds(layer, users)]
        for before, layer in pairwise(present):
            others = [(metric, other) for metric in compared for other in (before, LAYERS[0])]
            told = (_rounded(found.ratio(metric, layer, other, users)) for metric, other in others)
            rows.append((layer.name, users, *told))
    heads = (f"{metric.name}{words}" for metric in compared for words in (" / before", " / baseline"))
    return Table("Ratios, to the layer before and to the baseline", ("layer", "users", *heads), tuple(rows))


def _rounded(ratio: float | None) -> float | None:
    return None if ratio is None else float(f"{ratio:.3g}")


def every_round(found: Found) -> Table:
    """For whoever computes with the file."""
    rows: list[tuple[Value, ...]] = []
    for users in found.users:
        for layer in found.layers:
            for number, cell in found.rounds(layer, users).items():
                rows.append((layer.name, users, number + 1, *(measured(metric, cell) for metric in METRICS)))
    return Table("Every round", ("layer", "users", "round", *(metric.head for metric in METRICS)), tuple(rows))


def _users(users: int) -> str:
    return "1 user" if users == 1 else f"{users} users"


# -- All of it ---------------------------------------------------------------------------------------------------------


def plots(found: Found) -> tuple[Plot, ...]:
    names = tuple(layer.name.removeprefix("+ ") for layer in LAYERS)
    by_name = {metric.name: metric for metric in METRICS}
    return tuple(
        Plot(
            title,
            x="each layer with all those before it",
            y=by_name[name].head,
            lines=tuple(_line(found, by_name[name], users) for users in found.users),
            names=names,
        )
        for name, title in PLOTTED.items()
    )


def _line(found: Found, metric: Metric, users: int) -> Line:
    points = [
        (float(LAYERS.index(layer)), statistics.median(values))
        for layer in found.layers
        if (values := list(found.values(metric, layer, users).values()))
    ]
    return Line(_users(users), tuple(points))


def result(found: Found, conditions: dict[str, str]) -> Result:
    return Result(
        bench="bench.stacked",
        title="What does each layer bring?",
        headline=headline(found),
        conditions=conditions,
        tables=(times(found), continuity(found), ratios(found), every_round(found)),
        plots=plots(found),
        notes=(*(_about(layer, found) for layer in LAYERS), *NOTES),
    )


def _about(layer: Layer, found: Found) -> str:
    why = found.lacking.get(layer.name)
    about = f"{layer.name}: {layer.about}"
    return f"{about}." if why is None else f"{about}. Not applicable here: {why}."


def headline(found: Found) -> str:
    """All layers by the baseline, with the most users."""
    last, first = found.layers[-1], found.layers[0]
    told = []
    for metric in METRICS if found.users else ():
        ratio = found.ratio(metric, last, first, found.users[-1]) if metric.compared else None
        if ratio is not None:
            told.append(f"{metric.name} {ratio:.3g}")
    if not told:
        return "Not enough was measured."
    users = found.users[-1]
    in_time = (f"{layer.name} {_share(list(found.rounds(layer, users).values()))}" for layer in found.layers[-2:])
    return (
        f"All layers by the baseline, {_users(users)}: {', '.join(told)} times. Streams in time: {', '.join(in_time)}."
    )
