"""A page of what the benches have found: one HTML file with its plots inside, which needs nothing else.

    python -m bench.report a.json b.json --output report.html

Takes what any bench has written by --json.  Load runs of one bench are compared with each other.
"""

import argparse
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import pairwise
from pathlib import Path

from bench import plot, result_page, results
from bench.page import document, facts, figure
from bench.plot import Axis, Point, Series
from bench.results import Result, Run
from bench.summary import COLUMNS, Outcome, Packet, Summary, cells, ms, percentile

LEAD_STEP_S = 0.1


@dataclass(frozen=True, slots=True)
class Part:
    """What one bench has found, as it stands in the page."""

    title: str
    headline: str
    body: str


def page(found: Sequence[Run | Result]) -> str:
    """The whole page: of one bench, or of several below a list of them."""
    if not found:
        raise ValueError("there is no run to report on")
    common = shared([each.conditions for each in found]) if len(found) > 1 else {}
    parts = list(_parts(found, common))
    if len(parts) == 1:
        (part,) = parts
        return document(
            part.title,
            f'<h1>{escape(part.title)}</h1>\n<p class="sub">{escape(part.headline)}</p>\n{part.body}{_same(common)}',
        )
    contents = "".join(
        f'<a class="card" href="#part-{number}"><b>{escape(part.title)}</b><p>{escape(part.headline)}</p></a>'
        for number, part in enumerate(parts)
    )
    sections = "\n".join(
        f'<section class="part" id="part-{number}"><h2>{escape(part.title)}</h2>'
        f'<p class="sub">{escape(part.headline)}</p>\n{part.body}</section>'
        for number, part in enumerate(parts)
    )
    return document(
        "What the benches have found",
        f'<h1>What the benches have found</h1>\n<p class="sub">{len(parts)} questions, and what was measured. Each part'
        f" names the command that measures it again.</p>\n"
        f'<nav class="tiles contents">{contents}</nav>{_same(common)}\n{sections}',
    )


def shared(conditions: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Those that are the same in all."""
    first, *others = conditions
    return {name: value for name, value in first.items() if all(other.get(name) == value for other in others)}


def _same(common: Mapping[str, str]) -> str:
    return f'<section class="card wide"><h2>Where all was measured</h2>{facts(common)}</section>' if common else ""


def _parts(found: Sequence[Run | Result], common: Mapping[str, str]) -> Iterator[Part]:
    """A part for each result, and one for all runs of a bench, in the order in which they came."""
    by_bench: dict[str, list[Run]] = {}
    for each in found:
        if isinstance(each, Run):
            by_bench.setdefault(_bench_of(each), []).append(each)
    for each in found:
        if isinstance(each, Result):
            left = {name: value for name, value in each.conditions.items() if name not in common}
            yield Part(each.title, each.headline, result_page.body(each, left))
        elif runs := by_bench.pop(_bench_of(each), None):
            bench = _bench_of(each)
            title = "Did any listener run dry?"
            yield _runs_part(title if not bench or len(found) == len(runs) else f"{title} ({bench})", runs, common)


def _bench_of(run: Run) -> str:
    """The module that has measured it, as its command says; empty where that is none."""
    _python, _m, module, *_arguments = [*run.conditions.get("command", "").split(), "", "", ""]
    return module


def _runs_part(title: str, runs: Sequence[Run], common: Mapping[str, str]) -> Part:
    summaries = [run.summary() for run in runs]
    plots = [_underrun_plot(runs), _ttfp_plot(runs)]
    for number, run in enumerate(runs):
        name = f" · {run.label}" if len(runs) > 1 else ""
        plots += [_lead_plot(run, number, name), _timeline_plot(run, number, name)]
    tiles = _tiles(runs[0], summaries[0]) if len(runs) == 1 else ""
    both = shared([run.conditions for run in runs]) if len(runs) > 1 else {}
    of_all = {name: value for name, value in both.items() if name not in common}
    all_of_them = f'<section class="card wide"><h2>How all of them were measured</h2>{facts(of_all)}</section>'
    return Part(
        title,
        _headline(runs, summaries),
        f"""{tiles}
<section class="card wide load">{_table(runs, summaries)}</section>
<div class="plots">
{"".join(plots)}
</div>
{all_of_them if of_all else ""}
{"".join(_conditions(run, summary, {**common, **both}) for run, summary in zip(runs, summaries, strict=True))}""",
    )


# -- Words and numbers -------------------------------------------------------------------------------------------------


def _headline(runs: Sequence[Run], summaries: Sequence[Summary]) -> str:
    if len(runs) > 1:
        return f"{len(runs)} runs compared"
    run, summary = runs[0], summaries[0]
    return f"{run.label}: {summary.requests} requests, {summary.audio_s_per_s:.1f} seconds of speech a second"


def _tiles(run: Run, summary: Summary) -> str:
    p95_s, share = summary.underrun_s.p95, summary.ok_share
    gapless = "-" if share is None else cells(summary)[[head for head, _fill in COLUMNS].index("ok")]
    kept = p95_s is not None and p95_s <= run.threshold_s
    shown = [
        ("good" if kept else "bad", f"{ms(p95_s)} ms", "underrun, 95th percentile"),
        ("", gapless, f"heard no gap above {ms(run.threshold_s)} ms"),
        ("", f"{ms(summary.ttfp_s.p50)} ms", "to the first packet, median"),
        ("", f"{ms(summary.ttfp_s.p95)} ms", "to the first packet, 95th percentile"),
        ("", str(summary.refused), f"refused, of {summary.requests}"),
        ("bad" if summary.failed else "", str(summary.failed), "failed"),
    ]
    return (
        '<div class="tiles">'
        + "".join(
            f'<div class="card {kind}"><b>{escape(value)}</b><p>{escape(name)}</p></div>' for kind, value, name in shown
        )
        + "</div>"
    )


def _table(runs: Sequence[Run], summaries: Sequence[Summary]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in ("run", *(head for head, _fill in COLUMNS)))
    rows = (
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in (run.label, *cells(summary))) + "</tr>"
        for run, summary in zip(runs, summaries, strict=True)
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _conditions(run: Run, summary: Summary, common: Mapping[str, str]) -> str:
    ttfp, underrun = summary.ttfp_difference_s, summary.underrun_difference_s
    agreement = {
        "client and server differ by": f"TTFP p50 {ms(ttfp.p50)} ms, p99 {ms(ttfp.p99)} ms;"
        f" underrun p50 {ms(underrun.p50)} ms, p99 {ms(underrun.p99)} ms"
    }
    told = agreement if ttfp.p50 is not None else {}
    left = {name: value for name, value in run.conditions.items() if name not in common}
    if not (told | left):
        return ""
    return f'<section class="card wide"><h2>How {escape(run.label)} was measured</h2>{facts(told | left)}</section>'


# -- Plots -------------------------------------------------------------------------------------------------------------


def _card(title: str, words: str, drawing: str, series: Sequence[Series] = ()) -> str:
    return figure(title, words, drawing, plot.legend(series) if len(series) > 1 else "")


def _percent_axis() -> Axis:
    return Axis("", 0.0, 1.0, text=lambda value: f"{value * 100:.0f}%")


def _delay_axis(label: str, values_ms: Sequence[float], low_ms: float, high_ms: float) -> Axis:
    axis = plot.log_axis(label, values_ms, low=low_ms, high=high_ms)
    return replace(axis, text=lambda value: f"{value:g} ms" if value < 1000 else f"{value / 1000:g} s")


def _underrun_plot(runs: Sequence[Run]) -> str:
    # On a logarithmic axis, 1 ms stands also for all that is less.
    series = [
        Series(run.label, plot.cdf([max(1.0, value_s * 1000) for value_s in _underruns_s(run)]), number)
        for number, run in enumerate(runs)
    ]
    x = _delay_axis("longest wait in mid-speech; at 1 ms: that or less", _x_values(series), 1, 1000)
    threshold_ms = runs[0].threshold_s * 1000
    marks = [(threshold_ms, f"{threshold_ms:g} ms")] if x.low < threshold_ms < x.high else []
    drawing = plot.chart("Underrun, cumulative", x, _percent_axis(), _to_the_end(series, x), marks=marks, steps=True)
    return _card("Underrun", "Share of streams whose listener never had to wait longer than this.", drawing, series)


def _ttfp_plot(runs: Sequence[Run]) -> str:
    series = []
    for number, run in enumerate(runs):
        name = f"{run.label}, " if len(runs) > 1 else ""
        packets = [outcome.ttfp_s * 1000 for outcome in run.counted if outcome.ttfp_s is not None]
        sounds = [outcome.ttfa_s * 1000 for outcome in run.counted if outcome.ttfa_s is not None]
        series.append(Series(f"{name}first packet", plot.cdf(packets), number))
        series.append(Series(f"{name}first audible sound", plot.cdf(sounds), number, dashed=True))
    x = _delay_axis("from when the request was meant to come", _x_values(series), 1, 10)
    drawing = plot.chart("TTFP, cumulative", x, _percent_axis(), _to_the_end(series, x), steps=True)
    return _card(
        "Time to first sound", "Share of those who heard anything that heard it within this time.", drawing, series
    )


def _x_values(series: Iterable[Series]) -> list[float]:
    return [x for one in series for x, _y in one.points]


def _to_the_end(series: Iterable[Series], x: Axis) -> list[Series]:
    """Distributions that go on, at 100%, to the end of the axis."""
    return [replace(one, points=[*one.points, (x.high, 1.0)]) for one in series if one.points]


def _seconds(value: float) -> str:
    return f"{value:g} s"


def _lead_plot(run: Run, number: int, name: str) -> str:
    leads = lead_over_time([outcome.timeline for outcome in run.outcomes])
    series = [
        Series("median", [(at_s, p50) for at_s, _p05, p50 in leads], number),
        Series("5% hold less than", [(at_s, p05) for at_s, p05, _p50 in leads], number, dashed=True),
    ]
    values = [value for _at, p05, p50 in leads for value in (p05, p50)]
    x = plot.line_axis("seconds from the start", [at_s for at_s, *_leads in leads], low=0.0)
    y = plot.line_axis("", values, low=0.0, text=_seconds)
    drawing = plot.chart("Lead over time", x, y, series, floor=0.0 if y.low < 0 else None)
    words = "Seconds of sound that the listeners of all streams under way still hold; below 0 they wait."
    return _card(f"Lead over time{name}", words, drawing, series)


def _timeline_plot(run: Run, number: int, name: str) -> str:
    spoken = [outcome for outcome in run.counted if len(outcome.timeline) > 1]
    if not spoken:
        return _card(f"One stream{name}", "No stream had more than one packet.", "")
    worst = max(spoken, key=lambda outcome: closest_call_s(outcome.timeline))
    came, heard, waits = timeline(worst)
    series = [Series("has come", came, number), Series("is heard", heard, number, dashed=True)]
    x = plot.line_axis("seconds from when the request was meant to come", [heard[-1][0], 0.0])
    y = plot.line_axis("", [came[-1][1], 0.0], text=_seconds)
    drawing = plot.chart("Timeline of one stream", x, y, series, bands=waits)
    call_s = closest_call_s(worst.timeline)
    verdict = f"ran dry for {ms(call_s)} ms at worst" if call_s > 0 else f"never had less than {ms(-call_s)} ms in hand"
    words = f"The closest call of all: seconds of sound that came and were heard. Its listener {verdict}."
    return _card(f"One stream{name}", words, drawing, series)


# -- What the plots show -----------------------------------------------------------------------------------------------


def _underruns_s(run: Run) -> list[float]:
    return [o.max_underrun_s for o in run.counted if o.packets and o.continuous_within(run.threshold_s) is not None]


def lead_over_time(timelines: Iterable[Sequence[Packet]]) -> list[tuple[float, float, float]]:
    """(seconds, p05, p50) of the leads of all streams that are under way: from the first packet to the last.

    Afterwards there is nothing to run dry of; what is left then is just heard to its end.
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


def closest_call_s(packets: Sequence[Packet]) -> float:
    """The longest wait for a packet; where none was waited for, the least that was in hand when one came, negative."""
    playout_end_s = packets[0].at_s
    calls_s = []
    for packet in packets:
        calls_s.append(packet.at_s - playout_end_s)
        playout_end_s = max(playout_end_s, packet.at_s) + packet.duration_s
    return max(calls_s[1:])


def timeline(outcome: Outcome) -> tuple[list[Point], list[Point], list[Point]]:
    """What came and what was heard, as (seconds from the intended start, seconds of sound); and each wait's ends."""
    came: list[Point] = []
    heard: list[Point] = []
    waits: list[Point] = []
    total_s = 0.0
    playout_end_s = outcome.timeline[0].at_s - outcome.intended_s
    for packet in outcome.timeline:
        at_s = packet.at_s - outcome.intended_s
        if at_s > playout_end_s:
            waits.append((playout_end_s, at_s))
        heard.append((max(playout_end_s, at_s), total_s))
        came += [(at_s, total_s), (at_s, total_s + packet.duration_s)]
        total_s += packet.duration_s
        playout_end_s = max(playout_end_s, at_s) + packet.duration_s
        heard.append((playout_end_s, total_s))
    return came, heard, waits


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.report", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", type=Path, help="files that benches have written by --json")
    parser.add_argument("--output", type=Path, default=Path("report.html"), help="default: %(default)s")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    args = parse(arguments)
    try:
        found = [each for path in args.files for each in results.loads_any(path.read_bytes())]
        args.output.write_text(page(found), encoding="utf-8")
    except (OSError, ValueError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
