"""Playout ledger: when a listener runs out of audio, and for how long.  The one definition of underrun."""

from dataclasses import dataclass
from math import inf


@dataclass(frozen=True, slots=True)
class ContinuityReport:
    """Continuity of one listener's playback, in seconds."""

    ttfp_s: float | None
    """From `started_at_s` to the first packet; None without it, or without a packet."""
    audio_s: float
    packets: int
    underrun_count: int
    underrun_total_s: float
    max_stall_s: float
    """The longest single stall."""
    max_underrun_s: float
    """The smallest extra start delay that would have made playback gapless: the figure that other servers publish."""
    text_starvation_s: float

    def continuity_ok(self, threshold_s: float = 0.1) -> bool | None:
        """Whether `max_underrun_s` is within the threshold; None for a single packet, False without any packet."""
        if self.packets == 0:
            return False
        return None if self.packets == 1 else self.max_underrun_s <= threshold_s


RESOLUTION_S = 1e-9
"""Shorter stalls are rounding errors: playout is a sum of many floats."""


class PlayoutClock:
    """When a listener runs out of audio that it plays on arrival: P <- max(P, t) + d for each packet."""

    __slots__ = ("end_s",)

    def __init__(self) -> None:
        self.end_s: float | None = None
        """P; None before the first packet."""

    def advance(self, arrived_at_s: float, duration_s: float) -> float:
        """Returns the new P."""
        end_s = self.end_s
        self.end_s = end_s = (arrived_at_s if end_s is None or end_s < arrived_at_s else end_s) + duration_s
        return end_s

    def lead_s(self, now_s: float) -> float:
        """Audio that the listener has not played yet; negative while it waits, 0 before the first packet."""
        return 0.0 if self.end_s is None else self.end_s - now_s

    def discard(self, duration_s: float) -> None:
        """The listener discards so much of its unplayed audio, such as after a cancel."""
        if self.end_s is not None:
            self.end_s -= duration_s


class PlayoutLedger:
    """Model of a listener who plays each packet as soon as it was sent to the socket.

    For packets i arriving at t_i with duration d_i:

    - un-rebased deficit of packet i = (t_i - t_0) - sum of d_j for j < i; `max_underrun_s` is its maximum, at least 0;
    - rebased clock: P <- max(P, t_i) + d_i; every t_i > P before the update is one stall of t_i - P.

    The sum of the stalls is the greatest deficit, since a stall happens exactly where the deficit exceeds its maximum
    so far.  A wait for text that had not been received moves t_0 along with P, and so is in neither.
    """

    __slots__ = (
        *("_audio_s", "_first_s", "_last_s", "_max_deficit_s", "_max_stall_s", "_origin_s", "_packets"),
        *("_stalled_s", "_stalls", "_text_starvation_s", "playout_end_s"),
    )

    def __init__(self) -> None:
        self._first_s: float | None = None
        self._last_s = 0.0
        self._origin_s = 0.0
        self.playout_end_s: float | None = None
        """When the listener runs dry (P); None before the first packet."""
        self._audio_s = 0.0
        self._packets = 0
        self._stalls = 0
        self._stalled_s = 0.0
        self._max_stall_s = 0.0
        self._max_deficit_s = 0.0
        self._text_starvation_s = 0.0

    @property
    def audio_s(self) -> float:
        """Seconds of audio recorded."""
        return self._audio_s

    def lead_s(self, now_s: float) -> float:
        """Audio that the listener has not played yet; negative while it waits, 0 before the first packet."""
        return 0.0 if self.playout_end_s is None else self.playout_end_s - now_s

    def record(
        self,
        *,
        arrived_at_s: float,
        duration_s: float,
        text_starved: bool = False,
        playing_until_s: float | None = None,
    ) -> float:
        """Records a packet; returns how long the listener waited just before it, in seconds.

        `playing_until_s` is when the listener finishes what was sent before this ledger's first packet: until then that
        packet waits in the buffer, and t_0 is then.  It has no effect on later packets.

        `text_starved`: its text was received only after the listener had run dry, so the wait is not an underrun.
        Raises ValueError where the time precedes that of the last packet, the duration is negative, or either is not
        finite.
        """
        if not 0.0 <= duration_s < inf:
            raise ValueError(f"the duration of a packet must be finite and not negative, got {duration_s} s")
        if not -inf < arrived_at_s < inf:
            raise ValueError(f"the arrival time of a packet must be finite, got {arrived_at_s} s")
        end_s = self.playout_end_s
        if end_s is None:
            self._first_s = arrived_at_s
            self._origin_s = end_s = max(arrived_at_s, playing_until_s or arrived_at_s)
        elif arrived_at_s < self._last_s:
            raise ValueError(f"packets must be in order of time: got {arrived_at_s} s after {self._last_s} s")
        gap_s = 0.0
        if arrived_at_s > end_s:  # else there is no stall, and no deficit above its maximum so far
            gap_s = arrived_at_s - end_s
            self._count_wait(arrived_at_s, gap_s, text_starved=text_starved)
            end_s = arrived_at_s
        self.playout_end_s = end_s + duration_s
        self._last_s = arrived_at_s
        self._audio_s += duration_s
        self._packets += 1
        return gap_s

    def _count_wait(self, arrived_at_s: float, gap_s: float, *, text_starved: bool) -> None:
        """Counts a wait of the listener, who had run dry before this packet."""
        if text_starved:
            self._text_starvation_s += gap_s
            self._origin_s += gap_s
        elif gap_s > RESOLUTION_S:
            self._stalls += 1
            self._stalled_s += gap_s
            self._max_stall_s = max(self._max_stall_s, gap_s)
        self._max_deficit_s = max(self._max_deficit_s, arrived_at_s - self._origin_s - self._audio_s)

    def report(self, started_at_s: float | None = None) -> ContinuityReport:
        """The figures so far; `ttfp_s` counts from `started_at_s`."""
        return ContinuityReport(
            ttfp_s=None if self._first_s is None or started_at_s is None else self._first_s - started_at_s,
            audio_s=self._audio_s,
            packets=self._packets,
            underrun_count=self._stalls,
            underrun_total_s=self._stalled_s,
            max_stall_s=self._max_stall_s,
            max_underrun_s=self._max_deficit_s,
            text_starvation_s=self._text_starvation_s,
        )
