"""What is said in a session: its contexts, their utterances and tracks, and all that waits to be sent, in order."""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from realtime_tts.engine.api import AudioReady, EndStream, EngineEvent, ModelInfo, RequestFinished, WordsReady
from realtime_tts.errors import (
    InvalidConfig,
    RealtimeTTSError,
    SessionEnding,
    TextTooLong,
    TooManyContexts,
    TooMuchUnspoken,
)
from realtime_tts.session import request_builder as jobs
from realtime_tts.session.context import Cancellation, Context
from realtime_tts.session.limits import SessionLimits
from realtime_tts.session.messages import ServerWarning, printable
from realtime_tts.session.outputs import Close, Command, Send
from realtime_tts.session.playback_queue import Track
from realtime_tts.session.settings import AUTO, SessionSettings, primary_language
from realtime_tts.session.utterance import (
    SendAudio,
    SendFailure,
    Sending,
    SendSentenceDone,
    SendStart,
    SendUtteranceDone,
    SendWords,
    SentenceJob,
    Utterance,
)
from realtime_tts.text.cleaner import TextCleaner
from realtime_tts.text.splitter import Sentence, SentenceSplitter, is_speakable

BLOCK_CHARS = 4096
"""Of text that are cut into sentences at a time: 5 to 20 ms of work for sentences of one letter."""
EARLY_WORDS = 3
"""Of a sentence, before a model that reads ahead begins: with fewer it would guess at the melody."""
MAX_REMEMBERED_CONTEXTS = 64
"""Closed ones whose sound may still be playing somewhere."""


@dataclass(frozen=True, slots=True)
class SendCancelled:
    """Becomes `audio.cancelled`."""

    cancellation: Cancellation


Outgoing: TypeAlias = Send | Sending | SendUtteranceDone | SendCancelled | Close


class Quota(Protocol):
    """How much a client may have spoken."""

    def charge(self, characters: int) -> None:
        """Counts them.  Raises a `RealtimeTTSError` where they are more than is left; then none are counted."""
        ...


class Dialogue:
    def __init__(
        self, session_id: str, info: ModelInfo, limits: SessionLimits, quota: Quota | None, now_s: float
    ) -> None:
        self.outgoing: deque[Outgoing] = deque()
        self._session_id = session_id
        self._info = info
        self._limits = limits
        self._quota = quota
        self._contexts: dict[str | None, Context] = {}
        self._shared = Track(session_id, limits.sentences_ahead, now_s)
        self._tracks: dict[str, Track] = {session_id: self._shared}
        self._utterance_count = 0
        self._jobs = jobs.JobMaker(session_id, info, limits)
        self._context_count = 0
        self._draining = False

    @property
    def writes_or_speaks(self) -> bool:
        """Whether more text may come of what has begun, or more is to be passed on of it."""
        return any(context.writing is not None for context in self._contexts.values()) or any(
            track.utterances for track in self._tracks.values()
        )

    @property
    def unsent_s(self) -> float:
        return sum(each.duration_s for each in self.outgoing if isinstance(each, SendAudio))

    @property
    def deadline_s(self) -> float:
        return min((self._due_s(context) for context in self._contexts.values()), default=float("inf"))

    def next(self) -> Outgoing | None:
        if not self.outgoing:
            return None
        output = self.outgoing.popleft()
        match output:
            case SendStart(job=job):
                job.start_sent = True
            case SendSentenceDone(job=job):
                job.done_sent = True
            case SendUtteranceDone(utterance=utterance):
                utterance.done_sent = True
        return output

    # -- Text ----------------------------------------------------------------------------------------------------------

    def context(self, context_id: str | None, now_s: float) -> Context:
        """The context of that name, which may begin here.  Raises `TooManyContexts` where that is one too many."""
        context = self._contexts.get(context_id)
        if context is None or not context.is_open:
            open_contexts = [each for each in self._contexts.values() if each.is_open]
            if len(open_contexts) >= self._limits.max_contexts:
                raise TooManyContexts(f"{self._limits.max_contexts} contexts are open; finish or cancel one first")
        if context is None:
            context = Context(context_id, 0 if context_id is None else self._free_number(), self._shared)
        context.active_s = now_s
        return context

    def _free_number(self) -> int:
        used = {context.number for context in self._contexts.values()}
        while True:
            self._context_count = self._context_count % 0xFFFF + 1
            if self._context_count not in used:
                return self._context_count

    def on_text(
        self, context: Context, text: str, settings: SessionSettings, now_s: float, announce: Callable[[], None]
    ) -> Iterator[Command]:
        """Takes a slice of text, or raises and takes nothing of it."""
        self._check_room(context, text)
        if context.writing is None:
            self._may_begin(settings)
        if self._quota is not None:
            self._quota.charge(len(text))
        announce()
        if context.writing is None:
            yield from self._begin_utterance(context, settings, now_s)
        utterance = context.writing
        assert utterance is not None, "it has just begun"
        utterance.received.append(text)
        utterance.characters += len(text)
        context.buffered_s = now_s
        utterance.unread += text
        yield from self._read_on(context, utterance, now_s)

    @property
    def backlogged(self) -> bool:
        """Whether `work_off` has something to do."""
        return any(each.writing is not None and each.writing.unread for each in self._contexts.values())

    def work_off(self, now_s: float) -> Iterator[Command]:
        """Cuts some more of a long message into sentences: all of it at once would hold up all other sessions."""
        for context in list(self._contexts.values()):
            if context.writing is not None and context.writing.unread:
                yield from self._read_on(context, context.writing, now_s)
                return

    def _read_on(self, context: Context, utterance: Utterance, now_s: float) -> Iterator[Command]:
        block, utterance.unread = utterance.unread[:BLOCK_CHARS], utterance.unread[BLOCK_CHARS:]
        sentences = utterance.splitter.push(utterance.cleaner.push(block))
        yield from self._on_sentences(context, utterance, sentences, now_s)
        if self._info.reads_ahead and not utterance.unread:
            yield from self._on_beginning(context, utterance, now_s)

    def _check_room(self, context: Context, text: str) -> None:
        limits = self._limits
        writing = [each.writing for each in self._contexts.values() if each.writing is not None]
        pending = sum(track.waiting_chars for track in self._tracks.values()) + sum(
            utterance.splitter.pending_chars + len(utterance.unread) for utterance in writing
        )
        if pending + len(text) > limits.max_pending_chars:
            raise TooMuchUnspoken(
                f"{len(text)} more characters would make more than the {limits.max_pending_chars} that may wait"
                f" to be spoken ({pending} do already); nothing of this message was taken"
            )
        if context.writing is not None and context.writing.characters + len(text) > limits.max_utterance_chars:
            raise TextTooLong(
                f"an utterance may have {limits.max_utterance_chars} characters; send `input.done` and begin another"
            )

    def on_flush(self, context_id: str | None, now_s: float) -> Iterator[Command]:
        """What is buffered is spoken now; the utterance stays open."""
        context = self._contexts.get(context_id)
        if context is not None and context.writing is not None:
            context.active_s = now_s
            yield from self._flush(context, context.writing, now_s)

    def _flush(self, context: Context, utterance: Utterance, now_s: float) -> Iterator[Command]:
        context.buffered_s = None
        while utterance.unread:
            yield from self._read_on(context, utterance, now_s)
        sentences = utterance.splitter.push(utterance.cleaner.flush())
        sentences += utterance.splitter.flush()
        yield from self._on_sentences(context, utterance, sentences, now_s)

    def on_done(
        self, context: Context, settings: SessionSettings, now_s: float, announce: Callable[[], None]
    ) -> Iterator[Command]:
        if context.writing is None:
            self._may_begin(settings)
            announce()
            yield from self._begin_utterance(context, settings, now_s)
        yield from self._finish(context, now_s)

    def _finish(self, context: Context, now_s: float) -> Iterator[Command]:
        utterance = context.writing
        assert utterance is not None, "only what was begun is finished"
        context.writing = None
        utterance.complete = True
        yield from self._flush(context, utterance, now_s)

    def finish_writing(self, now_s: float) -> Iterator[Command]:
        """Nothing more will come in: open text counts as done."""
        for context in list(self._contexts.values()):
            if context.writing is not None:
                yield from self._finish(context, now_s)

    def _may_begin(self, settings: SessionSettings) -> None:
        if self._draining:
            raise SessionEnding("this session is about to end, as `session.expiring` told: connect again")
        if settings.voice is not None or settings.reference is not None or settings.speaker_embedding is not None:
            return
        if self._info.voices:
            raise InvalidConfig("voice: this server has no default voice, so `session.config` must name one")
        if "ref_audio" in self._info.fields:
            raise InvalidConfig("ref_audio: this model has no voice of its own, so `session.config` must bring one")

    def _begin_utterance(self, context: Context, settings: SessionSettings, now_s: float) -> Iterator[Command]:
        if not context.is_open:
            if settings.on_new_context == "interrupt":
                yield from self._interrupt_others(context, now_s)
            yield from self._enrol(context, settings, now_s)
        context.forget_heard(now_s)
        language = settings.language
        if language == AUTO:
            language = next((v.language for v in self._info.voices if v.name == settings.voice), "en")
        utterance = context.writing = Utterance(
            index=self._utterance_count,
            context_id=context.context_id,
            context_number=context.number,
            settings=settings,
            cleaner=TextCleaner(settings.text_filters),
            splitter=SentenceSplitter(
                language=primary_language(language),
                max_chars=self._limits.max_sentence_chars,
                granularity=settings.split_granularity,
            ),
            began_s=now_s,
        )
        self._utterance_count += 1
        context.utterances.append(utterance)
        context.track.utterances.append(utterance)

    def _interrupt_others(self, context: Context, now_s: float) -> Iterator[Command]:
        for other in list(self._contexts.values()):
            if other is not context and (other.is_open or other.reckoned_s(now_s) < other.sent_s()):
                yield from self.on_cancel(other.context_id, None, now_s)

    def _enrol(self, context: Context, settings: SessionSettings, now_s: float) -> Iterator[Command]:
        """Gives a context that begins, or begins again, its track; lets go of those that are over."""
        context.track = self._shared
        if settings.frame_header and context.context_id is not None:
            stream_id = f"{self._session_id}/{context.number}"
            context.track = self._tracks.setdefault(stream_id, Track(stream_id, self._limits.sentences_ahead, now_s))
        over = [each for each in self._contexts.values() if not each.is_open and each.context_id is not None]
        for position, each in enumerate(over):
            each.forget_heard(now_s)
            if each is not context and (not each.utterances or position < len(over) - MAX_REMEMBERED_CONTEXTS):
                del self._contexts[each.context_id]
                if each.track is not self._shared:
                    del self._tracks[each.track.stream_id]
                    yield EndStream(each.track.stream_id)
        self._contexts[context.context_id] = context

    def _on_sentences(
        self, context: Context, utterance: Utterance, sentences: list[Sentence], now_s: float
    ) -> Iterator[Command]:
        if utterance.early is not None and sentences:
            yield from jobs.complete(utterance.early, sentences[0], now_s)
            utterance.early, ended = None, sentences[0].end
            sentences = sentences[1:]
            utterance.cleaner.forget(ended)
        for sentence in sentences:
            if is_speakable(sentence.text):
                job = self._jobs.make(utterance, sentence, context.track.stream_id, now_s)
                utterance.jobs.append(job)
                context.track.add(job)
        if sentences:
            utterance.cleaner.forget(sentences[-1].end)
        # One warning for all: a single message can hold tens of thousands of lines without a word.
        if wordless := [sentence for sentence in sentences if not is_speakable(sentence.text)]:
            more = f" and {len(wordless) - 1} more like it" if len(wordless) > 1 else ""
            self.outgoing.append(
                Send(
                    ServerWarning(
                        code="nothing_to_speak",
                        message=f"there are no words in {printable(wordless[0].text[:80])!r}{more}: passed over",
                        utterance_index=utterance.index,
                        context_id=context.context_id,
                    )
                )
            )
        yield from context.track.fill()

    def _on_beginning(self, context: Context, utterance: Utterance, now_s: float) -> Iterator[Command]:
        """For a model that reads ahead: the sentence that is being written is spoken already."""
        beginning = utterance.splitter.beginning
        if beginning is None or utterance.settings.pronunciations.words or not utterance.settings.stream_audio:
            return
        if utterance.early is not None:
            yield from jobs.grow(utterance.early, beginning, complete=False)
            return
        enough = len(beginning.text.split()) >= EARLY_WORDS and is_speakable(beginning.text)
        if enough and context.track.has_room(utterance):
            job = self._jobs.make(utterance, beginning, context.track.stream_id, now_s, complete=False)
            utterance.early = job
            utterance.jobs.append(job)
            context.track.add(job)
            yield from context.track.fill()

    # -- From the engine -----------------------------------------------------------------------------------------------

    def on_engine(self, event: EngineEvent) -> RealtimeTTSError | None:
        """One event of a request; gives an error that ends the whole session."""
        for track in self._tracks.values():
            if (job := track.job_of(event.request_id)) is not None:
                break
        else:
            return None  # of a request that was taken back
        match event:
            case AudioReady(samples=samples):
                job.held.append(samples)
            case WordsReady(words=words):
                job.words.extend(words)
                if job.asks_words:
                    job.held.append(words)
            case RequestFinished(error=error):
                track.finish(job, event)
                if error is not None and error.close_code is not None and track.is_first(job) and self._alone(job):
                    return error
        return None

    def _alone(self, job: SentenceJob) -> bool:
        utterances = [each for track in self._tracks.values() for each in track.utterances]
        return all(each is job.utterance or each.context_id == job.utterance.context_id for each in utterances)

    def advance(self) -> None:
        framed = len(self._contexts) > 1 and sum(context.is_open for context in self._contexts.values()) > 1
        for track in self._tracks.values():
            self.outgoing.extend(track.advance(framed=framed))

    # -- From the socket -----------------------------------------------------------------------------------------------

    def on_audio_sent(self, audio: SendAudio, now_s: float) -> Iterator[Command]:
        track = self._track_of(audio.job)
        return iter(()) if track is None else track.on_audio_sent(audio, now_s)

    def on_sentence_sent(self, job: SentenceJob, now_s: float) -> Iterator[Command]:
        if (track := self._track_of(job)) is not None:
            yield from track.on_sentence_sent(job, now_s)

    def _track_of(self, job: SentenceJob) -> Track | None:
        """None where its context was let go of meanwhile."""
        return self._tracks.get(job.request.stream_id)

    @property
    def heard_until_s(self) -> float | None:
        """When the listener will have played all that was sent."""
        ends_s = [track.playout_end_s for track in self._tracks.values() if track.playout_end_s is not None]
        return max(ends_s, default=None)

    def on_report(
        self, context_id: str | None, played_s: float, buffered_s: float | None, now_s: float
    ) -> Iterator[Command]:
        context = self._contexts.get(context_id)
        if context is None:
            return
        context.report(played_s, now_s)
        if buffered_s is not None:
            yield from context.track.hears_until(now_s + buffered_s, now_s)

    # -- Barge-in and ends ---------------------------------------------------------------------------------------------

    def on_cancel(self, context_id: str | None, played_s: float | None, now_s: float) -> Iterator[Command]:
        """Ends what a context says, wherever it is: with the engine, waiting to be sent, or in the listener's ears."""
        context = self._contexts.get(context_id)
        if context is None:
            context = Context(context_id, 0, self._shared)
        cancellation = context.cancellation(played_s, now_s)
        unplayed_s = context.sent_s() - context.reckoned_s(now_s)
        ended = list(context.start_over())
        commands = list(context.track.cancel(ended, unplayed_s, now_s))
        gone = set(map(id, ended))
        self.outgoing = deque(each for each in self.outgoing if id(_utterance_of(each)) not in gone)
        for utterance in ended:
            self.outgoing.extend(
                SendSentenceDone(job) for job in utterance.begun if job.start_sent and not job.done_sent
            )
        self.outgoing.append(SendCancelled(cancellation))
        self.outgoing.extend(SendUtteranceDone(utterance) for utterance in ended)
        yield from commands

    def drain(self) -> None:
        """Nothing new begins."""
        self._draining = True

    def _due_s(self, context: Context) -> float:
        if context.writing is None:
            return float("inf")
        due_s = float("inf")
        delay_s = context.writing.settings.max_buffer_delay_s
        if context.buffered_s is not None and delay_s:
            due_s = context.buffered_s + delay_s
        if context.context_id is not None:
            due_s = min(due_s, context.active_s + self._limits.context_idle_s)
        return due_s

    def on_time(self, now_s: float) -> Iterator[Command]:
        for context in list(self._contexts.values()):
            utterance = context.writing
            if utterance is None or now_s < self._due_s(context):
                continue
            if context.context_id is not None and now_s >= context.active_s + self._limits.context_idle_s:
                yield from self._finish(context, now_s)
            else:
                yield from self._flush(context, utterance, now_s)

    def abandon(self) -> list[str]:
        """Forgets everything; gives the streams that the engine is to forget."""
        for track in self._tracks.values():
            track.clear()
        self._contexts.clear()
        return list(self._tracks)


def _utterance_of(output: Outgoing) -> Utterance | None:
    match output:
        case SendStart() | SendWords() | SendAudio() | SendFailure() | SendSentenceDone():
            return output.job.utterance
        case SendUtteranceDone():
            return output.utterance
    return None
