"""From a sentence to what is asked of the engine: whole, or begun and grown while its end is still being written."""

import math
import re
from collections.abc import Iterator

from realtime_tts.engine.api import Extend, ModelInfo, SynthesisRequest
from realtime_tts.session.limits import SessionLimits
from realtime_tts.session.outputs import Command
from realtime_tts.session.utterance import SentenceJob, Utterance
from realtime_tts.text.languages import AUTO, primary_language
from realtime_tts.text.offsets import AlignedText
from realtime_tts.text.splitter import Sentence

MAX_RESPELLED = 4
"""Times as long as a sentence may be: what pronunciations may make of one."""
_LINE_BREAK = re.compile(r"[\r\n]")


class JobMaker:
    """Makes the jobs of one session, and names their requests."""

    def __init__(self, session_id: str, info: ModelInfo, limits: SessionLimits) -> None:
        self._session_id = session_id
        self._info = info
        self._limits = limits
        self._requests = 0

    def make(
        self, utterance: Utterance, sentence: Sentence, stream_id: str, now_s: float, *, complete: bool = True
    ) -> SentenceJob:
        """The next sentence of an utterance; not `complete`: what has come of it."""
        settings = utterance.settings
        respelled = settings.pronunciations.respell(sentence.text)
        if len(respelled.text) > MAX_RESPELLED * self._limits.max_sentence_chars:
            respelled = AlignedText.of(sentence.text)  # it would be more than the model was asked to be ready for
        has_speed = "speed" in self._info.fields
        request = SynthesisRequest(
            request_id=f"{self._session_id}/{self._requests}",
            stream_id=stream_id,
            text=_LINE_BREAK.sub(" ", respelled.text),  # inside of what is cut only on request
            text_complete=complete,
            voice=settings.voice or "",  # a recording's, then
            utterance_index=utterance.index,
            streamed=settings.stream_audio,
            speed=settings.speed if has_speed else 1.0,
            initial_codec_chunk_frames=settings.initial_codec_chunk_frames,
            language=None if settings.language == AUTO else primary_language(settings.language),
            sampling=settings.sampling,
            pronunciations=settings.pronunciations.ipa_in(respelled.text),
            instructions=settings.instructions,
            reference=settings.reference,
            speaker_embedding=settings.speaker_embedding,
        )
        self._requests += 1
        job = SentenceJob(
            index=utterance.total_sentences,
            sentence=sentence,
            offsets=utterance.cleaner.offsets_of(sentence.start, sentence.end),
            respelled=respelled,
            utterance=utterance,
            request=request,
            model_rate_hz=self._info.sample_rate_hz,
            tempo=1.0 if has_speed else settings.speed,
            opened_s=now_s,
            closed_s=now_s if complete else math.inf,
            gives_words="word_timestamps" in self._info.fields,
        )
        utterance.total_sentences += 1
        return job


def grow(job: SentenceJob, sentence: Sentence, *, complete: bool) -> Iterator[Command]:
    """More of a sentence that was begun has come."""
    known = job.sentence.text
    assert sentence.text.startswith(known), f"{sentence.text!r} does not begin with {known!r}"
    more = sentence.text[len(known) :]
    if more or complete:
        job.sentence = sentence
        job.offsets = job.utterance.cleaner.offsets_of(sentence.start, sentence.end)
        job.respelled = AlignedText.of(sentence.text)
        yield Extend(job.request.request_id, _LINE_BREAK.sub(" ", more), complete)


def complete(job: SentenceJob, sentence: Sentence, now_s: float) -> Iterator[Command]:
    """All of a sentence that was begun has come."""
    job.closed_s = now_s
    yield from grow(job, sentence, complete=True)
