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
from realtime_tts.session.dialogue import Quota
from realtime_tts.session.limits import SessionLimits
from realtime_tts.session.outputs import Close, Command, FetchReference
from realtime_tts.session.session import Session
from realtime_tts.session.telling import message_of
from realtime_tts.session.utterance import SendAudio, SendSentenceDone

INFO = tone.info()
STREAM = {"type": "session.config", "response_format": "pcm", "stream_audio": True}
DONE = {"type": "input.done"}


class Harness:
    def __init__(self, limits: SessionLimits | None = None, info: ModelInfo = INFO, quota: Quota | None = None) -> None:
        self.session = Session("sid", info, limits or SessionLimits(), now_s=0.0, expires_at=1e9, quota=quota)
        self.now_s = 0.0
        self.sent: list[Any] = []
        self.submitted: list[SynthesisRequest] = []
        self.cancelled: list[str] = []
        self.extended: list[Extend] = []
        self.ended_streams: list[str] = []
        self.fetching: list[str] = []
        self.sent_samples: dict[str, int] = {}
        self.playout_end_s = 0.0
        self.reads = True
        """Whether the client takes what is sent."""

    def client(self, *messages: dict[str, Any]) -> None:
        for message in messages:
            self.carry_out(self.session.receive(json.dumps(message), self.now_s))
            while self.session.backlogged:
                self.carry_out(self.session.work_off(self.now_s))

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
        while self.reads and (output := self.session.next()) is not None:
            match output:
                case SendAudio():
                    self.sent.append(output.header + output.data)
                    self.carry_out(self.session.on_audio_sent(output, self.now_s))
                case Close():
                    self.sent.append(output)
                case _:
                    self.sent.append(message_of(output, "sid"))
                    if isinstance(output, SendSentenceDone):
                        self.carry_out(self.session.on_sentence_sent(output.job, self.now_s))

    def of(self, kind: type[Any]) -> list[Any]:
        return [each for each in self.sent if isinstance(each, kind)]


def configured(limits: SessionLimits | None = None, **fields: Any) -> Harness:
    harness = Harness(limits)
    harness.client({**STREAM, **fields})
    harness.sent.clear()
    return harness
