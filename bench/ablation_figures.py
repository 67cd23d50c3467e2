"""Figures of the ablation: medians and ranges over rounds, and ratios within each round."""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from bench.ablation_driver import LayerRun
from bench.ablation_layers import LAYERS, Layer
from bench.results import Line, Plot, Result, Table, Value
from bench.summary import MIN_UNFINISHED_WAIT_S, THRESHOLD_S, Outcome, Status, Summary, percentile, summarise
from bench.tables import format_spread


@dataclass(frozen=True, slots=True)
class Metric:
    name: str
    unit: str
    of: Callable[[LayerRun, Summary], float | None]
    """The value of one round; None if there is none, such as the continuity of a single packet."""
    compared: bool = False
    """Whether its ratios are reported."""
    digits: int = 0

    @property
    def heading(self) -> str:
        return f"{self.name}, {self.unit}" if self.unit else self.name

    def text(self, value: float | None) -> str:
        return "-" if value is None else f"{value:.{self.digits}f}"


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000


def _delay_ms(of: Callable[[Outcome], float | None], percent: float) -> Callable[[LayerRun, Summary], float | None]:
    """An unfinished request counts with its wait so far if that is long; otherwise only fast requests would count."""

    def delay_s(outcome: Outcome) -> float | None:
        so_far_s = outcome.ended_s - outcome.intended_s
        waiting = outcome.status is Status.UNFINISHED and so_far_s >= MIN_UNFINISHED_WAIT_S
        return so_far_s if (value_s := of(outcome)) is None and waiting else value_s

    def value_ms(run: LayerRun, _summary: Summary) -> float | None:
        counted = [each for each in run.outcomes if each.status in (Status.OK, Status.UNFINISHED)]
        known = [value_s for each in counted if (value_s := delay_s(each)) is not None]
        return _ms(percentile(known, percent))

    return value_ms


def _e2e_s(outcome: Outcome) -> float | None:
    return outcome.ended_s - outcome.intended_s if outcome.status is Status.OK else None


def _rate(run: LayerRun) -> float | None:
    audio_s = sum(each.audio_s for each in run.outcomes if each.status in (Status.OK, Status.UNFINISHED))
    return audio_s / run.duration_s if audio_s else None


TIME_METRICS = (
    Metric("E2E p50", "ms", _delay_ms(_e2e_s, 50), compared=True),
    Metric("TTFP p50", "ms", _delay_ms(lambda each: each.ttfp_s, 50), compared=True),
    Metric("TTFP p95", "ms", _delay_ms(lambda each: each.ttfp_s, 95)),
    Metric("TTFA p50", "ms", _delay_ms(lambda each: each.ttfa_s, 50)),
    Metric("first request to audio p50", "ms", lambda run, _: _ms(percentile(run.waits_s, 50))),
    Metric("RTF", "", lambda _, summary: summary.rtf_median, compared=True, digits=3),
    Metric("audio-s/s", "", lambda run, _: _rate(run), compared=True, digits=2),
)
CONTINUITY_METRICS = (
    Metric("underrun p50", "ms", lambda _, summary: _ms(summary.underrun_s.p50)),
    Metric("underrun p95", "ms", lambda _, summary: _ms(summary.underrun_s.p95)),
    Metric("underrun p99", "ms", lambda _, summary: _ms(summary.underrun_s.p99)),
)
METRICS = TIME_METRICS + CONTINUITY_METRICS
PLOTTED = {
    "TTFP p50": "Time to first packet",
    "RTF": "Real-time factor",
    "underrun p95": "Underrun, 95th percentile",
    "audio-s/s": "Throughput",
}

NOTES = (
    "Each figure is the median over rounds, with the range in brackets; ratios are taken within a round.",
    "RTF counts from the request to its last packet, so it includes the time in the queue.",
    'The continuity of a single packet is "-": not applicable. "ok" is the share of streams, including failed ones,'
    f" with no interruption above {THRESHOLD_S * 1000:.0f} ms.",
    "Refused requests are not part of times or of ok; a refused prompt is requested again, and"
    ' "first request to audio" counts from its first request. Audio-s/s includes the time before the retry.',
    "Requests that were unfinished at the end of their layer's run count in E2E, TTFP and TTFA with the time so far;"
    " RTF excludes them, so the layer's true RTF is higher.",
)


@dataclass(slots=True)
class Findings:
    """All measurements: (layer, users) to its runs by round number."""

    not_applicable: Mapping[str, str]
    """Layers that are not applicable here, and why."""
    runs: dict[tuple[str, int], dict[int, LayerRun]] = field(default_factory=dict)

    def add(self, layer: Layer, users: int, number: int, run: LayerRun) -> None:
        self.runs.setdefault((layer.name, users), {})[number] = run

    @property
    def layers(self) -> list[Layer]:
        """The applicable ones."""
        return [layer for layer in LAYERS if layer.name not in self.not_applicable]

    @property
    def users(self) -> list[int]:
        return sorted({users for _name, users in self.runs})

    def rounds(self, layer: Layer, users: int) -> dict[int, LayerRun]:
        return self.runs.get((layer.name, users), {})

    def values(self, metric: Metric, layer: Layer, users: int) -> dict[int, float]:
        """By round, without the rounds that have no value."""
        found = {number: value_of(metric, run) for number, run in self.rounds(layer, users).items()}
        return {number: value for number, value in found.items() if value is not None}

    def ratio(self, metric: Metric, layer: Layer, other: Layer, users: int) -> float | None:
        """`layer` divided by `other`: the median over the rounds that have both."""
        ours, theirs = self.values(metric, layer, users), self.values(metric, other, users)
        ratios = [ours[number] / theirs[number] for number in ours if theirs.get(number)]
        return statistics.median(ratios) if ratios else None


def value_of(metric: Metric, run: LayerRun) -> float | None:
    return metric.of(run, summarise(run.outcomes))


# -- Tables ------------------------------------------------------------------------------------------------------------

COUNTS: tuple[tuple[str, Callable[[Sequence[LayerRun]], str]], ...] = (
    ("ok", lambda runs: _ok_share(runs)),
    ("refused", lambda runs: str(_count(runs, Status.REFUSED))),
    ("failed", lambda runs: str(_count(runs, Status.FAILED))),
    ("unfinished", lambda runs: str(_count(runs, Status.UNFINISHED))),
    ("prompts completed", lambda runs: f"{_count(runs, Status.OK)} of {sum(run.prompts for run in runs)}"),
)
"""Over all rounds together."""


def _count(runs: Sequence[LayerRun], status: Status) -> int:
    return sum(outcome.status is status for run in runs for outcome in run.outcomes)


def _ok_share(runs: Sequence[LayerRun]) -> str:
    summary = summarise([outcome for run in runs for outcome in run.outcomes])
    if summary.ok_share is None:
        return "-"
    return f"{round(summary.ok_share * summary.judged)} of {summary.judged}"


def times_table(findings: Findings) -> Table:
    return _table(findings, TIME_METRICS, (), "Times and rates: median over rounds (range)")


def continuity_table(findings: Findings) -> Table:
    return _table(findings, CONTINUITY_METRICS, COUNTS, "Continuity and outcomes of the requests")


def _table(
    findings: Findings,
    metrics: Sequence[Metric],
    counts: Sequence[tuple[str, Callable[[Sequence[LayerRun]], str]]],
    title: str,
) -> Table:
    rows: list[tuple[Value, ...]] = []
    for layer, users in ((layer, users) for users in findings.users for layer in LAYERS):
        runs = list(findings.rounds(layer, users).values())
        if layer.name in findings.not_applicable:
            rows.append((layer.name, users, "not applicable", *("" for _ in (*metrics[1:], *counts))))
        elif runs:
            values = (list(findings.values(metric, layer, users).values()) for metric in metrics)
            texts = [format_spread(each, metric.digits) for metric, each in zip(metrics, values, strict=True)]
            rows.append((layer.name, users, *texts, *(count(runs) for _heading, count in counts)))
    headings = (*(metric.heading for metric in metrics), *(heading for heading, _count in counts))
    return Table(title, ("layer", "users", *headings), tuple(rows))


def ratios_table(findings: Findings) -> Table:
    compared = [metric for metric in METRICS if metric.compared]
    rows: list[tuple[Value, ...]] = []
    for users in findings.users:
        present = [layer for layer in findings.layers if findings.rounds(layer, users)]
        for previous, layer in pairwise(present):
            others = [(metric, other) for metric in compared for other in (previous, LAYERS[0])]
            rows.append((layer.name, users, *(findings.ratio(metric, layer, other, users) for metric, other in others)))
    headings = (f"{metric.name} / {other}" for metric in compared for other in ("previous", "baseline"))
    return Table("Ratios to the previous layer and to the baseline", ("layer", "users", *headings), tuple(rows))


def every_round_table(findings: Findings) -> Table:
    """For programs that read the file."""
    rows: list[tuple[Value, ...]] = [
        (layer.name, users, number + 1, *(value_of(metric, run) for metric in METRICS))
        for users in findings.users
        for layer in findings.layers
        for number, run in findings.rounds(layer, users).items()
    ]
    return Table("Every round", ("layer", "users", "round", *(metric.heading for metric in METRICS)), tuple(rows))


# -- Result ------------------------------------------------------------------------------------------------------------


def plots(findings: Findings) -> Iterator[Plot]:
    names = tuple(layer.name.removeprefix("+ ") for layer in LAYERS)
    by_name = {metric.name: metric for metric in METRICS}
    for name, title in PLOTTED.items():
        lines = tuple(_line(findings, by_name[name], users) for users in findings.users)
        x = "each layer with all previous ones"
        yield Plot(title, x, by_name[name].heading, lines, names=names, markers=True)


def _line(findings: Findings, metric: Metric, users: int) -> Line:
    points = [
        (float(LAYERS.index(layer)), statistics.median(values))
        for layer in findings.layers
        if (values := list(findings.values(metric, layer, users).values()))
    ]
    return Line(_users(users), tuple(points))


def _users(users: int) -> str:
    return "1 user" if users == 1 else f"{users} users"


def result_of(findings: Findings, conditions: dict[str, str]) -> Result:
    tables = (times_table, continuity_table, ratios_table, every_round_table)
    return Result(
        bench="bench.ablation",
        title="Effect of each optimisation",
        headline=headline(findings),
        conditions=conditions,
        tables=tuple(table(findings) for table in tables),
        plots=tuple(plots(findings)),
        notes=(*(_description(layer, findings) for layer in LAYERS), *NOTES),
    )


def _description(layer: Layer, findings: Findings) -> str:
    reason = findings.not_applicable.get(layer.name)
    description = f"{layer.name}: {layer.description}"
    return f"{description}." if reason is None else f"{description}. Not applicable here: {reason}."


def headline(findings: Findings) -> str:
    """All layers divided by the baseline, with the largest number of users."""
    if not findings.users:
        return "No complete measurement."
    first, *_, before_last, last = findings.layers
    users = findings.users[-1]
    ratios = {
        metric.name: ratio
        for metric in METRICS
        if metric.compared and (ratio := findings.ratio(metric, last, first, users)) is not None
    }
    if not ratios:
        return "No complete measurement."
    factors = ", ".join(f"{name} {ratio:.3g}" for name, ratio in ratios.items())
    shares = ", ".join(
        f"{layer.name} {_ok_share(list(findings.rounds(layer, users).values()))}" for layer in (before_last, last)
    )
    return f"All layers divided by the baseline, {_users(users)}: {factors}. Streams in time: {shares}."
