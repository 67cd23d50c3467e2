"""A session without sockets, engine or clock: a test sends messages, emits audio and sets the time."""

import dataclasses
import json
from collections.abc import Iterable
from typing import Any

from realtime_tts.clock import Clock
from realtime_tts.engine.api import (
    AudioReady,
    AudioSent,
    Cancel,
    EndStream,
    EngineHandle,
    Extend,
    FinishReason,
    ModelInfo,
    PlayoutEnd,
    RequestFinished,
    Submit,
    SynthesisRequest,
)
from realtime_tts.engine.models import tone
from realtime_tts.errors import RealtimeTTSError
from realtime_tts.frontends.native.decode import decode
from realtime_tts.frontends.native.encode import NativeEncoder
from realtime_tts.session.events import AudioChunk, AudioEnd, Closed, SessionEvent
from realtime_tts.session.frontend import FrontEnd
from realtime_tts.session.limits import Quota, SessionLimits
from realtime_tts.session.observer import SessionObserver
from realtime_tts.session.runner import SessionRunner
from realtime_tts.session.session import Command, FetchReference, Session

INFO = tone.info()
STREAM = {"type": "session.config", "response_format": "pcm", "stream_audio": True}
FLUSH = {"type": "input.flush"}
DONE = {"type": "input.done"}
CANCEL = {"type": "input.cancel"}
READING_AHEAD = dataclasses.replace(INFO, reads_ahead=True)
AUDIO = tone.render(SynthesisRequest("any", "any", "Hello.", "tone_low"))


class Harness:
    def __init__(self, limits: SessionLimits | None = None, info: ModelInfo = INFO, quota: Quota | None = None) -> None:
        self._limits = limits or SessionLimits()
        self.session = Session("sid", {info.name: info}, self._limits, now_s=0.0, expires_at_unix_s=1e9, quota=quota)
        self.encoder = NativeEncoder("sid")
        self.now_s = 0.0
        self.sent: list[Any] = []
        self.submitted: list[SynthesisRequest] = []
        self.cancelled: list[str] = []
        self.extended: list[Extend] = []
        self.ended_streams: list[str] = []
        self.fetching: list[str] = []
        self.sent_samples: dict[str, int] = {}
        self.playout_end_s = 0.0
        self._sending = False
        self.client_reads = True

    def client(self, *messages: dict[str, Any]) -> None:
        for message in messages:
            self.frame(json.dumps(message))
            while self.session.has_backlog:
                self.execute(self.session.process_backlog(self.now_s))

    def frame(self, data: str | bytes) -> None:
        """Receives one text or binary frame."""
        limit = self._limits.max_message_bytes
        raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
        try:
            item = decode(raw, is_binary=isinstance(data, bytes), max_message_bytes=limit)
        except RealtimeTTSError as error:
            self.execute(self.session.reject(error, self.now_s))
        else:
            self.execute(self.session.receive(item, self.now_s))

    def text(self, *pieces: str, **fields: Any) -> None:
        """Sends each piece as one `input.text`."""
        self.client(*({"type": "input.text", "text": piece, **fields} for piece in pieces))

    def audio(self, request: SynthesisRequest, frames: slice = slice(None)) -> None:
        samples = tone.decode(tone.codes(request)[frames])
        self.execute(self.session.on_engine(AudioReady(request.request_id, samples), self.now_s))

    def finish(self, request: SynthesisRequest, error: RealtimeTTSError | None = None) -> None:
        reason = FinishReason.COMPLETE if error is None else FinishReason.ERROR
        event = RequestFinished(request.request_id, reason, error=error)
        self.execute(self.session.on_engine(event, self.now_s))

    def complete(self, request: SynthesisRequest) -> None:
        """All audio of a request, and its end."""
        self.audio(request)
        self.finish(request)

    def complete_all(self) -> None:
        for request in self.submitted:  # grows meanwhile: each completed sentence submits another
            self.complete(request)

    def advance_to(self, now_s: float) -> None:
        """Moves the time to `now_s`, and calls `on_time` at each deadline before it."""
        while not self.session.closed and self.session.deadline_s <= now_s:
            self.now_s = max(self.now_s, self.session.deadline_s)
            self.execute(self.session.on_time(self.now_s))
        self.now_s = now_s

    def execute(self, commands: Iterable[Command]) -> None:
        for command in commands:
            match command:
                case Submit(request=request):
                    self.submitted.append(request)
                case Extend():
                    self.extended.append(command)
                case Cancel(request_id=request_id):
                    self.cancelled.append(request_id)
                case EndStream(stream_id=stream_id):
                    self.ended_streams.append(stream_id)
                case AudioSent(request_id=request_id, samples=samples, lead_s=lead_s):
                    self.sent_samples[request_id] = self.sent_samples.get(request_id, 0) + samples
                    self.playout_end_s = self.now_s + lead_s
                case PlayoutEnd(lead_s=lead_s):
                    self.playout_end_s = self.now_s + lead_s
                case FetchReference(ref_audio=ref_audio):
                    self.fetching.append(ref_audio)
        self.send()

    def send(self) -> None:
        if self._sending:
            return  # called from inside the loop below, which sends what has been added
        self._sending = True
        while self.client_reads and (event := self.session.next()) is not None:
            self._send_event(event)
        self._sending = False

    def _send_event(self, event: SessionEvent) -> None:
        if isinstance(event, Closed):
            self.sent.append(event)
        elif not isinstance(event, AudioChunk | AudioEnd):
            if (message := self.encoder.message(event)) is not None:
                self.sent.append(message)
            self.execute(self.session.on_event_sent(event, self.now_s))
        else:
            for frame in self.encoder.encode(event):
                self.sent.append(frame.data)
                if frame.audio_s:
                    sent = self.session.on_audio_sent(event, frame.audio_s, self.now_s)
                    self.execute(() if sent is None else (sent,))
                if not self.session.wants(event):
                    break

    def of(self, kind: type[Any]) -> list[Any]:
        """Everything of one type that was sent, in order."""
        return [each for each in self.sent if isinstance(each, kind)]


def configured(limits: SessionLimits | None = None, **fields: Any) -> Harness:
    harness = Harness(limits)
    harness.client({**STREAM, **fields})
    harness.sent.clear()
    return harness


def in_context(context_id: str | None, message: dict[str, Any]) -> dict[str, Any]:
    return {**message, "context_id": context_id}


def make_session(limits: SessionLimits, clock: Clock, kind: type[Session] = Session) -> Session:
    return kind("sid", {"tone": INFO}, limits, now_s=clock.now_s(), expires_at_unix_s=0.0)


def make_runner(
    front_end: FrontEnd,
    engine: EngineHandle,
    limits: SessionLimits,
    clock: Clock,
    *,
    session: Session | None = None,
    observer: SessionObserver | None = None,
) -> SessionRunner:
    session = session or make_session(limits, clock)
    return SessionRunner(front_end, {"tone": engine}, session, clock, limits, observer=observer)
