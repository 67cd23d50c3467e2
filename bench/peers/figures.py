"""What the listeners' outcomes add up to: figures of each server, and ours against theirs, round by round.

The rules are those of bench/summary.py, and two more:

- Time to the first sound is of those who heard their text to the end, or still hear it: a stream that began fast and
  then failed is no fast answer.
- Ours against theirs compares the listeners who were served by both, text by text: whoever was refused or failed on
  either side is left out on both, and counted in the table above.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from bench.peers.contest import Cell, Scenario
from bench.results import Table
from bench.summary import Outcome, Percentiles, Status, ms, percent, percentile, percentiles, summarise

Value = Callable[[Outcome], float | None]


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
    """None where nobody is judged: every stream was a single packet."""
    e2e_s: Percentiles
    rtf: float | None
    cpu_per_audio_s: float | None
    first_work_s: float | None
    """None where the text was still being written: then the end waits for the text, too."""


def figures(cells: Sequence[Cell]) -> Figures:
    """Of one server in one scenario, all rounds together."""
    outcomes = [outcome for cell in cells for outcome in cell.outcomes]
    summary = summarise(outcomes)
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
        cpu_per_audio_s=cpu_per_audio_s(cells),
        first_work_s=percentiles(map(first_work_s, outcomes)).p50 if _whole_text(cells[0].scenario) else None,
    )


def _whole_text(scenario: Scenario) -> bool:
    return scenario.tokens_per_s is None


def ttfp_s(outcome: Outcome) -> float | None:
    return None if outcome.status is Status.FAILED else outcome.ttfp_s


def ttfa_s(outcome: Outcome) -> float | None:
    return None if outcome.status is Status.FAILED else outcome.ttfa_s


def e2e_s(outcome: Outcome) -> float | None:
    """From the text, or its first token, to the last packet."""
    return outcome.rtf * outcome.audio_s if outcome.rtf is not None else None


def rtf(outcome: Outcome) -> float | None:
    return outcome.rtf


def first_work_s(outcome: Outcome) -> float | None:
    """How much speech the server could have made, at its own pace, in the time until the first sound.

    It tells how soon a server speaks apart from how heavy its model is: one that makes a whole sentence first comes to
    that sentence's length, whatever the model.
    """
    return outcome.ttfp_s / outcome.rtf if outcome.ttfp_s is not None and outcome.rtf else None


def cpu_per_audio_s(cells: Iterable[Cell]) -> float | None:
    """Also what was computed for those who failed is in it."""
    cells = list(cells)
    audio_s = sum(outcome.audio_s for cell in cells for outcome in cell.outcomes)
    spent = [cell.cpu_s for cell in cells]
    return None if None in spent or not audio_s else sum(value for value in spent if value is not None) / audio_s


# -- Ours against theirs -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Spread:
    """Of a figure's ratio, ours by theirs, over the rounds."""

    low: float
    median: float
    high: float


@dataclass(frozen=True, slots=True)
class Versus:
    """Ours by one other server in one scenario.  Below 1, ours is less: of all of these that is better."""

    peer: str
    scenario: Scenario
    rounds: int
    ratios: dict[str, Spread]
    """By the figure's name; one that no round could give is missing."""
    underrun_p95_s: tuple[float | None, float | None]
    """Ours and theirs: a ratio of nothing to nothing would tell nothing."""


SECONDS: tuple[tuple[str, Value], ...] = (("TTFP", ttfp_s), ("TTFA", ttfa_s), ("E2E", e2e_s), ("RTF", rtf))
WORK: tuple[tuple[str, Value], ...] = (("first work", first_work_s),)
CPU = "CPU"


def versus(cells: Sequence[Cell], ours: str, peer: str, scenario: Scenario, *, same_model: bool) -> Versus:
    mine = {cell.round: cell for cell in cells if (cell.peer, cell.scenario) == (ours, scenario)}
    theirs = {cell.round: cell for cell in cells if (cell.peer, cell.scenario) == (peer, scenario)}
    numbers = sorted(mine.keys() & theirs.keys())
    ratios: dict[str, Spread] = {}
    for name, value in SECONDS if same_model else WORK if _whole_text(scenario) else ():
        _add(ratios, name, [paired_ratio(mine[number].outcomes, theirs[number].outcomes, value) for number in numbers])
    if same_model:
        _add(ratios, CPU, [_divided(*map(cpu_per_audio_s, ([mine[n]], [theirs[n]]))) for n in numbers])
    waits = [summarise([one for n in numbers for one in side[n].outcomes]).underrun_s.p95 for side in (mine, theirs)]
    return Versus(peer, scenario, len(numbers), ratios, (waits[0], waits[1]))


def paired_ratio(ours: Sequence[Outcome], theirs: Sequence[Outcome], value: Value) -> float | None:
    """Of the medians of those who were served by both."""
    pairs = [
        (mine, other)
        for one, two in zip(ours, theirs, strict=True)
        if one.status is Status.OK and two.status is Status.OK
        if (mine := value(one)) is not None and (other := value(two)) is not None
    ]
    if not pairs:
        return None
    return _divided(percentile([mine for mine, _ in pairs], 50), percentile([other for _, other in pairs], 50))


def _divided(ours: float | None, theirs: float | None) -> float | None:
    return None if ours is None or not theirs else ours / theirs


def _add(ratios: dict[str, Spread], name: str, values: Iterable[float | None]) -> None:
    known = [value for value in values if value is not None]
    if known:
        ratios[name] = Spread(min(known), percentile(known, 50) or 0.0, max(known))


# -- Tables ------------------------------------------------------------------------------------------------------------

COLUMNS: tuple[tuple[str, Callable[[Figures], str]], ...] = (
    ("TTFP p50/p95 ms", lambda one: _pair_ms(one.ttfp_s)),
    ("TTFA p50/p95 ms", lambda one: _pair_ms(one.ttfa_s)),
    ("underrun p50/p95 ms", lambda one: _pair_ms(one.underrun_s)),
    ("ok", lambda one: percent(one.ok_share)),
    ("E2E p50 s", lambda one: number(one.e2e_s.p50, 2)),
    ("RTF", lambda one: number(one.rtf, 3)),
    ("CPU s/s", lambda one: number(one.cpu_per_audio_s, 3)),
    ("first work s", lambda one: number(one.first_work_s, 2)),
    ("refused", lambda one: str(one.refused)),
    ("failed", lambda one: str(one.failed)),
    ("unfinished", lambda one: str(one.unfinished)),
    ("of", lambda one: str(one.utterances)),
)


Line = tuple[str, ...]


def rows(table: Mapping[tuple[str, Scenario], Figures]) -> list[Line]:
    """The head, then one row for each server and scenario."""
    lines = [("", *(name for name, _fill in COLUMNS))]
    for (peer, scenario), one in table.items():
        lines.append((f"{scenario.name}: {peer}", *(fill(one) for _name, fill in COLUMNS)))
    return lines


def versus_rows(results: Sequence[Versus]) -> list[Line]:
    names = [*(name for name, _value in SECONDS), CPU, *(name for name, _value in WORK)]
    lines = [("median (least–most)", *names, "underrun p95 ms", "rounds")]
    for one in results:
        ratios = (spread(one.ratios[name]) if name in one.ratios else "-" for name in names)
        underruns = " / ".join(map(ms, one.underrun_p95_s))
        lines.append((f"{one.scenario.name}: {one.peer}", *ratios, underruns, str(one.rounds)))
    return lines


def aligned(table: Table) -> str:
    lines = [table.columns, *(tuple(map(str, row)) for row in table.rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        " | ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]).rstrip() for line in lines
    )


def spread(one: Spread) -> str:
    return f"{one.median:.2f} ({one.low:.2f}–{one.high:.2f})"


def number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _pair_ms(values: Percentiles) -> str:
    return "-" if values.p50 is None else f"{ms(values.p50)}/{ms(values.p95)}"
