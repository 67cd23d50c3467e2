"""Figures of the comparison: those of each server, and ratios of ours to theirs, round by round.

The rules are those of bench/summary.py, and two more:

- Times to first audio exclude failed requests: a stream that starts early and then fails does not count as fast.
- Ratios compare the listeners who were served by both servers, text by text: a request that was refused or failed at
  one server is excluded for both, and counted in the table of figures.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from bench.peers.comparison import Measurement, Scenario
from bench.results import Table
from bench.summary import Outcome, Percentiles, Status, ms, percent, percentile, percentiles, summarise
from bench.tables import format_spread

OutcomeValue = Callable[[Outcome], float | None]


@dataclass(frozen=True, slots=True)
class Figures:
    utterances: int
    refused: int
    failed: int
    unfinished: int
    ttfp_s: Percentiles
    ttfa_s: Percentiles
    underrun_s: Percentiles
    ok_share: float | None
    """None if no stream has more than one packet."""
    e2e_s: Percentiles
    rtf: float | None
    cpu_per_audio_s: float | None
    first_work_s: float | None
    """None if the text was written token by token: then the end waits for the text, too."""


def figures(measurements: Sequence[Measurement]) -> Figures:
    """Of one server in one scenario, all rounds together."""
    outcomes = [outcome for measurement in measurements for outcome in measurement.outcomes]
    summary = summarise(outcomes)
    whole_text = measurements[0].scenario.tokens_per_s is None
    return Figures(
        utterances=summary.requests,
        refused=summary.refused,
        failed=summary.failed,
        unfinished=summary.unfinished,
        ttfp_s=percentiles(map(ttfp_s, outcomes)),
        ttfa_s=percentiles(map(ttfa_s, outcomes)),
        underrun_s=summary.underrun_s,
        ok_share=summary.ok_share,
        e2e_s=percentiles(map(e2e_s, outcomes)),
        rtf=summary.rtf_median,
        cpu_per_audio_s=cpu_per_audio_s(measurements),
        first_work_s=percentiles(map(first_work_s, outcomes)).p50 if whole_text else None,
    )


def ttfp_s(outcome: Outcome) -> float | None:
    return None if outcome.status is Status.FAILED else outcome.ttfp_s


def ttfa_s(outcome: Outcome) -> float | None:
    return None if outcome.status is Status.FAILED else outcome.ttfa_s


def e2e_s(outcome: Outcome) -> float | None:
    """From the text, or its first token, to the last packet."""
    return outcome.rtf * outcome.audio_s if outcome.rtf is not None else None


def first_work_s(outcome: Outcome) -> float | None:
    """Seconds of audio that the server could have made, at its own speed, in the time to its first packet.

    It measures the delay independently of the cost of the model: for a server that makes whole sentences it is the
    length of the sentence, whatever the model.
    """
    return outcome.ttfp_s / outcome.rtf if outcome.ttfp_s is not None and outcome.rtf else None


def cpu_per_audio_s(measurements: Iterable[Measurement]) -> float | None:
    """Includes the CPU time of failed requests."""
    measurements = list(measurements)
    audio_s = sum(outcome.audio_s for measurement in measurements for outcome in measurement.outcomes)
    spent_s = [measurement.cpu_s for measurement in measurements if measurement.cpu_s is not None]
    return sum(spent_s) / audio_s if audio_s and len(spent_s) == len(measurements) else None


# -- Ratios ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ratios:
    """Ours divided by one other server in one scenario.  Below 1 ours is lower, which is better for all of these."""

    peer: str
    scenario: Scenario
    rounds: int
    by_figure: dict[str, list[float]]
    """The ratio of each round, by the name of the figure."""
    underrun_p95_s: tuple[float | None, float | None]
    """Ours and theirs: the ratio of two zeros has no meaning."""


SECONDS: dict[str, OutcomeValue] = {
    "TTFP": ttfp_s,
    "TTFA": ttfa_s,
    "E2E": e2e_s,
    "RTF": lambda outcome: outcome.rtf,
}
WORK: dict[str, OutcomeValue] = {"work before first audio": first_work_s}
CPU = "CPU"
RATIOS = (*SECONDS, CPU, *WORK)


def ratios(
    measurements: Sequence[Measurement], ours: str, peer: str, scenario: Scenario, *, same_model: bool
) -> Ratios:
    mine = {one.round: one for one in measurements if (one.peer, one.scenario) == (ours, scenario)}
    theirs = {one.round: one for one in measurements if (one.peer, one.scenario) == (peer, scenario)}
    pairs = [(mine[number], theirs[number]) for number in sorted(mine.keys() & theirs.keys())]
    compared = SECONDS if same_model else WORK if scenario.tokens_per_s is None else {}
    by_figure = {
        name: [paired_ratio(our.outcomes, their.outcomes, value) for our, their in pairs]
        for name, value in compared.items()
    }
    if same_model:
        by_figure[CPU] = [_quotient(cpu_per_audio_s([our]), cpu_per_audio_s([their])) for our, their in pairs]
    known = {name: [value for value in values if value is not None] for name, values in by_figure.items()}
    our_p95_s, their_p95_s = (
        summarise([outcome for measurement in side for outcome in measurement.outcomes]).underrun_s.p95
        for side in ([our for our, _their in pairs], [their for _our, their in pairs])
    )
    return Ratios(
        peer, scenario, len(pairs), {name: values for name, values in known.items() if values}, (our_p95_s, their_p95_s)
    )


def paired_ratio(ours: Sequence[Outcome], theirs: Sequence[Outcome], value: OutcomeValue) -> float | None:
    """The ratio of the medians of those who were served by both."""
    pairs = [
        (mine, other)
        for one, two in zip(ours, theirs, strict=True)
        if one.status is Status.OK and two.status is Status.OK
        if (mine := value(one)) is not None and (other := value(two)) is not None
    ]
    return _quotient(percentile([mine for mine, _ in pairs], 50), percentile([other for _, other in pairs], 50))


def _quotient(ours: float | None, theirs: float | None) -> float | None:
    return None if ours is None or not theirs else ours / theirs


# -- Tables ------------------------------------------------------------------------------------------------------------

COLUMNS: dict[str, Callable[[Figures], str]] = {
    "TTFP p50/p95 ms": lambda one: _pair_ms(one.ttfp_s),
    "TTFA p50/p95 ms": lambda one: _pair_ms(one.ttfa_s),
    "underrun p50/p95 ms": lambda one: _pair_ms(one.underrun_s),
    "ok": lambda one: percent(one.ok_share),
    "E2E p50 s": lambda one: _number(one.e2e_s.p50, 2),
    "RTF": lambda one: _number(one.rtf, 3),
    "CPU s/s": lambda one: _number(one.cpu_per_audio_s, 3),
    "work before first audio, s": lambda one: _number(one.first_work_s, 2),
    "refused": lambda one: str(one.refused),
    "failed": lambda one: str(one.failed),
    "unfinished": lambda one: str(one.unfinished),
    "of": lambda one: str(one.utterances),
}


def figures_table(found: Mapping[tuple[str, Scenario], Figures]) -> Table:
    rows = tuple(
        (f"{scenario.name}: {peer}", *(text(one) for text in COLUMNS.values()))
        for (peer, scenario), one in found.items()
    )
    return Table("Figures of each server", ("", *COLUMNS), rows)


def ratios_table(found: Sequence[Ratios]) -> Table:
    rows = tuple(
        (
            f"{one.scenario.name}: {one.peer}",
            *(format_spread(one.by_figure.get(name, []), 2) for name in RATIOS),
            " / ".join(map(ms, one.underrun_p95_s)),
            str(one.rounds),
        )
        for one in found
    )
    return Table("Ours divided by theirs", ("median (range)", *RATIOS, "underrun p95 ms", "rounds"), rows)


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _pair_ms(values: Percentiles) -> str:
    return "-" if values.p50 is None else f"{ms(values.p50)}/{ms(values.p95)}"
