"""Simulation of answers: a Thinker in front of the engine's own loop, both in virtual time."""

from collections.abc import Callable, Sequence

from realtime_tts.engine.api import EngineCommand, EngineEvent, Submit
from realtime_tts.engine.config import EngineConfig
from realtime_tts.engine.simulate import Simulation
from realtime_tts.engine.stage import Model
from realtime_tts.engine.thinking.answer import Action, Forget, Think
from realtime_tts.engine.thinking.answer_table import AnswerObserver, AnswerTable
from realtime_tts.engine.thinking.loop import ThinkerLoop
from realtime_tts.engine.thinking.thinker import Chat, Thinker, Written


class AnswerSimulation:
    """As `AnswerEngine`, with a virtual clock.  The Thinker has a device of its own."""

    def __init__(
        self,
        build: Callable[[Callable[[float], None]], Model],
        make_thinker: Callable[[Callable[[float], None]], Thinker],
        chat: Chat,
        *,
        emit: Callable[[EngineEvent], None],
        config: EngineConfig | None = None,
        bounded: bool = True,
        observer: AnswerObserver | None = None,
    ) -> None:
        """`build` and `make_thinker` get the function by which steps spend their costs.

        `bounded`: whether a Thinker's step stays within a frame's playing time while listeners need tokens.
        """
        config = config or EngineConfig()
        self._speech = Simulation(build, emit=self._on_speech, config=config)
        self.clock = self._speech.clock
        self._spent_s = 0.0
        self._loop = ThinkerLoop(make_thinker(self._spend), self._speech.info.frame_s)
        self._stepping = False
        self._bounded = bounded
        self._speech_alone: set[str] = set()
        """Requests that are not part of an answer."""
        self._emit = emit
        self.table = AnswerTable(
            chat,
            self._speech.info,
            max_wait_s=config.max_wait_s,
            queue_s=config.queue_s,
            max_requests=config.max_requests,
            observer=observer,
        )

    def at(self, at_s: float, action: Callable[[], None]) -> None:
        """Calls `action` at a time, which may be now but not before."""
        self._speech.at(at_s, action)

    def run(self, until_s: float) -> None:
        self._speech.run(until_s)

    def send(self, command: EngineCommand) -> None:
        """A `SynthesisRequest` passes to the speech engine."""
        if isinstance(command, Submit):
            self._speech_alone.add(command.request.request_id)
        self._act(self.table.command(command, self._loop.status(), self.clock.now_s()))

    def _spend(self, seconds: float) -> None:
        self._spent_s += seconds

    def _on_speech(self, events: list[EngineEvent]) -> None:
        for event in events:
            if event.request_id in self._speech_alone:
                self._emit(event)
            else:
                self._act(self.table.on_speech(event, self.clock.now_s()))

    def _act(self, actions: Sequence[Action]) -> None:
        for action in actions:
            if isinstance(action, Think):
                self._loop.submit(action.request)
            elif isinstance(action, Forget):
                self._loop.cancel(action.request_id)
            elif isinstance(action, EngineCommand):
                self._speech.engine.handle(action)
                self.at(self.clock.now_s(), _nothing)  # so that the engine steps once more, and emits what follows
            else:
                self._emit(action)
        if not self._stepping:
            self._step()

    def _step(self) -> None:
        if not self._loop.busy:
            return
        self._stepping = True
        self._spent_s = 0.0
        written = self._loop.step(bounded=self._bounded and self.table.needs_bound(self.clock.now_s()))
        spent_s = self._spent_s
        self.at(self.clock.now_s() + spent_s, lambda: self._end_step(written, spent_s))

    def _end_step(self, written: Sequence[Written], spent_s: float) -> None:
        self._loop.observe(spent_s)
        self._stepping = False
        self._act(self.table.on_written(written, self.clock.now_s()))


def _nothing() -> None: ...
