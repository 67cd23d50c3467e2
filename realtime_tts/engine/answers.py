"""Answer engine: a Thinker in front of a speech engine, together one `EngineHandle`."""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from realtime_tts.clock import Clock
from realtime_tts.engine.api import (
    EngineCommand,
    EngineEvent,
    EngineHandle,
    EngineStatus,
    EventSink,
    Extend,
    ModelInfo,
    RequestFinished,
    Submit,
    SubmitAnswer,
)
from realtime_tts.engine.config import EngineConfig
from realtime_tts.engine.thinking.answer import Action, Forget, Think
from realtime_tts.engine.thinking.answer_table import AnswerObserver, AnswerTable
from realtime_tts.engine.thinking.thinker import Chat, Written
from realtime_tts.engine.thinking.worker import ThinkerWorker
from realtime_tts.errors import EngineUnavailable

log = logging.getLogger(__name__)

WATCH_S = 1.0


class AnswerEngine:
    """Answers conversations.  A `SynthesisRequest` passes to the speech engine, which may be any `EngineHandle`.

    Its methods are called from one event loop; `start` binds it.  It owns the Thinker's worker, not the speech engine.
    """

    def __init__(
        self,
        thinker: ThinkerWorker,
        speech: EngineHandle,
        chat: Chat,
        clock: Clock,
        *,
        config: EngineConfig | None = None,
        observer: AnswerObserver | None = None,
        watch_s: float = WATCH_S,
    ) -> None:
        """`watch_s`: how often a stuck Thinker is looked for."""
        config = config or EngineConfig()
        self._thinker = thinker
        self._speech = speech
        self._clock = clock
        self._table = AnswerTable(
            chat,
            speech.info,
            max_wait_s=config.max_wait_s,
            queue_s=config.queue_s,
            max_requests=config.max_requests,
            observer=observer,
        )
        self._sinks: dict[str, EventSink] = {}
        self._events: deque[EngineEvent] = deque()
        """To be delivered, in order."""
        self._delivering = False
        self._watch_s = watch_s
        self._watching: asyncio.TimerHandle | None = None

    @property
    def info(self) -> ModelInfo:
        return self._speech.info

    async def start(self) -> None:
        """Raises what making the Thinker raises."""
        await self._thinker.start(self._on_written)
        self._watch()

    def _watch(self) -> None:
        """Ends all answers if the Thinker is stuck: their listeners have run dry long before."""
        self._watching = asyncio.get_running_loop().call_later(self._watch_s, self._watch)
        if self._thinker.is_stuck and len(self._table):
            log.error("a step of the Thinker has not returned: all answers fail")
            error = EngineUnavailable("the Thinker did not return in time")
            self._act(self._table.end_all(error, self._clock.now_s()))
            self._deliver()

    async def stop(self) -> None:
        """Ends every answer as failed.  The speech engine is to be stopped after it."""
        if self._watching is not None:
            self._watching.cancel()
        await self._thinker.stop()
        self._act(self._table.end_all(EngineUnavailable("the server is stopping"), self._clock.now_s()))
        self._deliver()

    def send(self, command: EngineCommand, sink: EventSink | None = None) -> None:
        match command:
            case Submit() | Extend():
                self._speech.send(command, sink)
                return
            case SubmitAnswer(request=request):
                assert sink is not None, "a request's events need a sink"
                self._sinks[request.request_id] = sink
        self._act(self._table.command(command, self._thinker.status(), self._clock.now_s()))
        if self._events:  # never inside of the caller's `send`
            asyncio.get_running_loop().call_soon(self._deliver)

    def status(self) -> EngineStatus:
        speech, thinker = self._speech.status(), self._thinker.status()
        if not speech.ready:
            return speech
        capacity = thinker.capacity if speech.capacity is None else min(speech.capacity, thinker.capacity)
        return replace(
            speech,
            ready=thinker.ready,
            reason=speech.reason if thinker.ready else thinker.reason,
            active_requests=speech.active_requests + self._table.text_only,
            capacity=capacity,
        )

    @property
    def is_idle(self) -> bool:
        """Whether nothing is kept for any answer or listener."""
        return self._table.is_empty and not self._sinks

    # -- From the engines ----------------------------------------------------------------------------------------------

    def _on_written(self, steps: Sequence[Written]) -> None:
        self._act(self._table.on_written(steps, self._clock.now_s()))
        self._deliver()

    def _on_speech(self, event: EngineEvent) -> None:
        self._act(self._table.on_speech(event, self._clock.now_s()))
        self._deliver()

    def _act(self, actions: Sequence[Action]) -> None:
        for action in actions:
            if isinstance(action, Think):
                self._thinker.submit(action.request)
            elif isinstance(action, Forget):
                self._thinker.cancel(action.request_id)
            elif isinstance(action, Submit):
                self._speech.send(action, self._on_speech)
            elif isinstance(action, EngineCommand):
                self._speech.send(action)
            else:
                self._events.append(action)
        self._thinker.bounded = self._table.needs_bound(self._clock.now_s())

    def _deliver(self) -> None:
        """Calls the sinks, one event after the other, also where a sink sends a command."""
        if self._delivering:
            return
        self._delivering = True
        try:
            while self._events:
                event = self._events.popleft()
                ended = isinstance(event, RequestFinished)
                sink = self._sinks.pop(event.request_id, None) if ended else self._sinks.get(event.request_id)
                if sink is None:
                    continue
                try:
                    sink(event)
                except Exception:
                    # A bug in one sink: the events behind it belong to others.
                    log.exception("the sink of request %s has failed", event.request_id)
        finally:
            self._delivering = False
