"""One answer: its text comes from the Thinker and its audio from the speech engine, and both end once.  Sans-I/O."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeAlias

from realtime_tts.engine.api import (
    AnswerRequest,
    Cancel,
    EngineCommand,
    EngineEvent,
    Extend,
    FinishReason,
    RequestAccepted,
    RequestFinished,
    Submit,
    SynthesisMetrics,
    SynthesisRequest,
    TextEnd,
    TextFinished,
    TextReady,
)
from realtime_tts.engine.thinking.loop import ThinkerRequest
from realtime_tts.engine.thinking.stop_texts import StopTexts
from realtime_tts.engine.thinking.thinker import ChatPrompt, TextDecoder, Written
from realtime_tts.errors import Overloaded, RealtimeTTSError, SynthesisFailed


@dataclass(frozen=True, slots=True)
class Think:
    """To the Thinker: a new request."""

    request: ThinkerRequest


@dataclass(frozen=True, slots=True)
class Forget:
    """To the Thinker: the end of a request, which may have ended there already."""

    request_id: str


Action: TypeAlias = Think | Forget | EngineCommand | EngineEvent
"""For the Thinker, for the speech engine, or for the client."""


class Phase(StrEnum):
    """Of the text, and of the speech."""

    WAITING = "waiting"
    """The speech engine has not accepted the request yet, and the Thinker does not know it."""
    OPEN = "open"
    ENDED = "ended"


class Answer:
    """The life of one answer.  Every method returns what is to be done at once; `ended` after the `RequestFinished`."""

    def __init__(self, request: AnswerRequest, prompt: ChatPrompt, decoder: TextDecoder, *, submitted_s: float) -> None:
        self.request = request
        self.submitted_s = submitted_s
        self.text = Phase.WAITING
        self.speech = Phase.ENDED if request.voice is None else Phase.WAITING
        self.tokens = 0
        """Written so far."""
        self.ended = False
        self._prompt = prompt
        self._decoder = decoder
        self._stops = StopTexts(request.text_sampling.stop)
        self._held: deque[tuple[int, int]] = deque()
        """Tokens whose text may be the beginning of a stop text: id, and the end of its text in the whole answer."""
        self._decoded_chars = 0
        self._released_chars = 0
        self._spoken_tokens = 0
        self._refusal: RealtimeTTSError | None = None
        self._error: RealtimeTTSError | None = None
        self._speech_end: RequestFinished | None = None
        self._context_sent = not prompt.thinker.wants_rows

    @property
    def request_id(self) -> str:
        return self.request.request_id

    @property
    def positions(self) -> int:
        """What it may need of the Thinker's memory."""
        return len(self._prompt.thinker.ids) + self.request.text_sampling.max_tokens

    # -- Admission -----------------------------------------------------------------------------------------------------

    def begin(self, refusal: Overloaded | None, *, continues: bool) -> Iterator[Action]:
        """`refusal`: why the Thinker has no capacity for it.  It is admitted to both engines or to neither."""
        self._refusal = refusal
        self._continues = continues
        if self.request.voice is None:
            yield from self._on_admission()
            return
        request = self.request
        yield Submit(
            SynthesisRequest(
                request_id=request.request_id,
                stream_id=request.stream_id,
                text="",
                text_complete=False,
                voice=self.request.voice,
                utterance_index=request.utterance_index,
                streamed=request.streamed,
                live=request.live,
                initial_codec_chunk_frames=request.initial_codec_chunk_frames,
                sampling=request.sampling,
                # With rows to come the context is not complete: the speech model then waits for it.
                context=self._prompt.context if self._context_sent else None,
            )
        )

    def _on_admission(self) -> Iterator[Action]:
        if self._refusal is not None:
            yield from self.cancel_engines()
            yield from self._end(FinishReason.ERROR, self._refusal)
            return
        self.text = Phase.OPEN
        request = self.request
        yield Think(
            ThinkerRequest(request.request_id, self._prompt.thinker, request.text_sampling, continues=self._continues)
        )

    # -- From the Thinker ----------------------------------------------------------------------------------------------

    def written(self, step: Written) -> Iterator[Action]:
        """The next tokens, or the end of the text."""
        if self.ended or self.text is not Phase.OPEN:
            return
        if step.error is not None:
            yield from self._on_thinker_error(step.error)
            return
        self.tokens += len(step.ids)
        text, ids = self._read(step.ids)
        end = TextEnd.STOP if self._stops.found else step.end
        if self._stops.found and step.end is None:
            yield Forget(self.request_id)
        if end is not None and not self._stops.found:
            rest = self._flush()
            text, ids = text + rest[0], ids + rest[1]
        if text or step.ids:
            yield TextReady(self.request_id, text, len(step.ids))
        if self.speech is Phase.OPEN:
            yield from self._to_speech(step, ids, complete=end is not None)
        if end is not None:
            yield from self._end_text(end)

    def _to_speech(self, step: Written, ids: tuple[int, ...], *, complete: bool) -> Iterator[Action]:
        context = None
        if not self._context_sent and step.rows is not None:
            context = replace(self._prompt.context, rows=step.rows)
            self._context_sent = True
        if ids and not self._context_sent:
            yield from self._fail(SynthesisFailed("the Thinker gave no hidden states of the audio or images"))
            return
        self._spoken_tokens += len(ids)
        if complete and not self._spoken_tokens:
            # There is nothing to speak: the speech model cannot begin without a token.
            self.speech = Phase.ENDED
            yield Cancel(self.request_id)
        elif ids or complete or context is not None:
            yield Extend(self.request_id, "", complete, ids, context)

    def _read(self, ids: Sequence[int]) -> tuple[str, tuple[int, ...]]:
        """Decodes tokens; returns the text that can be sent, and the tokens that can be spoken."""
        text = ""
        for token in ids:
            if self._stops.found:
                break
            decoded = self._decoder.push(token)
            self._decoded_chars += len(decoded)
            text += self._stops.push(decoded)
            self._held.append((token, self._decoded_chars))
        self._released_chars += len(text)
        return text, self._released_ids()

    def _flush(self) -> tuple[str, tuple[int, ...]]:
        text = self._stops.push(self._decoder.flush()) + self._stops.flush()
        ids = tuple(token for token, _end in self._held)
        self._held.clear()
        return text, ids

    def _released_ids(self) -> tuple[int, ...]:
        ids = []
        while self._held and self._held[0][1] <= self._released_chars:
            ids.append(self._held.popleft()[0])
        return tuple(ids)

    def _on_thinker_error(self, error: RealtimeTTSError) -> Iterator[Action]:
        """Nothing was written: the answer fails.  Else what was written is spoken to its end."""
        if not self.tokens:
            yield from self._fail(error)
            return
        self._error = error
        if self.speech is Phase.OPEN:
            yield from self._to_speech(Written(self.request_id, ()), (), complete=True)
        yield from self._end_text(TextEnd.ERROR)

    def _end_text(self, end: TextEnd) -> Iterator[Action]:
        if self.ended:
            return
        self.text = Phase.ENDED
        yield TextFinished(self.request_id, end, len(self._prompt.thinker.ids), self.tokens)
        if self.speech is Phase.ENDED:
            yield from self._end_regularly()

    # -- From the speech engine ----------------------------------------------------------------------------------------

    def spoken(self, event: EngineEvent) -> Iterator[Action]:
        """Audio passes; the end is that of both."""
        if self.ended:
            return
        match event:
            case RequestAccepted():
                if self.speech is Phase.WAITING:
                    self.speech = Phase.OPEN
                    yield from self._on_admission()
            case RequestFinished():
                yield from self._on_speech_end(event)
            case _:
                yield event

    def _on_speech_end(self, event: RequestFinished) -> Iterator[Action]:
        was_waiting = self.speech is Phase.WAITING
        if self.speech is Phase.ENDED:  # of a cancel, as there was nothing to speak
            return
        self.speech, self._speech_end = Phase.ENDED, event
        if was_waiting:
            yield from self._end(event.reason, _later(event.error, self._refusal), event.metrics)
        elif event.reason in (FinishReason.ERROR, FinishReason.CANCELLED):
            yield Forget(self.request_id)
            if self.text is Phase.OPEN:
                self.text = Phase.ENDED
                yield TextFinished(self.request_id, TextEnd.ERROR, len(self._prompt.thinker.ids), self.tokens)
            yield from self._end(event.reason, event.error, event.metrics)
        elif self.text is Phase.ENDED:
            yield from self._end_regularly()

    # -- Ends ----------------------------------------------------------------------------------------------------------

    def cancel(self) -> Iterator[Action]:
        """In any phase."""
        if not self.ended:
            yield from self.cancel_engines()
            yield from self._end(FinishReason.CANCELLED)

    def fail(self, error: RealtimeTTSError) -> Iterator[Action]:
        if not self.ended:
            yield from self._fail(error)

    def cancel_engines(self) -> Iterator[Action]:
        if self.text is Phase.OPEN:
            yield Forget(self.request_id)
        if self.speech is not Phase.ENDED:
            yield Cancel(self.request_id)

    def _fail(self, error: RealtimeTTSError) -> Iterator[Action]:
        yield from self.cancel_engines()
        yield from self._end(FinishReason.ERROR, error)

    def _end_regularly(self) -> Iterator[Action]:
        """Both have ended.  An answer that the Thinker could not complete is truncated."""
        speech = self._speech_end
        reason = FinishReason.COMPLETE if speech is None else speech.reason
        error = self._error or (None if speech is None else speech.error)
        if self._error is not None:
            reason = FinishReason.TRUNCATED
        yield from self._end(reason, error, None if speech is None else speech.metrics)

    def _end(
        self, reason: FinishReason, error: RealtimeTTSError | None = None, metrics: SynthesisMetrics | None = None
    ) -> Iterator[Action]:
        assert not self.ended, f"answer {self.request_id} has ended twice"
        self.ended = True
        self.text = self.speech = Phase.ENDED
        yield RequestFinished(self.request_id, reason, metrics, error)


def _later(error: RealtimeTTSError | None, other: RealtimeTTSError | None) -> RealtimeTTSError | None:
    """Of two refusals the one that asks for a later retry."""
    if other is None or error is None or not isinstance(error, Overloaded):
        return error
    return max(error, other, key=lambda each: each.retry_after_s or 0.0)
