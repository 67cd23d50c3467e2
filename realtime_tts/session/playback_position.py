"""The playback position at a barge-in: from seconds of audio to an offset in the client's own text."""

from collections.abc import Sequence
from dataclasses import dataclass

from realtime_tts.session.sentence import SentenceState
from realtime_tts.session.utterance import Utterance

USUAL_CHARS_PER_S = 15.0
"""Of English speech by the 28 voices of the embedded model: for a sentence whose length is not yet known."""


@dataclass(frozen=True, slots=True)
class PlaybackPosition:
    text_spoken: str
    """Of the utterance at the position, as the client wrote it, up to the last word that was played."""
    text_remaining: str
    """The rest of that utterance, and the utterances after it."""
    utterance_index: int | None
    sentence_index: int | None
    """At the position; None if no audio was sent."""


def playback_position(utterances: Sequence[Utterance], played_s: float) -> PlaybackPosition:
    """`played_s` seconds were played since the first audio of `utterances`, which are in playback order."""
    for at, utterance in enumerate(utterances):
        is_last = at == len(utterances) - 1
        if played_s < utterance.audio_s - 1e-3 or is_last or not utterance.complete:
            state, offset = _position(utterance, played_s)
            text = utterance.text
            later = "".join(each.text for each in utterances[at + 1 :])
            return PlaybackPosition(
                text_spoken=text[:offset],
                text_remaining=text[offset:] + later,
                utterance_index=utterance.index,
                sentence_index=None if state is None else state.index,
            )
        played_s -= utterance.audio_s
    return PlaybackPosition("", "", None, None)


def _position(utterance: Utterance, played_s: float) -> tuple[SentenceState | None, int]:
    """The sentence that was being played, and the offset in the utterance's received text."""
    state, offset = None, 0
    for state in (each for each in utterance.begun if each.start_sent):
        audio_s = state.audio_sent_s
        if played_s < audio_s - 1e-3 or not state.done_sent:
            return state, max(offset, _within(state, min(played_s, audio_s)))
        played_s -= audio_s
        offset = state.text_span[1]
    if utterance.complete and sum(each.done_sent for each in utterance.begun) == utterance.total_sentences:
        offset = len(utterance.text)  # what follows the last sentence has no audio
    return state, offset


def _within(state: SentenceState, played_s: float) -> int:
    """The received offset after the last word of which at least half was played; 0 if there is none."""
    played_s -= state.pause_s
    if state.words:
        spoken = [word for word in state.words if (word.start_s + word.end_s) / 2 / state.tempo <= played_s]
        return _after(state, state.word_span(spoken[-1])[1]) if spoken else 0
    text = state.sentence.text
    sent_s = max(0.0, state.audio_sent_s - state.pause_s)
    expected_s = sent_s if state.finished is not None else max(sent_s, len(text) / USUAL_CHARS_PER_S)
    if played_s <= 0 or not expected_s:
        return 0
    chars = round(len(text) * played_s / expected_s)
    if chars < len(text) and " " in text:  # without spaces, as in Chinese, the position may be at any character
        chars = max(text.rfind(" ", 0, chars + 1), 0)
    return _after(state, min(chars, len(text)))


def _after(state: SentenceState, end: int) -> int:
    """The received offset at which the first `end` characters of a sentence end."""
    return state.source(end - 1) + 1 if 0 < end < len(state.sentence.text) else state.text_span[1] if end else 0
