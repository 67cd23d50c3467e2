"""Request outcomes of a load and their summary: continuity, delays, refusals and failures.

Pure: the live load test and the simulator both build an `Outcome` with `judge` and print `COLUMNS`.

Rules:

- Delays count from the *intended* start, so a request that was sent late counts as late.
- A refused request is counted separately: it is neither a fast response nor a gap.
- A failed request is never continuous.  One that completed without audio counts as failed.
- A stream of a single packet has no continuity: it is excluded from underruns and from the share.
- An unfinished stream counts with its deficit so far.  An unfinished request without a first packet counts in TTFP with
  its wait so far.  Without this, the figures would contain only the requests that were served well.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from realtime_tts.audio.playout import PlayoutLedger

THRESHOLD_S = 0.1
"""Listeners do not notice a shorter gap; the usual target is p95 at or below it."""
MIN_UNFINISHED_WAIT_S = 2.0
"""A shorter wait that the end of the test interrupts says nothing about TTFP."""


class Status(StrEnum):
    OK = "ok"
    REFUSED = "refused"
    FAILED = "failed"
    UNFINISHED = "unfinished"


@dataclass(frozen=True, slots=True)
class Packet:
    """`at_s` is its arrival, from the start of the run."""

    at_s: float
    duration_s: float


@dataclass(frozen=True, slots=True)
class ServerFigures:
    """The server's own figures of the same utterance."""

    ttfp_s: float | None
    max_underrun_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of one request.  Times in seconds: `intended_s`, `sent_s`, `ended_s` from the start of the run."""

    intended_s: float
    ended_s: float
    status: Status
    reason: str = ""
    """Why it was refused or failed."""
    sent_s: float | None = None
    """When the client sent the text; None where it did not."""
    ttfp_s: float | None = None
    """From the intended start to the first packet."""
    ttfa_s: float | None = None
    """From the intended start to the playback of the first audible sample."""
    audio_s: float = 0.0
    packets: int = 0
    underrun_count: int = 0
    max_underrun_s: float = 0.0
    rtf: float | None = None
    """From the intended start to the last packet, per second of audio."""
    retry_after_s: float | None = None
    server: ServerFigures | None = None
    timeline: tuple[Packet, ...] = ()
    text: str = ""

    @property
    def continuity_ok(self) -> bool | None:
        """None where it cannot be judged: refused, a single packet, or no packet yet."""
        return self.continuous_within(THRESHOLD_S)

    def continuous_within(self, threshold_s: float) -> bool | None:
        if self.status is Status.FAILED:
            return False
        if self.status is Status.REFUSED or self.packets == 0:
            return None
        if self.packets == 1 and self.max_underrun_s <= threshold_s:
            return None  # a single packet, and no overdue one
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
    """The outcome of a request, measured with `PlayoutLedger`."""
    ledger = PlayoutLedger()
    for packet in timeline:
        ledger.record(arrived_at_s=packet.at_s, duration_s=packet.duration_s)
    report = ledger.report(started_at_s=intended_s)
    if status is Status.OK and not report.packets:
        status, reason = Status.FAILED, "no audio received"
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
        # All stalls add up to the largest deficit, so the present one adds to it.
        max_underrun_s=report.max_underrun_s + waiting_s,
        rtf=(timeline[-1].at_s - intended_s) / report.audio_s if report.audio_s and status is Status.OK else None,
        retry_after_s=retry_after_s,
        server=server,
        timeline=tuple(timeline),
        text=text,
    )


@dataclass(frozen=True, slots=True)
class Percentiles:
    """In seconds; None without a value."""

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
    """Unfinished requests without any audio."""
    underrun_s: Percentiles
    ttfp_s: Percentiles
    ttfa_s: Percentiles
    judged: int
    """Requests with a continuity verdict: the base of `ok_share`."""
    ok_share: float | None
    rtf_median: float | None
    mean_speaking: float
    """Concurrent playbacks, on average over the run.

    A closed loop does not wait for the end of playback: there it is how many streams the server could have sustained.
    """
    audio_s_per_s: float
    """Seconds of audio delivered per second, over the whole run."""
    retry_after_s: Percentiles
    late_s: Percentiles
    """From the intended start to the sending of the text: connecting, and delays of the test itself."""
    ttfp_difference_s: Percentiles
    """|client - server|, both from the sending of the text."""
    underrun_difference_s: Percentiles

    @property
    def refused_share(self) -> float:
        return self.refused / self.requests if self.requests else 0.0


def percentile(values: Sequence[float], percent: float) -> float | None:
    """Linear between the two nearest ranks; None without values."""
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
    """The figures of the requests with an intended start at `warm_up_s` or later.

    `mean_speaking` is a mean over `duration_s`, how long requests arrived; by default until the last one ended.
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
        # Of all requests: those of the warm-up may still play after it.
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
    return waited_s if waited_s >= MIN_UNFINISHED_WAIT_S else None


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
            start_s = outcome.intended_s + outcome.ttfp_s
            # Playback ends after all audio and all stalls.
            playback_end_s = start_s + outcome.audio_s + outcome.max_underrun_s
            speaking_s += max(0.0, min(playback_end_s, to_s) - max(start_s, from_s))
    return speaking_s / (to_s - from_s)


# -- Columns -----------------------------------------------------------------------------------------------------------

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
"""The heading of each column, and the function of its values."""


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
    # Rounded down: 99.96% must not become 100%.
    return f"{math.floor(share * 1000 + 1e-9) / 10:g}%"
