"""Thinker loop: which requests join a Thinker, and how much of their prompts each step reads.  Sans-I/O."""

from collections.abc import Sequence
from dataclasses import dataclass

from realtime_tts.engine.api import TextEnd, TextSampling
from realtime_tts.engine.thinking.costs import MAX_CAPACITY, ThinkerCostModel
from realtime_tts.engine.thinking.thinker import Thinker, ThinkerLoad, ThinkerPrompt, Written
from realtime_tts.errors import RealtimeTTSError


@dataclass(frozen=True, slots=True)
class ThinkerRequest:
    request_id: str
    prompt: ThinkerPrompt
    sampling: TextSampling
    continues: bool = False
    """Whether its listener is in mid-conversation: then its prompt is read before those of new listeners."""

    @property
    def positions(self) -> int:
        """What it may need of the Thinker's memory."""
        return len(self.prompt.ids) + self.sampling.max_tokens


@dataclass(frozen=True, slots=True)
class _Step:
    rows: int
    prompt_tokens: int


@dataclass(frozen=True, slots=True)
class ThinkerStatus:
    ready: bool
    reason: str
    capacity: int = MAX_CAPACITY
    """Answers for which each step stays within its share of a codec frame."""
    positions: int = 0
    """Memory for the tokens of all prompts and answers."""
    max_positions: int = 0
    """The most tokens of one prompt and its answer."""
    open_requests: int = 0
    token_s: float = 0.0
    """What a step costs at the present number of answers."""


class ThinkerLoop:
    """One Thinker and those who wait for it.  Owned by one thread; each `step` is followed by `observe`."""

    def __init__(self, thinker: Thinker, frame_s: float) -> None:
        self.thinker = thinker
        self._info = thinker.info
        self.costs = ThinkerCostModel(self._info, frame_s)
        self._waiting: list[ThinkerRequest] = []
        self._joined: set[str] = set()
        self._last: _Step | None = None

    @property
    def busy(self) -> bool:
        return bool(self._waiting or self._joined)

    def status(self) -> ThinkerStatus:
        load = self.thinker.load()
        return ThinkerStatus(
            ready=True,
            reason="ready",
            capacity=self.costs.capacity,
            positions=load.positions,
            max_positions=self._info.max_positions,
            open_requests=len(self._waiting) + len(self._joined),
            token_s=self.costs.step(max(1, load.running)),
        )

    def submit(self, request: ThinkerRequest) -> None:
        at = len(self._waiting)
        if request.continues:
            at = next((index for index, each in enumerate(self._waiting) if not each.continues), at)
        self._waiting.insert(at, request)

    def cancel(self, request_id: str) -> None:
        """At any moment; unknown ids are ignored."""
        self._waiting = [each for each in self._waiting if each.request_id != request_id]
        if request_id in self._joined:
            self._joined.remove(request_id)
            self.thinker.leave(request_id)

    def step(self, *, bounded: bool) -> list[Written]:
        """One step.  `bounded`: whether it must stay within a frame's playing time, since listeners need tokens."""
        running = self.thinker.load().running
        budget = self.costs.prompt_budget(running + 1) if bounded else None
        refused = self._join(budget)
        before = self.thinker.load()
        written = self.thinker.step(budget)
        read = max(0, before.unread_prompt_tokens - self.thinker.load().unread_prompt_tokens)
        self._last = _Step(len(written), read) if self._joined else None
        self._joined.difference_update(each.request_id for each in written if each.end is not None)
        return [*refused, *written]

    def observe(self, seconds: float) -> None:
        """What the last step took."""
        if self._last is not None:
            self.costs.observe(self._last.rows, self._last.prompt_tokens, seconds)

    def _join(self, budget: int | None) -> list[Written]:
        """Joins as many requests as the next step can read; those behind may still be overtaken."""
        refused = []
        while self._waiting:
            load = self.thinker.load()
            if len(self._joined) >= self.costs.capacity or (self._joined and self._lacks_memory(load)):
                break
            if budget is not None and load.unread_prompt_tokens >= budget:
                break
            request = self._waiting.pop(0)
            try:
                self.thinker.join(request.request_id, request.prompt, request.sampling)
                self._joined.add(request.request_id)
            except RealtimeTTSError as error:
                refused.append(Written(request.request_id, (), TextEnd.ERROR, error=error))
        return refused

    def _lacks_memory(self, load: ThinkerLoad) -> bool:
        return self._waiting[0].positions > load.free_positions

    def end_all(self, error: RealtimeTTSError) -> Sequence[Written]:
        """The Thinker has failed: the ends of all its requests."""
        ids = [*self._joined, *(request.request_id for request in self._waiting)]
        self._joined.clear()
        self._waiting.clear()
        return [Written(request_id, (), TextEnd.ERROR, error=error) for request_id in ids]
