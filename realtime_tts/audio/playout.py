"""When will the listener run out of audio?  The one definition of underrun."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ContinuityReport:
    """How one listener fared.  Seconds throughout."""

    ttfp_s: float | None
    """From the start that was asked about to the first packet; None where there was no packet."""
    audio_s: float
    packets: int
    underrun_count: int
    underrun_total_s: float
    max_stall_s: float
    """The longest single stall."""
    max_underrun_s: float
    """The smallest extra start delay that would have made playback gapless: the figure that peers publish."""
    text_starvation_s: float

    def continuity_ok(self, threshold_s: float = 0.1) -> bool | None:
        """None for a single packet, which has no continuity to speak of; False where nothing came at all."""
        if self.packets == 0:
            return False
        return None if self.packets == 1 else self.max_underrun_s <= threshold_s


RESOLUTION_S = 1e-9
"""Shorter stalls are rounding: playout is a sum of many floats."""


class PlayoutLedger:
    """Follows a listener who plays each packet at once, from when it was routed to the socket.

    For packets i arriving at t_i with duration d_i:

    - un-rebased deficit of packet i = (t_i - t_0) - sum of d_j for j < i; `max_underrun_s` is its maximum, at least 0;
    - rebased clock: P <- max(P, t_i) + d_i; every t_i > P before the update is one stall of t_i - P.

    The stalls add up to the greatest deficit, since a stall happens exactly where the deficit passes its maximum so
    far.  A wait for text that had not come moves t_0 along with P, and so is in neither.
    """

    def __init__(self) -> None:
        self._first_s: float | None = None
        self._last_s = 0.0
        self._origin_s = 0.0
        self._playout_end_s: float | None = None
        self._audio_s = 0.0
        self._packets = 0
        self._stalls = 0
        self._stalled_s = 0.0
        self._max_stall_s = 0.0
        self._max_deficit_s = 0.0
        self._text_starvation_s = 0.0

    @property
    def playout_end_s(self) -> float | None:
        """When the listener runs dry (P); None before the first packet."""
        return self._playout_end_s

    @property
    def audio_s(self) -> float:
        """Seconds of audio recorded."""
        return self._audio_s

    def lead_s(self, now_s: float) -> float:
        """How much audio the listener still holds; negative while it waits, 0 before the first packet."""
        return 0.0 if self._playout_end_s is None else self._playout_end_s - now_s

    def record(
        self,
        *,
        arrived_at_s: float,
        duration_s: float,
        text_starved: bool = False,
        hearing_until_s: float | None = None,
    ) -> float:
        """Notes a packet; returns how long the listener waited just before it, in seconds.

        `hearing_until_s` is when the listener will have heard what came before this ledger's first packet: until then
        that packet lies in the buffer, and t_0 is then.  Of later packets it says nothing.

        `text_starved` says that its text came only after the listener had run dry: then the wait is not an underrun.
        Raises ValueError where the time is before the packet before, the duration is negative, or either is not finite.
        """
        if not (math.isfinite(duration_s) and duration_s >= 0):
            raise ValueError(f"a packet cannot last {duration_s} s")
        if not math.isfinite(arrived_at_s):
            raise ValueError(f"a packet cannot come at {arrived_at_s} s")
        if self._playout_end_s is None:
            self._first_s = arrived_at_s
            self._origin_s = self._playout_end_s = max(arrived_at_s, hearing_until_s or arrived_at_s)
        elif arrived_at_s < self._last_s:
            raise ValueError(f"a packet at {arrived_at_s} s cannot follow one at {self._last_s} s")
        gap_s = 0.0
        if arrived_at_s > self._playout_end_s:  # else there is no stall, and no deficit above its maximum so far
            gap_s = arrived_at_s - self._playout_end_s
            self._wait(arrived_at_s, gap_s, text_starved=text_starved)
            self._playout_end_s = arrived_at_s
        self._playout_end_s += duration_s
        self._last_s = arrived_at_s
        self._audio_s += duration_s
        self._packets += 1
        return gap_s

    def _wait(self, arrived_at_s: float, gap_s: float, *, text_starved: bool) -> None:
        """The listener had run dry before the packet that came now."""
        if text_starved:
            self._text_starvation_s += gap_s
            self._origin_s += gap_s
        elif gap_s > RESOLUTION_S:
            self._stalls += 1
            self._stalled_s += gap_s
            self._max_stall_s = max(self._max_stall_s, gap_s)
        self._max_deficit_s = max(self._max_deficit_s, arrived_at_s - self._origin_s - self._audio_s)

    def discard(self, duration_s: float) -> None:
        """The listener throws away so much of what it has not yet played, as after a barge-in."""
        if self._playout_end_s is not None:
            self._playout_end_s -= duration_s

    def report(self, started_at_s: float | None = None) -> ContinuityReport:
        """The figures so far; `ttfp_s` counts from `started_at_s` where that is given."""
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
