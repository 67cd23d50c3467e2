"""A page that shows how the listeners fared: one HTML file with its plots inside, which needs nothing else.

    python -m bench.report a.json b.json --output report.html

compares runs that `bench.load --json` has written.
"""

import argparse
import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from html import escape
from itertools import pairwise
from pathlib import Path

from bench import plot, results
from bench.plot import Axis, Point, Series
from bench.results import Run
from bench.summary import COLUMNS, Outcome, Packet, Summary, cells, ms, percentile

LEAD_STEP_S = 0.1

STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; color: #1b1f24; background: #f6f7f9;
  margin: 0; }
main { max-width: 1200px; margin: 0 auto; padding: 32px 24px 48px; }
h1 { font-size: 26px; line-height: 1.25; margin: 0 0 4px; letter-spacing: -0.01em; }
h2 { font-size: 16px; margin: 0 0 2px; }
p { margin: 0; }
.sub, .card p, figcaption { color: #6a737d; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; margin: 22px 0 12px; }
.card { background: #fff; border: 1px solid #e1e4e8; border-radius: 10px; padding: 16px 18px; }
.tiles .card { padding: 12px 16px; }
.tiles b { display: block; font-size: 24px; line-height: 1.3; font-weight: 650; color: #1b1f24; }
.bad b { color: #c92a2a; }
.good b { color: #2b8a3e; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(440px, 1fr)); gap: 12px; margin: 12px 0; }
.plots p { font-size: 13.5px; }
svg { width: 100%; height: auto; display: block; margin-top: 8px; }
svg text { font: 11.5px system-ui, sans-serif; font-variant-numeric: tabular-nums; }
.legend { margin-top: 4px; font-size: 13px; }
.key { margin-right: 16px; white-space: nowrap; }
.key i { display: inline-block; width: 20px; margin-right: 6px; vertical-align: middle; }
.wide { overflow-x: auto; margin: 12px 0; }
h1 + .sub + .wide { margin-top: 22px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: 13.5px; }
th, td { text-align: right; padding: 6px 8px; border-bottom: 1px solid #e6e8eb; white-space: nowrap; }
th { font-weight: 600; color: #6a737d; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
th:last-child, td:last-child { padding-right: 0; }
tr:last-child td { border-bottom: 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 18px; margin: 8px 0 0; font-size: 13.5px; }
dt { color: #6a737d; }
dd { margin: 0; overflow-wrap: anywhere; }
"""


def page(runs: Sequence[Run]) -> str:
    """The whole page, for one run or several that are compared."""
    if not runs:
        raise ValueError("there is no run to report on")
    summaries = [run.summary() for run in runs]
    plots = [_underrun_plot(runs), _ttfp_plot(runs)]
    for number, run in enumerate(runs):
        name = f" · {run.label}" if len(runs) > 1 else ""
        plots += [_lead_plot(run, number, name), _timeline_plot(run, number, name)]
    tiles = _tiles(runs[0], summaries[0]) if len(runs) == 1 else ""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Continuity under load: {escape(", ".join(run.label for run in runs))}</title>
<style>{STYLE}</style>
</head>
<body>
<main>
<h1>Did any listener run dry?</h1>
<p class="sub">{escape(_headline(runs, summaries))}</p>
{tiles}
<section class="card wide">{_table(runs, summaries)}</section>
<div class="plots">
{"".join(plots)}
</div>
{"".join(_conditions(run, summary) for run, summary in zip(runs, summaries, strict=True))}
</main>
</body>
</html>
"""


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


def _conditions(run: Run, summary: Summary) -> str:
    ttfp, underrun = summary.ttfp_difference_s, summary.underrun_difference_s
    agreement = {
        "client and server differ by": f"TTFP p50 {ms(ttfp.p50)} ms, p99 {ms(ttfp.p99)} ms;"
        f" underrun p50 {ms(underrun.p50)} ms, p99 {ms(underrun.p99)} ms"
    }
    told = agreement if ttfp.p50 is not None else {}
    facts = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in (told | run.conditions).items()
    )
    return f'<section class="card wide"><h2>How {escape(run.label)} was measured</h2><dl>{facts}</dl></section>'


# -- Plots -------------------------------------------------------------------------------------------------------------


def _card(title: str, words: str, drawing: str, series: Sequence[Series] = ()) -> str:
    keys = plot.legend(series) if len(series) > 1 else ""
    return (
        f'<figure class="card" style="margin:0"><h2>{escape(title)}</h2><p>{escape(words)}</p>{keys}{drawing}</figure>'
    )


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
    parser.add_argument("runs", nargs="+", type=Path, help="files that bench.load --json has written")
    parser.add_argument("--output", type=Path, default=Path("report.html"), help="default: %(default)s")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    args = parse(arguments)
    try:
        runs = [results.loads(path.read_bytes()) for path in args.runs]
        args.output.write_text(page(runs), encoding="utf-8")
    except (OSError, ValueError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
