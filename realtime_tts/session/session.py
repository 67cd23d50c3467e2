"""Text in, ordered audio out: one client's session, sans I/O.  It never awaits, locks or reads a clock.

Every method returns what is to be done, in order.  Whoever carries it out calls `on_audio_sent` after each packet and
`on_sentence_sent` after each sentence: only what was routed to the socket moves the listener's playout clock.
"""

from collections import deque
from collections.abc import Iterator
from typing import TypeAlias

from realtime_tts.audio.playout import PlayoutLedger
from realtime_tts.engine.api import AudioReady, EngineEvent, ModelInfo, RequestFinished, SynthesisRequest
from realtime_tts.errors import InvalidConfig, RealtimeTTSError, TextTooLong
from realtime_tts.session.limits import SessionLimits
from realtime_tts.session.messages import (
    ClientMessage,
    InputDone,
    InputText,
    Limits,
    ServerError,
    ServerWarning,
    SessionClose,
    SessionConfig,
    SessionCreated,
    SessionUpdated,
)
from realtime_tts.session.outputs import Close, EndStream, Routed, Send, Submit
from realtime_tts.session.protocol import PROTOCOL, Protocol, State
from realtime_tts.session.sentences import Sentence, SentenceSplitter, is_speakable
from realtime_tts.session.settings import AUTO, SessionSettings, apply_config, primary_language
from realtime_tts.session.utterance import (
    SendAudio,
    SendSentenceDone,
    SendUtteranceDone,
    SentenceJob,
    Utterance,
)

Output: TypeAlias = Submit | EndStream | Send | SendAudio | SendSentenceDone | SendUtteranceDone | Close
"""Whatever a session may want done."""


class Session:
    def __init__(
        self, session_id: str, info: ModelInfo, limits: SessionLimits, *, now_s: float, expires_at: float
    ) -> None:
        """`expires_at` is Unix time and only told to the client; `now_s` and all later times are one `Clock`'s."""
        self.session_id = session_id
        self._info = info
        self._limits = limits
        self._expires_at = expires_at
        self._expires_s = now_s + limits.session_s
        self._active_s = now_s
        self._protocol = Protocol(limits, has_default_voice=info.default_voice is not None)
        self._settings = SessionSettings.default(info)
        self._announced = False
        self._utterance_count = 0
        self._writing: Utterance | None = None
        self._utterances: deque[Utterance] = deque()
        self._request_count = 0
        self._waiting: deque[SentenceJob] = deque()
        self._waiting_chars = 0
        self._submitted: dict[str, SentenceJob] = {}
        self._ahead = 0
        """Sentences handed to the engine and not yet wholly sent."""
        self._playout = PlayoutLedger()
        self._last_routed_s = now_s

    @property
    def closed(self) -> bool:
        return self._protocol.state is State.CLOSED

    @property
    def deadline_s(self) -> float:
        """When the session ends for want of activity, or of age."""
        return min(self._active_s + self._limits.idle_s, self._expires_s)

    # -- From the client -----------------------------------------------------------------------------------------------

    def receive(self, data: str | bytes, now_s: float) -> list[Output]:
        """One frame.  Never raises: what is wrong with it becomes an error message, and perhaps a close."""
        if self.closed:
            return []
        self._active_s = now_s
        outputs: list[Output] = []
        try:
            outputs.extend(self._on_message(self._protocol.receive(data), now_s))
        except RealtimeTTSError as error:
            outputs.extend(self.fail(error))
        return outputs

    def _on_message(self, message: ClientMessage, now_s: float) -> Iterator[Output]:
        match message:
            case SessionConfig():
                yield from self._on_config(message)
            case InputText(text=text):
                yield from self._on_text(text, now_s)
            case InputDone():
                yield from self._on_done(now_s)
            case SessionClose():
                if self._writing:
                    yield from self._on_done(now_s)
                else:
                    yield from self._advance()

    def _on_config(self, config: SessionConfig) -> Iterator[Output]:
        self._settings, ignored = apply_config(self._settings, config, self._info)
        yield from self._announce()
        yield Send(SessionUpdated(config=self._settings.in_force(self._info), ignored=ignored))

    def _announce(self) -> Iterator[Output]:
        if self._announced:
            return
        self._announced = True
        limits = self._limits
        yield Send(
            SessionCreated(
                session_id=self.session_id,
                protocol=PROTOCOL,
                model=self._info.name,
                voices=self._info.voice_names,
                sample_rate=self._info.sample_rate_hz,
                limits=Limits(
                    max_message_bytes=limits.max_message_bytes,
                    max_pending_chars=limits.max_pending_chars,
                    max_sentence_chars=limits.max_sentence_chars,
                    idle_s=limits.idle_s,
                    session_s=limits.session_s,
                ),
                expires_at=self._expires_at,
            )
        )

    def _on_text(self, text: str, now_s: float) -> Iterator[Output]:
        pending = self._waiting_chars + (self._writing.splitter.pending_chars if self._writing else 0)
        if pending + len(text) > self._limits.max_pending_chars:
            raise TextTooLong(
                f"{len(text)} more characters would make more than the {self._limits.max_pending_chars} that may wait"
                f" to be spoken ({pending} do already); nothing of this message was taken"
            )
        utterance = self._writing or self._begin_utterance(now_s)
        yield from self._announce()
        utterance.characters += len(text)
        yield from self._on_sentences(utterance, utterance.splitter.push(text), now_s)

    def _on_done(self, now_s: float) -> Iterator[Output]:
        utterance = self._writing or self._begin_utterance(now_s)
        yield from self._announce()
        self._writing = None
        utterance.complete = True
        yield from self._on_sentences(utterance, utterance.splitter.flush(), now_s)
        yield from self._advance()

    def _begin_utterance(self, now_s: float) -> Utterance:
        settings = self._settings
        if settings.voice is None:
            raise InvalidConfig("voice: this server has no default voice, so `session.config` must name one")
        language = settings.language
        if language == AUTO:
            language = next(voice.language for voice in self._info.voices if voice.name == settings.voice)
        splitter = SentenceSplitter(language=primary_language(language), max_chars=self._limits.max_sentence_chars)
        self._writing = Utterance(self._utterance_count, settings, splitter, began_s=now_s)
        self._utterance_count += 1
        self._utterances.append(self._writing)
        return self._writing

    def _on_sentences(self, utterance: Utterance, sentences: list[Sentence], now_s: float) -> Iterator[Output]:
        for sentence in sentences:
            if is_speakable(sentence.text):
                job = self._make_job(utterance, sentence, now_s)
                utterance.jobs.append(job)
                self._waiting.append(job)
                self._waiting_chars += len(sentence.text)
        # One warning for all: a single message can hold tens of thousands of lines without a word.
        if wordless := [sentence for sentence in sentences if not is_speakable(sentence.text)]:
            more = f" and {len(wordless) - 1} more like it" if len(wordless) > 1 else ""
            yield Send(
                ServerWarning(
                    code="nothing_to_speak",
                    message=f"there are no words in {wordless[0].text[:80]!r}{more}: passed over",
                    utterance_index=utterance.index,
                )
            )
        yield from self._fill()

    def _make_job(self, utterance: Utterance, sentence: Sentence, now_s: float) -> SentenceJob:
        settings = utterance.settings
        assert settings.voice is not None, "no utterance begins without a voice"
        request = SynthesisRequest(
            request_id=f"{self.session_id}/{self._request_count}",
            stream_id=self.session_id,
            text=sentence.text,
            voice=settings.voice,
            utterance_index=utterance.index,
            streamed=settings.stream_audio,
            speed=settings.speed,
            initial_codec_chunk_frames=settings.initial_codec_chunk_frames,
        )
        self._request_count += 1
        rate_hz = self._info.sample_rate_hz
        job = SentenceJob(utterance.total_sentences, sentence, utterance, request, rate_hz, closed_s=now_s)
        utterance.total_sentences += 1
        return job

    def _fill(self) -> Iterator[Output]:
        """Hands sentences to the engine: the one that speaks, and those right behind it.

        A sentence counts until it is sent, so a client who does not read stops its own generation, and only that.
        """
        while self._waiting and self._ahead <= self._limits.sentences_ahead:
            job = self._waiting.popleft()
            self._waiting_chars -= len(job.sentence.text)
            self._submitted[job.request.request_id] = job
            self._ahead += 1
            yield Submit(job.request)

    # -- From the engine -----------------------------------------------------------------------------------------------

    def on_engine(self, event: EngineEvent, now_s: float) -> list[Output]:
        """One event of a request of this session."""
        job = self._submitted.get(event.request_id)
        if job is None or self.closed:
            return []  # the session has ended while the engine was still at it
        self._active_s = now_s
        if isinstance(event, RequestFinished):
            del self._submitted[event.request_id]
            job.finished = event
            if event.error is not None and event.error.close_code is not None and self._is_first(job):
                return self.fail(event.error)
        elif isinstance(event, AudioReady):
            job.held.append(event.samples)
        return list(self._advance())

    def _is_first(self, job: SentenceJob) -> bool:
        """Whether nothing was heard of its utterance and nothing before it is still to come.

        Else an error is its sentence's alone: what is being spoken is never cut off for what was to follow.
        """
        utterance = self._utterances[0]
        return utterance.jobs[0] is job and job.index == 0 and not job.started

    def _advance(self) -> Iterator[Output]:
        """Passes on whatever is next in the order of hearing, as far as it is there."""
        while self._utterances:
            utterance = self._utterances[0]
            while utterance.jobs:
                job = utterance.jobs[0]
                yield from job.pass_on()
                if job.finished is None:
                    return
                utterance.jobs.popleft()
                yield from job.end(self.session_id)
            if not utterance.complete:
                return
            self._utterances.popleft()
            yield SendUtteranceDone(utterance)
        if self._protocol.state is State.CLOSING:
            yield from self._close(1000, "done")

    # -- From the socket -----------------------------------------------------------------------------------------------

    def on_audio_sent(self, audio: SendAudio, now_s: float) -> Routed:
        """`audio` was routed to the socket at `now_s`."""
        job = audio.job
        self._active_s = now_s
        if job.wanted_s is None:
            job.wanted_s = max(job.closed_s, self._last_routed_s)
        job.on_sent(audio, now_s, self._playout.playout_end_s)
        self._playout.record(arrived_at_s=now_s, duration_s=audio.duration_s)
        self._last_routed_s = now_s
        playout_end_s = self._playout.playout_end_s
        assert playout_end_s is not None, "a packet was just recorded"
        return Routed(job.request.request_id, audio.model_samples, playout_end_s)

    def on_sentence_sent(self) -> list[Output]:
        """A sentence has wholly gone out: there is room for another with the engine."""
        self._ahead -= 1
        return [] if self.closed else list(self._fill())

    # -- Ends ----------------------------------------------------------------------------------------------------------

    def fail(self, error: RealtimeTTSError) -> list[Output]:
        """Tells the client of `error`; where it has a close code, that is the end of the session."""
        fatal = error.close_code is not None
        message = ServerError(
            code=error.code,
            message=error.message,
            fatal=fatal,
            retryable=error.retryable,
            session_id=self.session_id,
            retry_after_ms=None if error.retry_after_s is None else error.retry_after_s * 1000,
        )
        outputs: list[Output] = [Send(message)]
        if error.close_code is not None:
            outputs.extend(self._close(error.close_code, error.code))
        return outputs

    def abandon(self) -> list[Output]:
        """Nobody listens any more: everything that was asked of the engine is taken back."""
        self._protocol.close()
        self._submitted.clear()
        self._waiting.clear()
        self._utterances.clear()
        return [EndStream(self.session_id)]

    def _close(self, code: int, reason: str) -> Iterator[Output]:
        yield from self.abandon()
        yield Close(code, reason)
