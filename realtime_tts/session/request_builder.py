"""Requests to the engine: one for each sentence, whole, or extended while its end is being received."""

import math
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from realtime_tts.engine.api import Extend, FinishReason, ModelInfo, RequestFinished, SynthesisRequest
from realtime_tts.errors import RealtimeTTSError
from realtime_tts.session.limits import Quota, SessionLimits
from realtime_tts.session.sentence import SentenceState
from realtime_tts.text.offsets import AlignedText
from realtime_tts.text.pronunciations import NO_PRONUNCIATIONS
from realtime_tts.text.splitter import Sentence

if TYPE_CHECKING:
    from realtime_tts.session.utterance import Utterance

MAX_RESPELLED = 4
"""How many times the sentence limit the speech of a sentence may have, in letters and symbols, after the pronunciations
are applied."""
_LINE_BREAK = re.compile(r"[\r\n]")


class RequestBuilder:
    """Builds the requests of one session and gives them their ids."""

    def __init__(self, session_id: str, info: ModelInfo, limits: SessionLimits, quota: Quota | None = None) -> None:
        """`quota` is charged for what pronunciations add: the text itself was charged when it was received."""
        self._session_id = session_id
        self._info = info
        self._limits = limits
        self._quota = quota
        self._requests = 0

    @property
    def sample_rate_hz(self) -> int:
        return self._info.sample_rate_hz

    @property
    def input_rate_hz(self) -> int | None:
        """The sample rate of audio that the model reads; None if it reads none."""
        return self._info.input_rate_hz

    @property
    def input_modalities(self) -> frozenset[str]:
        return self._info.input_modalities

    def next_id(self) -> str:
        """The id of a new request."""
        self._requests += 1
        return f"{self._session_id}/{self._requests - 1}"

    @property
    def reads_ahead(self) -> bool:
        """Whether the model starts a sentence before it has all of its text."""
        return self._info.reads_ahead

    def build(
        self, utterance: "Utterance", sentence: Sentence, now_s: float, *, is_complete: bool = True
    ) -> SentenceState:
        """The next sentence of an utterance; if it is not complete, the part received so far.

        One that its pronunciations make longer than the quota allows has failed, and is not to be submitted.
        """
        settings = utterance.settings
        pronunciations = settings.pronunciations
        respelled = pronunciations.respell(sentence.text)
        spoken_chars = len(respelled.text) + pronunciations.added_by_ipa(respelled.text)
        if spoken_chars > MAX_RESPELLED * self._limits.max_sentence_chars:
            pronunciations = NO_PRONUNCIATIONS  # longer than the model is prepared for
            respelled, spoken_chars = AlignedText.of(sentence.text), len(sentence.text)
        has_speed = "speed" in self._info.fields
        request = SynthesisRequest(
            request_id=self.next_id(),
            stream_id=utterance.queue.stream_id,
            text=_LINE_BREAK.sub(" ", respelled.text),  # only split_granularity "none" leaves line breaks inside
            text_complete=is_complete,
            voice=settings.voice or "",  # empty if the voice is that of a recording
            utterance_index=utterance.index,
            streamed=settings.stream_audio,
            live=settings.live,
            speed=settings.speed if has_speed else 1.0,
            initial_codec_chunk_frames=settings.initial_codec_chunk_frames,
            language=settings.primary_language,
            sampling=settings.sampling,
            pronunciations=pronunciations.ipa_in(respelled.text),
            instructions=settings.instructions,
            reference=settings.reference,
            speaker_embedding=settings.speaker_embedding,
        )
        error = self._charge(spoken_chars - len(sentence.text))
        finished = None
        if error is not None:
            finished = RequestFinished(request.request_id, FinishReason.ERROR, error=error)
        return SentenceState(
            index=utterance.total_sentences,
            sentence=sentence,
            offsets=utterance.cleaner.offsets_of(sentence.start, sentence.end),
            respelled=respelled,
            utterance=utterance,
            request=request,
            sample_rate_hz=self._info.sample_rate_hz,
            tempo=1.0 if has_speed else settings.speed,
            text_complete_at_s=now_s if is_complete else math.inf,
            has_word_times="word_timestamps" in self._info.fields,
            speakable_at_s=now_s,
            finished=finished,
        )

    def _charge(self, added_chars: int) -> RealtimeTTSError | None:
        if self._quota is None or added_chars <= 0:
            return None
        try:
            self._quota.charge(added_chars)
        except RealtimeTTSError as error:
            return error
        return None


def extend(state: SentenceState, sentence: Sentence) -> Iterator[Extend]:
    """More of a sentence was received, but not its end."""
    if more := _update(state, sentence):
        yield Extend(state.request.request_id, more, complete=False)


def complete(state: SentenceState, sentence: Sentence, now_s: float) -> Extend:
    """All of a sentence was received."""
    state.text_complete_at_s = now_s
    return Extend(state.request.request_id, _update(state, sentence), complete=True)


def _update(state: SentenceState, sentence: Sentence) -> str:
    """Replaces the sentence; returns the added text."""
    known = state.sentence.text
    assert sentence.text.startswith(known), f"{sentence.text!r} does not begin with {known!r}"
    if len(sentence.text) > len(known):
        state.sentence = sentence
        state.offsets = state.utterance.cleaner.offsets_of(sentence.start, sentence.end)
        state.respelled = AlignedText.of(sentence.text)
    return _LINE_BREAK.sub(" ", sentence.text[len(known) :])
