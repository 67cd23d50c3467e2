"""State of one request and of one listener.  Owned by the engine thread alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from realtime_tts.engine.api import FinishReason, SynthesisMetrics, SynthesisRequest
from realtime_tts.engine.stage import Payload, join_arrays

REPLY_S = 2.0
"""How long a listener counts as speaking after the end of its playback.  A barge-in ends the playback at once, and the
reply to it follows within a second or two: the interruption must not cost the listener its conversation."""


class PayloadBuffer:
    """A stage's output for one request: rows in order, of which those no longer needed are dropped."""

    __slots__ = ("_blocks", "_dropped", "_join", "count")

    def __init__(self, join: Callable[[Sequence[Payload]], Payload] = join_arrays) -> None:
        self._join = join
        self._blocks: list[Payload] = []
        self._dropped = 0
        self.count = 0
        """Rows ever appended, so also the index of the next one."""

    def append(self, block: Payload) -> None:
        if len(block):
            self._blocks.append(block)
            self.count += len(block)

    def slice(self, start: int, end: int) -> Payload:
        """Rows `[start, end)`; they must exist and not have been dropped."""
        assert self._dropped <= start < end <= self.count, f"[{start}, {end}) of [{self._dropped}, {self.count})"
        if len(self._blocks) > 1:
            self._blocks = [self._join(self._blocks)]
        return self._blocks[0][start - self._dropped : end - self._dropped]

    def drop_before(self, start: int) -> None:
        while self._blocks and self._dropped + len(self._blocks[0]) <= start:
            self._dropped += len(self._blocks.pop(0))

    def emptied(self) -> "PayloadBuffer":
        """A new one for the same kind of payload."""
        return PayloadBuffer(self._join)


@dataclass(slots=True)
class StageProgress:
    """How far one request is in one stage."""

    output: PayloadBuffer = field(default_factory=PayloadBuffer)
    consumed: int = 0
    """Rows of the stage before that it got."""
    input_complete: bool = False
    """Whether it knows that no more rows follow."""
    lane: str | None = None
    """Where it began, and stays; None before it began, and after its state was released."""
    in_flight: bool = False
    finished: bool = False
    starved: bool = False
    """It waits for more input."""
    retry: bool = False
    """It restarts with its next batch."""
    handoff: object | None = None
    """What the next stage must know."""

    @property
    def opened(self) -> bool:
        """Whether the stage keeps something for this request."""
        return self.lane is not None

    def restart(self) -> None:
        """Forgets the stage's output; the stage gets all of its input again."""
        self.output = self.output.emptied()
        self.consumed = 0
        self.input_complete = self.starved = False
        self.handoff = None
        self.retry = True


@dataclass(slots=True)
class Stream:
    """A listener: the playout clock that its sentences share, and those whose audio is not yet all sent, in order."""

    stream_id: str
    playout_end_s: float | None = None
    """When it runs dry, by the audio that was sent to it.  None before the first."""
    requests: list["RequestState"] = field(default_factory=list)
    """Those that still run, and those that have ended with unsent audio."""

    utterance_index: int | None = None
    """The utterance that was admitted last."""

    def is_admitted(self, utterance_index: int, now_s: float) -> bool:
        """Whether this utterance has begun: its next sentence then needs no admission.

        Another utterance does, also of a listener who plays: otherwise those who never stop would block all others.
        """
        if utterance_index != self.utterance_index:
            return False
        return self._plays_at(now_s) or any(request.admitted for request in self.requests)

    def is_speaking(self, now_s: float) -> bool:
        """Whether its speech is made or played, or has just ended."""
        return self._plays_at(now_s - REPLY_S) or any(request.admitted for request in self.requests)

    def _plays_at(self, at_s: float) -> bool:
        return self.playout_end_s is not None and self.playout_end_s > at_s


@dataclass(slots=True)
class TokenIntervals:
    """How fast the tokens of an answer arrive."""

    last_s: float | None = None
    """When the last one did."""
    interval_s: float | None = None
    """Between the last two; None before the second one."""

    def observe(self, tokens: int, at_s: float) -> None:
        if not tokens:
            return
        if self.last_s is not None:
            self.interval_s = (at_s - self.last_s) / tokens
        self.last_s = at_s


@dataclass(slots=True)
class RequestState:
    request: SynthesisRequest
    sequence: int
    submitted_s: float
    stream: Stream
    stages: tuple[StageProgress, ...]
    admitted: bool = False
    started_s: float | None = None
    served_s: float = 0.0
    """When its last chunk was launched, or when it was submitted."""
    initial_frames: int | None = None
    """The size of the first chunk, once it was launched."""
    chunks: int = 0
    samples_out: int = 0
    samples_sent: int = 0
    samples_withheld: int = 0
    """Leading silence that is not played."""
    samples_repeated: int = 0
    """Made again after a loss, and not sent again."""
    words_repeated: int = 0
    joint_step: float = 0.0
    """By how much the last of the repeated samples differs from the one that the listener has."""
    frames_reported: int = 0
    code_bytes_reported: int = 0
    """What `CodesReady` had, or the engine before this one."""
    truncated: bool = False
    token_intervals: TokenIntervals = field(default_factory=TokenIntervals)
    ended: FinishReason | None = None

    @property
    def request_id(self) -> str:
        return self.request.request_id

    @property
    def decoder(self) -> StageProgress:
        return self.stages[-1]

    @property
    def source(self) -> StageProgress:
        """The stage whose frames are decoded."""
        return self.stages[-2]

    @property
    def pending_frames(self) -> int:
        """Frames that wait to be decoded."""
        return self.source.output.count - self.decoder.consumed

    @property
    def text_starved(self) -> bool:
        """Whether nothing can be made before more of its text arrives."""
        return self.stages[0].starved

    @property
    def in_flight(self) -> bool:
        return any(stage.in_flight for stage in self.stages)

    @property
    def decoded(self) -> bool:
        """Whether all stages have produced all of their output."""
        if self.decoder.consumed < self.source.output.count:
            return False
        return all(stage.finished for stage in self.stages[:-1])

    def samples_to_repeat(self) -> int:
        """What the listener has, and must be made once more before it gets anything new."""
        resume = self.request.resume
        return 0 if resume is None else resume.samples_received - self.samples_repeated

    @property
    def samples_unsent(self) -> int:
        """Audio that is made, and waits to be sent."""
        return self.samples_out - self.samples_sent

    def metrics(self, now_s: float, sample_rate_hz: int) -> SynthesisMetrics:
        started_s = now_s if self.started_s is None else self.started_s
        return SynthesisMetrics(
            queue_s=started_s - self.submitted_s,
            synthesis_s=now_s - started_s,
            audio_s=self.samples_out / sample_rate_hz,
            chunks=self.chunks,
            initial_chunk_frames=self.initial_frames,
        )


def deadline_s(
    state: RequestState, *, first_audio_target_s: float, samples_per_frame: int, sample_rate_hz: int
) -> float:
    """When the listener will need the next audio of this request.

    That is when the sent audio ends, plus the audio that plays before: the rest of the sentences ahead of it, and its
    own audio that waits to be sent.  Only sent audio moves the clock: an engine that counted what it had generated fell
    from 95% to 44% of streams in time (design notes, vLLM-Omni's experience).
    """
    stream = state.stream
    head = stream.requests[0]
    start_s = head.submitted_s + first_audio_target_s
    if stream.playout_end_s is not None:
        start_s = stream.playout_end_s if head.samples_sent else max(stream.playout_end_s, start_s)
    samples_before = state.samples_unsent
    for other in stream.requests:
        if other is state:
            break
        made = other.source.output.count * samples_per_frame - other.samples_withheld
        known = made if other.ended is None else other.samples_out
        samples_before += max(0, known - other.samples_sent)
    return start_s + samples_before / sample_rate_hz
