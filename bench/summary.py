"""How did the listeners fare?  What became of each request, and the one table that all load tests print.

Pure: the live load test and the simulator both build `Outcome`s with `judge`, and both print `table`.

What counts how:

- Delays count from the *intended* start, so a request that could only be sent late is late.
- A refused request is counted apart: it is no fast answer, and no gap either.
- A failed one is never continuous; neither is one that ended well but brought no audio, which counts as failed.
- A stream of a single packet has no continuity to speak of: it is left out of underruns and of the share.
- A stream that still speaks at the end counts with its deficit so far; one that still waits for its first packet counts
  in TTFP with its wait so far.  To leave them out would show only those who were served well.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from realtime_tts.audio.playout import PlayoutLedger

THRESHOLD_S = 0.1
"""A listener does not mind a shorter gap; the field's target is p95 at or below it."""
TELLING_WAIT_S = 2.0
"""Someone who has waited for a shorter time when the test ends tells nothing about TTFP."""


class Status(StrEnum):
    OK = "ok"
    REFUSED = "refused"
    FAILED = "failed"
    UNFINISHED = "unfinished"


@dataclass(frozen=True, slots=True)
class Packet:
    """`at_s` is when it came, from the start of the run."""

    at_s: float
    duration_s: float


@dataclass(frozen=True, slots=True)
class ServerFigures:
    """What the server said of the same utterance."""

    ttfp_s: float | None
    max_underrun_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one request.  Times in seconds: `intended_s`, `sent_s`, `ended_s` from the start of the run."""

    intended_s: float
    ended_s: float
    status: Status
    reason: str = ""
    """Why it was refused or failed, in plain words."""
    sent_s: float | None = None
    """When the text left the client; None where it never did."""
    ttfp_s: float | None = None
    """From the intended start to the first packet."""
    ttfa_s: float | None = None
    """From the intended start to the first audible sample, as the listener hears it."""
    audio_s: float = 0.0
    packets: int = 0
    underrun_count: int = 0
    max_underrun_s: float = 0.0
    rtf: float | None = None
    """From the intended start to the last packet, a second of audio."""
    retry_after_s: float | None = None
    server: ServerFigures | None = None
    timeline: tuple[Packet, ...] = ()
    text: str = ""

    @property
    def admitted(self) -> bool:
        return self.status is not Status.REFUSED

    @property
    def continuity_ok(self) -> bool | None:
        """None where there is nothing to judge: refused, a single packet, or still waiting for the first."""
        return self.continuous_within(THRESHOLD_S)

    def continuous_within(self, threshold_s: float) -> bool | None:
        if self.status is Status.FAILED:
            return False
        if self.status is Status.REFUSED or self.packets == 0:
            return None
        if self.packets == 1 and self.max_underrun_s <= threshold_s:
            return None  # a single packet, unless more should have followed and has not
        return self.max_underrun_s <= threshold_s


def judge(
    *,
    intended_s: float,
    ended_s: float,
    status: Status,
    timeline: Sequence[Packet] = (),
    reason: str = "",
    sent_s: float | None = None,
    ttfa_s: float | None = None,
    retry_after_s: float | None = None,
    server: ServerFigures | None = None,
    text: str = "",
) -> Outcome:
    """One request by what came of it, measured by `PlayoutLedger`."""
    ledger = PlayoutLedger()
    for packet in timeline:
        ledger.record(arrived_at_s=packet.at_s, duration_s=packet.duration_s)
    report = ledger.report(started_at_s=intended_s)
    if status is Status.OK and not report.packets:
        status, reason = Status.FAILED, "no audio came"
    waiting_s = max(0.0, -ledger.lead_s(ended_s)) if status is Status.UNFINISHED else 0.0
    return Outcome(
        intended_s=intended_s,
        ended_s=ended_s,
        status=status,
        reason=reason,
        sent_s=sent_s,
        ttfp_s=report.ttfp_s,
        ttfa_s=ttfa_s,
        audio_s=report.audio_s,
        packets=report.packets,
        underrun_count=report.underrun_count + (waiting_s > 0),
        # All stalls add up to the greatest deficit, so the one that still goes on adds to it.
        max_underrun_s=report.max_underrun_s + waiting_s,
        rtf=(timeline[-1].at_s - intended_s) / report.audio_s if report.audio_s and status is Status.OK else None,
        retry_after_s=retry_after_s,
        server=server,
        timeline=tuple(timeline),
        text=text,
    )


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Seconds; None where there was nothing to measure."""

    p50: float | None
    p95: float | None
    p99: float | None


@dataclass(frozen=True, slots=True)
class Summary:
    requests: int
    completed: int
    refused: int
    failed: int
    unfinished: int
    waiting: int
    """Of the unfinished, those who had not heard anything yet."""
    underrun_s: Percentiles
    ttfp_s: Percentiles
    ttfa_s: Percentiles
    judged: int
    """Requests that are judged for continuity: what `ok_share` is a share of."""
    ok_share: float | None
    rtf_median: float | None
    mean_speaking: float
    """Listeners who were hearing speech at the same moment, on average over the run.

    A closed loop does not wait until its speech was heard: there it is what the server could have kept speaking.
    """
    audio_s_per_s: float
    """Seconds of audio delivered a second, over the whole run."""
    retry_after_s: Percentiles
    late_s: Percentiles
    """From the intended start to the text being sent: connecting, and the test itself being late."""
    ttfp_difference_s: Percentiles
    """|client - server|, both from the sending of the text."""
    underrun_difference_s: Percentiles

    @property
    def refused_share(self) -> float:
        return self.refused / self.requests if self.requests else 0.0


def percentile(values: Sequence[float], percent: float) -> float | None:
    """Linear between the two nearest ranks; None of nothing."""
    if not values:
        return None
    ordered = sorted(values)
    position = (len(ordered) - 1) * percent / 100
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def percentiles(values: Iterable[float | None]) -> Percentiles:
    known = [value for value in values if value is not None]
    return Percentiles(percentile(known, 50), percentile(known, 95), percentile(known, 99))


def summarise(
    outcomes: Sequence[Outcome],
    *,
    duration_s: float | None = None,
    warm_up_s: float = 0.0,
    threshold_s: float = THRESHOLD_S,
) -> Summary:
    """The figures of the requests that were intended at `warm_up_s` or later.

    `duration_s` is how long requests came, which `mean_speaking` is a mean over; without it, until the last ended.
    """
    counted = [outcome for outcome in outcomes if outcome.intended_s >= warm_up_s]
    verdicts = [ok for outcome in counted if (ok := outcome.continuous_within(threshold_s)) is not None]
    end_s = max((outcome.ended_s for outcome in counted), default=warm_up_s)
    statuses = [outcome.status for outcome in counted]
    spoke = [outcome for outcome in counted if outcome.packets > 0]
    return Summary(
        requests=len(counted),
        completed=statuses.count(Status.OK),
        refused=statuses.count(Status.REFUSED),
        failed=statuses.count(Status.FAILED),
        unfinished=statuses.count(Status.UNFINISHED),
        waiting=sum(outcome.status is Status.UNFINISHED and not outcome.packets for outcome in counted),
        underrun_s=percentiles(
            outcome.max_underrun_s for outcome in spoke if outcome.continuous_within(threshold_s) is not None
        ),
        ttfp_s=percentiles(_wait_s(outcome) for outcome in counted),
        ttfa_s=percentiles(outcome.ttfa_s for outcome in spoke),
        judged=len(verdicts),
        ok_share=sum(verdicts) / len(verdicts) if verdicts else None,
        rtf_median=percentiles(outcome.rtf for outcome in counted).p50,
        # From all, also those before the warm-up ended: they still speak while it is counted.
        mean_speaking=_mean_speaking(outcomes, warm_up_s, end_s if duration_s is None else duration_s),
        audio_s_per_s=sum(outcome.audio_s for outcome in counted) / (end_s - warm_up_s) if end_s > warm_up_s else 0.0,
        retry_after_s=percentiles(outcome.retry_after_s for outcome in counted),
        late_s=percentiles(
            None if outcome.sent_s is None else outcome.sent_s - outcome.intended_s for outcome in counted
        ),
        ttfp_difference_s=percentiles(_ttfp_difference_s(outcome) for outcome in counted),
        underrun_difference_s=percentiles(
            abs(outcome.max_underrun_s - outcome.server.max_underrun_s) for outcome in counted if outcome.server
        ),
    )


def _wait_s(outcome: Outcome) -> float | None:
    if outcome.ttfp_s is not None or outcome.status is not Status.UNFINISHED:
        return outcome.ttfp_s
    waited_s = outcome.ended_s - outcome.intended_s
    return waited_s if waited_s >= TELLING_WAIT_S else None


def _ttfp_difference_s(outcome: Outcome) -> float | None:
    server = outcome.server
    if server is None or server.ttfp_s is None or outcome.ttfp_s is None or outcome.sent_s is None:
        return None
    return abs(outcome.intended_s + outcome.ttfp_s - outcome.sent_s - server.ttfp_s)


def _mean_speaking(outcomes: Iterable[Outcome], from_s: float, to_s: float) -> float:
    if to_s <= from_s:
        return 0.0
    speaking_s = 0.0
    for outcome in outcomes:
        if outcome.ttfp_s is not None:
            began_s = outcome.intended_s + outcome.ttfp_s
            # The last of it is heard once all audio and all stalls are over.
            over_s = began_s + outcome.audio_s + outcome.max_underrun_s
            speaking_s += max(0.0, min(over_s, to_s) - max(began_s, from_s))
    return speaking_s / (to_s - from_s)


# -- The table ---------------------------------------------------------------------------------------------------------

COLUMNS: tuple[tuple[str, Callable[[Summary], str]], ...] = (
    ("underrun p50/p95/p99 ms", lambda summary: _triple_ms(summary.underrun_s)),
    ("TTFP p50/p95/p99 ms", lambda summary: _triple_ms(summary.ttfp_s)),
    ("ok", lambda summary: percent(summary.ok_share)),
    ("RTF", lambda summary: "-" if summary.rtf_median is None else f"{summary.rtf_median:.3f}"),
    ("refused", lambda summary: f"{summary.refused} ({percent(summary.refused_share)})"),
    ("failed", lambda summary: str(summary.failed)),
    ("unfinished", lambda summary: str(summary.unfinished)),
    ("speaking", lambda summary: f"{summary.mean_speaking:.1f}"),
    ("requests", lambda summary: str(summary.requests)),
)
"""Each column's head and how to fill it."""


def cells(summary: Summary) -> list[str]:
    return [fill(summary) for _head, fill in COLUMNS]


def table(rows: Sequence[tuple[str, Summary]]) -> str:
    """Rows of (what it was, its figures) as text, aligned, with a head."""
    lines = [["", *(head for head, _fill in COLUMNS)], *([label, *cells(summary)] for label, summary in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        " | ".join(
            [line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))]
        )
        for line in lines
    )


def ms(seconds: float | None) -> str:
    """Whole milliseconds; tenths below 10, where they matter."""
    if seconds is None:
        return "-"
    milliseconds = seconds * 1000
    return f"{milliseconds:.1f}" if 0 < round(milliseconds, 1) < 10 else f"{milliseconds:.0f}"


def _triple_ms(values: Percentiles) -> str:
    return "/".join(ms(value) for value in (values.p50, values.p95, values.p99))


def percent(share: float | None) -> str:
    if share is None:
        return "-"
    # Never rounded up to a promise that was not kept: 99.96% is not 100%.
    return f"{math.floor(share * 1000 + 1e-9) / 10:g}%"
