"""What did the listener hear before the barge-in?  From a playhead in seconds to a place in the client's own text."""

from collections.abc import Sequence
from dataclasses import dataclass

from realtime_tts.session.utterance import SentenceJob, Utterance

USUAL_CHARS_PER_S = 15.0
"""English read aloud, by the 28 voices of the embedded model: for a sentence whose length is not yet known."""


@dataclass(frozen=True, slots=True)
class Heard:
    text_spoken: str
    """Of the utterance in which the playhead stands, as the client wrote it, up to the last word that was heard."""
    text_remaining: str
    """The rest of that utterance, and those behind it."""
    utterance_index: int | None
    sentence_index: int | None
    """Where the playhead stands; None where nothing had begun."""


def heard(utterances: Sequence[Utterance], played_s: float) -> Heard:
    """`played_s` seconds were played since the first sound of `utterances`, which are in the order of hearing."""
    for position, utterance in enumerate(utterances):
        is_last = position == len(utterances) - 1
        if played_s < utterance.audio_s - 1e-3 or is_last or not utterance.complete:
            job, offset = _playhead(utterance, played_s)
            text = utterance.text
            later = "".join(each.text for each in utterances[position + 1 :])
            return Heard(
                text_spoken=text[:offset],
                text_remaining=text[offset:] + later,
                utterance_index=utterance.index,
                sentence_index=None if job is None else job.index,
            )
        played_s -= utterance.audio_s
    return Heard("", "", None, None)


def _playhead(utterance: Utterance, played_s: float) -> tuple[SentenceJob | None, int]:
    """The sentence that was being heard, and how far into the received text of its utterance that is."""
    job, offset = None, 0
    for job in (each for each in utterance.begun if each.start_sent):
        audio_s = job.audio_s()
        if played_s < audio_s - 1e-3 or not job.done_sent:
            return job, max(offset, _within(job, min(played_s, audio_s)))
        played_s -= audio_s
        offset = job.text_span[1]
    if utterance.complete and sum(each.done_sent for each in utterance.begun) == utterance.total_sentences:
        offset = len(utterance.text)  # what is behind the last sentence has no sound
    return job, offset


def _within(job: SentenceJob, played_s: float) -> int:
    """Behind the last word that was heard by its half, in the received text; 0 where none was."""
    if job.words:
        spoken = [word for word in job.words if (word.start_s + word.end_s) / 2 / job.tempo <= played_s]
        return _behind(job, job.word_span(spoken[-1])[1]) if spoken else 0
    text = job.sentence.text
    expected_s = job.audio_s() if job.finished is not None else max(job.audio_s(), len(text) / USUAL_CHARS_PER_S)
    if played_s <= 0 or not expected_s:
        return 0
    chars = round(len(text) * played_s / expected_s)
    if chars < len(text) and " " in text:  # without spaces, as in Chinese, any character is a place to stop
        chars = max(text.rfind(" ", 0, chars + 1), 0)
    return _behind(job, min(chars, len(text)))


def _behind(job: SentenceJob, end: int) -> int:
    """Where the first `end` characters of a sentence end in the received text."""
    return job.source(end - 1) + 1 if 0 < end < len(job.sentence.text) else job.text_span[1] if end else 0
