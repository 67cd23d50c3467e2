"""A session whose outputs are carried out at once, by an engine that answers when the test says so."""

import json
from collections.abc import Iterable
from typing import Any

from realtime_tts.engine.api import AudioReady, FinishReason, RequestFinished, SynthesisRequest
from realtime_tts.engine.models import tone
from realtime_tts.errors import RealtimeTTSError
from realtime_tts.session.limits import SessionLimits
from realtime_tts.session.outputs import Close, EndStream, Send, Submit
from realtime_tts.session.session import Output, Session
from realtime_tts.session.utterance import SendAudio, SendSentenceDone, SendUtteranceDone

INFO = tone.info()
STREAM = {"type": "session.config", "response_format": "pcm", "stream_audio": True}
DONE = {"type": "input.done"}


class Harness:
    def __init__(self, limits: SessionLimits | None = None) -> None:
        self.session = Session("sid", INFO, limits or SessionLimits(), now_s=0.0, expires_at=1e9)
        self.now_s = 0.0
        self.sent: list[Any] = []
        self.submitted: list[SynthesisRequest] = []
        self.ended_streams: list[str] = []
        self.routed = 0.0

    def client(self, *messages: dict[str, Any]) -> None:
        for message in messages:
            self.carry_out(self.session.receive(json.dumps(message), self.now_s))

    def text(self, *pieces: str) -> None:
        self.client(*({"type": "input.text", "text": piece} for piece in pieces))

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

    def carry_out(self, outputs: Iterable[Output]) -> None:
        for output in outputs:
            match output:
                case Submit(request=request):
                    self.submitted.append(request)
                case EndStream(stream_id=stream_id):
                    self.ended_streams.append(stream_id)
                case Send(message=message):
                    self.sent.append(message)
                case SendAudio():
                    self.sent.append(output.data)
                    self.routed = self.session.on_audio_sent(output, self.now_s).playout_end_s
                case SendSentenceDone(job=job):
                    self.sent.append(job.done_message())
                    self.carry_out(self.session.on_sentence_sent())
                case SendUtteranceDone(utterance=utterance):
                    self.sent.append(utterance.done_message())
                case Close():
                    self.sent.append(output)

    def of(self, kind: type[Any]) -> list[Any]:
        return [each for each in self.sent if isinstance(each, kind)]


def configured(limits: SessionLimits | None = None, **fields: Any) -> Harness:
    harness = Harness(limits)
    harness.client({**STREAM, **fields})
    harness.sent.clear()
    return harness
