"""Replicated engine: one `EngineHandle` over several, which serves on when some of them are lost."""

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from realtime_tts.clock import Clock
from realtime_tts.cluster.placing import Candidate, choose
from realtime_tts.engine.api import (
    AudioReady,
    AudioSent,
    Cancel,
    CodesReady,
    EndStream,
    EngineCommand,
    EngineEvent,
    EngineHandle,
    EngineStatus,
    EventSink,
    Extend,
    FinishReason,
    ModelInfo,
    PlayoutEnd,
    ReplicaStatus,
    RequestAccepted,
    RequestFinished,
    Resume,
    Submit,
    SynthesisRequest,
    TextReady,
    WordsReady,
)
from realtime_tts.engine.state import REPLY_S
from realtime_tts.errors import EngineUnavailable, Overloaded, RealtimeTTSError, SynthesisFailed

log = logging.getLogger(__name__)

MAX_ATTEMPTS = 3
"""In total, for one sentence: a text that crashes its replica must not take down all of them."""


@dataclass(slots=True, eq=False)
class _Request:
    """A request, which outlives the replica that it began on."""

    request: SynthesisRequest
    """With all of the text so far."""
    sink: EventSink
    attempt: int = 0
    """Counts submissions to a replica: events of an earlier one are dropped."""
    losses: int = 0
    """Replicas that were lost with it."""
    refused_by: dict[str, Overloaded] = field(default_factory=dict)
    samples_received: int = 0
    samples_sent: int = 0
    words_received: int = 0
    last_sample: float = 0.0
    codes: bytes = b""
    text_received: int = 0
    text_made: int = 0
    """Characters of an answer that the present attempt has made."""
    resumed: bool = False
    """Its next audio continues the audio of a lost replica."""
    accepted: bool = False
    """Its sender knows that it was accepted: another replica reports it again."""
    cancelled: bool = False
    finished: bool = False

    @property
    def has_begun(self) -> bool:
        return self.samples_received > 0 or self.words_received > 0 or self.text_received > 0


@dataclass(slots=True, eq=False)
class _Stream:
    """A listener: all of its requests are with one replica, which has its playout clock."""

    replica: str
    requests: dict[str, _Request] = field(default_factory=dict)
    """Unfinished, or with audio that was not sent yet; in the order of submission."""
    playout_end_s: float = -math.inf

    def is_idle(self, now_s: float) -> bool:
        return not self.requests and self.playout_end_s + REPLY_S <= now_s


@dataclass(slots=True, eq=False)
class _Replica:
    engine: EngineHandle
    draining: bool = False
    last_chosen: int = 0
    streams: set[str] = field(default_factory=set)


class ReplicatedEngine:
    """Sends each listener to one replica, and what a lost replica had to another one.

    A sentence that had not begun is submitted again; one that had begun is made again, and what its listener already
    has is withheld.  `on_redone` gets the outcome of each sentence that was moved.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        on_redone: Callable[[str], None] = lambda _outcome: None,
    ) -> None:
        self._clock = clock
        self._on_redone = on_redone
        self._replicas: dict[str, _Replica] = {}
        self._streams: dict[str, _Stream] = {}
        self._stream_of: dict[str, str] = {}
        """The stream of each request of `_Stream.requests`."""
        self._info: ModelInfo | None = None
        self._turn = 0

    # -- Replicas ------------------------------------------------------------------------------------------------------

    def add(self, name: str, engine: EngineHandle) -> None:
        """Raises ValueError for a replica with another model."""
        if self._info is None:
            self._info = engine.info
        if engine.info != self._info:
            raise ValueError(f"replica {name} has another model: {engine.info.name}, not {self._info.name}")
        assert name not in self._replicas, f"there is a replica {name} already"
        self._replicas[name] = _Replica(engine)

    def drain(self, name: str) -> None:
        """Gives it no new listeners.  `replicas()[name].listeners` falls to 0."""
        self._replicas[name].draining = True

    def remove(self, name: str) -> None:
        """Moves what it still has to the others, and forgets it."""
        replica = self._replicas.pop(name)
        for stream_id in list(replica.streams):
            self._move(stream_id, lost=False)
            replica.engine.send(EndStream(stream_id))

    def replicas(self) -> Mapping[str, ReplicaStatus]:
        self._forget_idle_streams()
        found = {}
        for name, each in self._replicas.items():
            status = each.engine.status()
            reason = "draining" if status.ready and each.draining else status.reason
            found[name] = ReplicaStatus(name, status.ready, reason, len(each.streams), status.capacity)
        return found

    def streams_of(self, name: str) -> frozenset[str]:
        """The listeners that a replica serves at present."""
        return frozenset(self._replicas[name].streams)

    @property
    def remembered(self) -> int:
        """Listeners and requests that it keeps something for."""
        return len(self._streams) + len(self._stream_of)

    # -- EngineHandle --------------------------------------------------------------------------------------------------

    @property
    def info(self) -> ModelInfo:
        assert self._info is not None, "add a replica first"
        return self._info

    def status(self) -> EngineStatus:
        """Ready while one replica is; the sum of what the ready ones state."""
        statuses = [each.engine.status() for each in self._replicas.values()]
        ready = [each for each in statuses if each.ready]
        replicas = tuple(self.replicas().values())
        if not ready:
            reason = statuses[0].reason if statuses else "there is no replica"
            return EngineStatus(ready=False, reason=reason, replicas=replicas)
        capacities = [each.capacity for each in ready if each.capacity is not None]
        return EngineStatus(
            ready=True,
            reason="ready",
            active_requests=sum(each.active_requests for each in ready),
            waiting_requests=sum(each.waiting_requests for each in ready),
            queued_requests=sum(each.queued_requests for each in ready),
            capacity=sum(capacities) if capacities else None,
            costs=ready[0].costs,
            replicas=replicas,
        )

    def send(self, command: EngineCommand, sink: EventSink | None = None) -> None:
        match command:
            case Submit(request=request):
                assert sink is not None, "a request's events need a sink"
                self._submit(_Request(self._repeatable(request), sink))
            case Extend(request_id=request_id):
                if (found := self._find(request_id)) is not None and not found.finished:
                    found.request = found.request.extended(command)
                    self._forward(request_id, command)
            case Cancel(request_id=request_id):
                self._forward(request_id, command)
                if (found := self._find(request_id)) is not None:
                    found.cancelled = True
                    if found.finished:
                        self._forget(request_id)  # its unsent audio will never be sent
            case AudioSent(request_id=request_id):
                self._audio_sent(command)
            case PlayoutEnd(stream_id=stream_id, lead_s=lead_s):
                if (stream := self._streams.get(stream_id)) is not None:
                    stream.playout_end_s = self._clock.now_s() + lead_s
                    self._engine_of(stream).send(command)
            case EndStream(stream_id=stream_id):
                self._end_stream(stream_id)

    def _repeatable(self, request: SynthesisRequest) -> SynthesisRequest:
        """With its codes, and with a seed where the model takes one, so that another replica makes the same audio."""
        request = replace(request, wants_codes=self.info.resumes_from_codes)
        if "seed" not in self.info.fields or request.sampling.seed is not None:
            return request
        seed = int(np.random.default_rng().integers(2**31))
        return replace(request, sampling=replace(request.sampling, seed=seed, seed_is_drawn=True))

    def _submit(self, request: _Request) -> None:
        stream_id = request.request.stream_id
        stream = self._streams.get(stream_id)
        if stream is not None and stream.is_idle(self._clock.now_s()):
            self._end_stream(stream_id)  # its next utterance may be served by another replica
            stream = None
        if stream is None:
            name = self._choose(request)
            if name is None:
                error = EngineUnavailable(f"the engine accepts no requests: {self.status().reason}")
                request.sink(RequestFinished(request.request.request_id, FinishReason.ERROR, error=error))
                return
            stream = self._bind(stream_id, name)
        stream.requests[request.request.request_id] = request
        self._stream_of[request.request.request_id] = stream_id
        self._try(stream, request)

    def _choose(self, request: _Request) -> str | None:
        self._forget_idle_streams()
        candidates = [
            Candidate(name, each.engine.status(), len(each.streams), each.draining, each.last_chosen)
            for name, each in self._replicas.items()
        ]
        return choose(candidates, request.refused_by)

    def _bind(self, stream_id: str, name: str) -> _Stream:
        self._turn += 1
        replica = self._replicas[name]
        replica.last_chosen = self._turn
        replica.streams.add(stream_id)
        stream = self._streams.get(stream_id)
        if stream is None:
            stream = self._streams[stream_id] = _Stream(name)
        stream.replica = name
        return stream

    def _try(self, stream: _Stream, request: _Request, *, resume: bool = False) -> None:
        request.attempt += 1
        request.text_made = 0
        attempt, replica = request.attempt, stream.replica

        def on_event(event: EngineEvent) -> None:
            if request.attempt == attempt and not request.finished:
                self._on_event(replica, request, event)

        submitted = request.request
        if resume:
            lead_s = max(0.0, stream.playout_end_s - self._clock.now_s())
            point = Resume(
                request.samples_received,
                request.samples_sent,
                request.words_received,
                lead_s,
                request.last_sample,
                request.codes,
            )
            submitted = replace(submitted, resume=point)
            request.resumed = True
        self._engine_of(stream).send(Submit(submitted), on_event)

    # -- Events --------------------------------------------------------------------------------------------------------

    def _on_event(self, replica: str, request: _Request, event: EngineEvent) -> None:
        match event:
            case AudioReady(samples=samples):
                if request.resumed:
                    self._on_redone("resumed" if request.samples_received else "restarted")
                request.resumed = False
                request.samples_received += len(samples)
                request.last_sample = float(samples[-1]) if len(samples) else request.last_sample
                request.sink(event)
            case CodesReady(offset=offset, codes=codes):
                request.codes = request.codes[:offset] + codes
            case RequestAccepted():
                if not request.accepted:
                    request.accepted = True
                    request.sink(event)
            case TextReady(text=text):
                new = text[max(0, request.text_received - request.text_made) :]
                request.text_made += len(text)
                request.text_received += len(new)
                if new:
                    request.sink(replace(event, text=new))
            case RequestFinished():
                self._on_finished(replica, request, event)
            case _:
                if isinstance(event, WordsReady):
                    request.words_received += len(event.words)
                request.sink(event)

    def _on_finished(self, replica: str, request: _Request, event: RequestFinished) -> None:
        stream_id = request.request.stream_id
        stream = self._streams.get(stream_id)
        if stream is not None and stream.requests.get(event.request_id) is not request:
            stream = None  # its stream has ended, and another one of this name may have begun
        error = event.error
        if stream is not None and not request.has_begun and type(error) is Overloaded:  # and has not waited
            request.refused_by[replica] = error
            if set(stream.requests) == {request.request.request_id} and (other := self._choose(request)) is not None:
                self._unbind(stream_id)
                self._bind(stream_id, other)
                self._try(stream, request)
                return
            error = min(request.refused_by.values(), key=lambda each: each.retry_after_s or 0.0)
        elif stream is not None and isinstance(error, EngineUnavailable):
            self._move(stream_id, lost=True)
            return
        self._finish(request, replace(event, error=error))

    def _finish(self, request: _Request, event: RequestFinished) -> None:
        request.finished = True
        if event.reason is FinishReason.CANCELLED or request.samples_sent >= request.samples_received:
            self._forget(request.request.request_id)
        request.sink(event)

    # -- Losses --------------------------------------------------------------------------------------------------------

    def _move(self, stream_id: str, *, lost: bool) -> None:
        """Gives all requests of a listener to another replica, in their order."""
        stream = self._streams[stream_id]
        self._unbind(stream_id)
        moved = []
        for request in [each for each in stream.requests.values() if not each.finished]:
            request.attempt += 1  # drops the events of the old replica
            request.refused_by.clear()
            request.losses += lost
            if request.cancelled:
                self._finish(request, RequestFinished(request.request.request_id, FinishReason.CANCELLED))
            elif request.losses >= MAX_ATTEMPTS:
                self._fail(request, SynthesisFailed("the engine was lost each time it made this sentence"), "given_up")
            elif request.has_begun and self.info.resume_fade_s is None:
                self._fail(request, EngineUnavailable("the engine was lost in this sentence"), "not_repeatable")
            else:
                moved.append(request)
        name = self._choose(moved[0]) if moved else None
        if name is None:
            for request in moved:
                self._fail(request, EngineUnavailable(f"the engine was lost: {self.status().reason}"), "no_replica")
            self._drop(stream_id)
            return
        self._bind(stream_id, name)
        log.info("a listener moves to replica %s with %d sentences", name, len(moved))
        in_speech = stream.playout_end_s > -math.inf
        for position, request in enumerate(moved):
            # Its first sentence goes ahead of all who wait there, and the others are of its listener.
            self._try(stream, request, resume=request.has_begun or (in_speech and position == 0))

    def _fail(self, request: _Request, error: RealtimeTTSError, outcome: str) -> None:
        self._on_redone(outcome)
        self._finish(request, RequestFinished(request.request.request_id, FinishReason.ERROR, error=error))

    # -- Bookkeeping ---------------------------------------------------------------------------------------------------

    def _find(self, request_id: str) -> _Request | None:
        stream_id = self._stream_of.get(request_id)
        return None if stream_id is None else self._streams[stream_id].requests[request_id]

    def _forward(self, request_id: str, command: EngineCommand) -> None:
        if (stream_id := self._stream_of.get(request_id)) is not None:
            self._engine_of(self._streams[stream_id]).send(command)

    def _audio_sent(self, command: AudioSent) -> None:
        request = self._find(command.request_id)
        if request is None:
            return
        stream = self._streams[request.request.stream_id]
        stream.playout_end_s = self._clock.now_s() + command.lead_s
        request.samples_sent += command.samples
        self._engine_of(stream).send(command)
        if request.finished and request.samples_sent >= request.samples_received:
            self._forget(command.request_id)

    def _forget(self, request_id: str) -> None:
        if (stream_id := self._stream_of.pop(request_id, None)) is not None:
            del self._streams[stream_id].requests[request_id]

    def _end_stream(self, stream_id: str) -> None:
        if (stream := self._streams.get(stream_id)) is None:
            return
        engine = self._replicas[stream.replica].engine
        self._drop(stream_id)
        engine.send(EndStream(stream_id))  # ends its requests, with an event each

    def _drop(self, stream_id: str) -> None:
        self._unbind(stream_id)
        for request_id in self._streams.pop(stream_id).requests:
            self._stream_of.pop(request_id, None)

    def _unbind(self, stream_id: str) -> None:
        if (replica := self._replicas.get(self._streams[stream_id].replica)) is not None:
            replica.streams.discard(stream_id)

    def _engine_of(self, stream: _Stream) -> EngineHandle:
        return self._replicas[stream.replica].engine

    def _forget_idle_streams(self) -> None:
        now_s = self._clock.now_s()
        for stream_id in [key for key, each in self._streams.items() if each.is_idle(now_s)]:
            self._end_stream(stream_id)
