"""Text lead: how far the tokens of an answer are ahead of its listener, and which engine an underrun is due to."""

import math
from bisect import bisect_right
from dataclasses import dataclass
from typing import Literal, TypeAlias

Cause: TypeAlias = Literal["thinker", "speech"]
CAUSES: tuple[Cause, ...] = ("thinker", "speech")


@dataclass(frozen=True, slots=True)
class Underrun:
    """A gap in the audio of an answer.  `cause`: the engine that was late."""

    cause: Cause
    seconds: float


class TextLead:
    """How far the tokens of one answer are ahead of its listener, and which engine an underrun is due to."""

    def __init__(self, frame_s: float) -> None:
        self._frame_s = frame_s
        self._token_times_s: list[float] = []
        self._sent_s = 0.0
        self._playout_end_s: float | None = None
        self._text_end_s = math.inf

    def on_text_end(self, now_s: float) -> None:
        self._text_end_s = now_s

    def on_tokens(self, count: int, now_s: float) -> None:
        self._token_times_s.extend([now_s] * count)

    def on_sent(self, audio_s: float, lead_s: float, now_s: float) -> Underrun | None:
        """`audio_s` more were sent, and the listener has `lead_s` of audio now.  Returns the gap before it, if any."""
        gap = self._gap(audio_s, now_s)
        self._sent_s += audio_s
        self._playout_end_s = now_s + lead_s
        return gap

    def on_playout_end(self, lead_s: float, now_s: float) -> None:
        if self._playout_end_s is not None:
            self._playout_end_s = now_s + lead_s

    def lead_s(self, now_s: float) -> float:
        """Seconds until the listener needs a token that is not written: each token is worth a frame of audio."""
        unplayed_s = 0.0 if self._playout_end_s is None else max(0.0, self._playout_end_s - now_s)
        played_s = max(0.0, self._sent_s - unplayed_s)
        return len(self._token_times_s) * self._frame_s - played_s

    def _gap(self, audio_s: float, now_s: float) -> Underrun | None:
        dry_s = self._playout_end_s
        if dry_s is None or now_s <= dry_s:
            return None
        tokens = bisect_right(self._token_times_s, dry_s)
        # The chunk that came late needed tokens that were not yet written when the listener ran dry.
        late_text = self._text_end_s > dry_s and tokens * self._frame_s < self._sent_s + audio_s
        return Underrun("thinker" if late_text else "speech", now_s - dry_s)
