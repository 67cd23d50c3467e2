"""Record of one load-test request, sans I/O: the server's messages and audio go in, an `Outcome` comes out.

Both load tests use it with their own sockets.  Times are seconds from the start of the run.
"""

import numpy as np

from bench.summary import Outcome, Packet, ServerFigures, Status, judge
from realtime_tts.audio.format import AudioFormat, Encoding
from realtime_tts.frontends.native.messages import AnyServerMessage, AudioDone, AudioStart, ServerError, SessionDone

AUDIBLE = round(10 ** (-40 / 20) * 32768)
"""A 16-bit sample above -40 dBFS is audible: the server's own threshold (protocol.md, `ttfa_ms`)."""
OVERLOADED, TRY_AGAIN_LATER = "overloaded", 1013
"""The error and the close code of a refusal on an accepted connection."""


class RequestRecord:
    """Collects the audio (PCM) and messages of one utterance until it ends."""

    def __init__(self, text: str, intended_s: float, session: str | None = None) -> None:
        self.text = text
        self.intended_s = intended_s
        self.session = session
        self._sent_s: float | None = None
        self._ended_s: float | None = None
        self._status = Status.UNFINISHED
        self._reason = ""
        self._retry_after_s: float | None = None
        self._server: ServerFigures | None = None
        self._timeline: list[Packet] = []
        self._ttfa_s: float | None = None
        self._playback_end_s = 0.0
        self._sentence_bytes = 0

    @property
    def status(self) -> Status:
        return self._status

    @property
    def ended(self) -> bool:
        return self._ended_s is not None

    @property
    def retry_after_s(self) -> float | None:
        return self._retry_after_s

    @property
    def playback_end_s(self) -> float:
        """When playback of the audio received so far ends."""
        return self._playback_end_s

    # -- Events --------------------------------------------------------------------------------------------------------

    def on_sending(self, now_s: float) -> None:
        """The client is about to send the first text."""
        self._sent_s = now_s

    def on_audio(self, data: bytes, sample_rate_hz: int, now_s: float) -> None:
        audio_format = AudioFormat(Encoding.PCM, sample_rate_hz)
        duration_s = audio_format.seconds(audio_format.samples_in(len(data)))
        if self._ttfa_s is None and (silent := silent_samples(data)) is not None:
            self._ttfa_s = max(self._playback_end_s, now_s) + silent / sample_rate_hz - self.intended_s
        self._sentence_bytes += len(data)
        self.on_packet(duration_s, now_s)

    def on_packet(self, duration_s: float, now_s: float) -> None:
        """Audio of which only the duration is known, as in a simulation."""
        self._playback_end_s = max(self._playback_end_s, now_s) + duration_s
        self._timeline.append(Packet(now_s, duration_s))

    def on_message(self, message: AnyServerMessage, now_s: float) -> None:
        match message:
            case AudioStart():
                self._sentence_bytes = 0
            case AudioDone(error=True, sentence_index=index):
                self.fail(f"sentence {index} failed", now_s)
            case AudioDone(total_bytes=total, sentence_index=index) if total != self._sentence_bytes:
                self.fail(f"sentence {index}: received {self._sentence_bytes} of {total} bytes", now_s)
            case ServerError(code=code, message=reason, retry_after_ms=retry_after_ms):
                if code == OVERLOADED:
                    self.refuse(reason, now_s, None if retry_after_ms is None else retry_after_ms / 1000)
                else:
                    self.fail(f"{code}: {reason}", now_s)
            case SessionDone(continuity=continuity):
                ttfp_s = None if continuity.ttfp_ms is None else continuity.ttfp_ms / 1000
                self._server = ServerFigures(ttfp_s, continuity.max_underrun_ms / 1000)
                self.finish(now_s)

    def on_closed(self, close_code: int | None, reason: str, now_s: float) -> None:
        """The connection ended before the utterance did."""
        if close_code == TRY_AGAIN_LATER:
            self.refuse(reason, now_s)
        else:
            self.fail(reason, now_s)

    def refuse(self, reason: str, now_s: float, retry_after_s: float | None = None) -> None:
        """The server has no capacity.  After the first audio this is a failure: a refusal comes before any audio."""
        if self._timeline:
            self.fail(f"refused in mid-speech: {reason}", now_s)
            return
        if self._retry_after_s is None:  # the close that may follow carries no such time
            self._retry_after_s = retry_after_s
        self._end(Status.REFUSED, reason, now_s)

    def finish(self, now_s: float) -> None:
        """All audio was received."""
        self._end(Status.OK, "", now_s)

    def fail(self, reason: str, now_s: float) -> None:
        self._end(Status.FAILED, reason, now_s)

    def interrupt(self, now_s: float) -> None:
        """The test ends; a request that has ended keeps its status."""
        self._end(Status.UNFINISHED, "", now_s)

    def _end(self, status: Status, reason: str, now_s: float) -> None:
        # The first end counts: a failed sentence is followed by a `session.done`, a refusal by a close.
        if self._ended_s is None:
            self._status, self._reason, self._ended_s = status, reason, now_s

    def outcome(self) -> Outcome:
        assert self._ended_s is not None, "the request is still running: interrupt it first"
        return judge(
            intended_s=self.intended_s,
            ended_s=self._ended_s,
            status=self._status,
            timeline=self._timeline,
            reason=self._reason,
            sent_s=self._sent_s,
            ttfa_s=self._ttfa_s,
            retry_after_s=self._retry_after_s,
            server=self._server,
            text=self.text,
        )


def silent_samples(data: bytes) -> int | None:
    """The number of 16-bit samples before the first audible one; None where all are silent."""
    audible = np.abs(np.frombuffer(data, "<i2").astype(np.int32)) > AUDIBLE
    return int(audible.argmax()) if audible.any() else None
