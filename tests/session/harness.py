"""A session whose outputs are carried out at once, by an engine that answers when the test says so."""

import json
from collections.abc import Iterable
from typing import Any

from realtime_tts.engine.api import (
    AudioReady,
    AudioSent,
    Cancel,
    EndStream,
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
from realtime_tts.session.limits import SessionLimits
from realtime_tts.session.session import Command, FetchReference, Quota, Session

INFO = tone.info()
STREAM = {"type": "session.config", "response_format": "pcm", "stream_audio": True}
DONE = {"type": "input.done"}


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
        self.reads = True
        """Whether the client takes what is sent."""

    def client(self, *messages: dict[str, Any]) -> None:
        for message in messages:
            self.frame(json.dumps(message))
            while self.session.has_backlog:
                self.carry_out(self.session.process_backlog(self.now_s))

    def frame(self, data: str | bytes) -> None:
        """One frame as it arrives: text, or binary."""
        limit = self._limits.max_message_bytes
        raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
        try:
            item = decode(raw, is_binary=isinstance(data, bytes), max_message_bytes=limit)
        except RealtimeTTSError as error:
            self.carry_out(self.session.reject(error, self.now_s))
        else:
            self.carry_out(self.session.receive(item, self.now_s))

    def text(self, *pieces: str, **fields: Any) -> None:
        self.client(*({"type": "input.text", "text": piece, **fields} for piece in pieces))

    def audio(self, request: SynthesisRequest, frames: slice = slice(None)) -> None:
        samples = tone.decode(tone.codes(request)[frames])
        self.carry_out(self.session.on_engine(AudioReady(request.request_id, samples), self.now_s))

    def finish(self, request: SynthesisRequest, error: RealtimeTTSError | None = None) -> None:
        reason = FinishReason.COMPLETE if error is None else FinishReason.ERROR
        event = RequestFinished(request.request_id, reason, error=error)
        self.carry_out(self.session.on_engine(event, self.now_s))

    def speak(self, request: SynthesisRequest) -> None:
        self.audio(request)
        self.finish(request)

    def speak_all(self) -> None:
        spoken = 0
        while spoken < len(self.submitted):
            self.speak(self.submitted[spoken])
            spoken += 1

    def at(self, now_s: float) -> None:
        """Lets the time pass, with a look at the clock whenever one is due."""
        while not self.session.closed and self.session.deadline_s <= now_s:
            self.now_s = max(self.now_s, self.session.deadline_s)
            self.carry_out(self.session.on_time(self.now_s))
        self.now_s = now_s

    def carry_out(self, commands: Iterable[Command]) -> None:
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
            return  # what was sent just now has made more: the loop below sends it in its turn
        self._sending = True
        while self.reads and (event := self.session.next()) is not None:
            self._send_event(event)
        self._sending = False

    def _send_event(self, event: SessionEvent) -> None:
        if isinstance(event, Closed):
            self.sent.append(event)
        elif not isinstance(event, AudioChunk | AudioEnd):
            self.sent.append(self.encoder.message(event))
            self.carry_out(self.session.on_event_sent(event, self.now_s))
        else:
            for frame in self.encoder.encode(event):
                self.sent.append(frame.data)
                if frame.audio_s:
                    sent = self.session.on_audio_sent(event, frame.audio_s, self.now_s)
                    self.carry_out(() if sent is None else (sent,))
                if not self.session.wants(event):
                    break

    def of(self, kind: type[Any]) -> list[Any]:
        return [each for each in self.sent if isinstance(each, kind)]


def configured(limits: SessionLimits | None = None, **fields: Any) -> Harness:
    harness = Harness(limits)
    harness.client({**STREAM, **fields})
    harness.sent.clear()
    return harness
