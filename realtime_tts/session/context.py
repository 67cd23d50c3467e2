"""One conversation thread of a session: the text that comes in for it, and what its listener has heard of it."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from realtime_tts.session.playback_position import Heard, heard
from realtime_tts.session.playback_queue import Track
from realtime_tts.session.utterance import Utterance

REMEMBERED_S = 10.0
"""After its sound has been played by our reckoning, an utterance is kept so long: the client may lie behind it."""


@dataclass(frozen=True, slots=True)
class Cancellation:
    """What a barge-in has ended, as it was when it came."""

    context_id: str | None
    heard: Heard
    audio_sent_s: float
    audio_played_s: float
    source: str
    asked_s: float


@dataclass(slots=True, eq=False)
class Context:
    """Text of one `context_id`, or of none.  It is open while it has text to speak or sound to send."""

    context_id: str | None
    number: int
    track: Track
    writing: Utterance | None = None
    active_s: float = 0.0
    """When something last came in for it."""
    buffered_s: float | None = None
    """When the text last came that still waits for its sentence to end."""
    utterances: list[Utterance] = field(default_factory=list)
    """Those not yet wholly heard, in order."""
    forgotten_s: float = 0.0
    """Seconds of sound, since it began or since its last barge-in, of utterances that are no longer kept."""
    client_lag_s: float = 0.0
    """How far the client's playhead lies behind our reckoning, by its last report."""

    @property
    def is_open(self) -> bool:
        return self.writing is not None or any(not each.done_sent for each in self.utterances)

    def forget_heard(self, now_s: float) -> None:
        """Lets go of utterances whose last sound was played long ago."""
        while self.utterances and self.utterances[0].done_sent:
            end_s = max((end for job in self.utterances[0].begun for _, end in job.heard_from), default=now_s)
            if end_s + REMEMBERED_S > now_s and len(self.utterances) < 64:
                return
            self.forgotten_s += self.utterances.pop(0).audio_s

    def sent_s(self) -> float:
        return sum(each.audio_s for each in self.utterances)

    def reckoned_s(self, now_s: float) -> float:
        """Seconds that a listener has heard who plays everything as soon as it comes."""
        return sum(job.played_s(now_s) for each in self.utterances for job in each.begun)

    def report(self, played_s: float, now_s: float) -> None:
        """The client says how much it has played, since the context began or since its last barge-in."""
        self.client_lag_s = max(0.0, self.reckoned_s(now_s) - (played_s - self.forgotten_s))

    def cancellation(self, played_s: float | None, now_s: float) -> Cancellation:
        """`played_s` as in `report`; None where the client does not say."""
        if played_s is None:
            played, source = self.reckoned_s(now_s) - self.client_lag_s, "estimated"
        else:
            played, source = played_s - self.forgotten_s, "reported"
        sent_s = self.sent_s()
        played = min(max(played, 0.0), sent_s)
        return Cancellation(
            context_id=self.context_id,
            heard=heard(self.utterances, played),
            audio_sent_s=self.forgotten_s + sent_s,
            audio_played_s=self.forgotten_s + played,
            source=source,
            asked_s=now_s,
        )

    def start_over(self) -> Iterator[Utterance]:
        """Forgets everything; gives the utterances of which not all was sent."""
        yield from (each for each in self.utterances if not each.done_sent)
        self.utterances = []
        self.writing = None
        self.buffered_s = None
        self.forgotten_s = self.client_lag_s = 0.0
