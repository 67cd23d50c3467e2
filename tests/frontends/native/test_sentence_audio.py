"""The audio of one sentence: binary frames, and `audio.chunk` messages with word times."""

import base64
import json
from typing import Any

import numpy as np

from realtime_tts.audio.format import AudioFormat
from realtime_tts.frontends.native.sentence_audio import SentenceAudio, SentenceChunks, sentence_audio
from realtime_tts.session.events import SentenceStarted, SpokenWord, Words
from realtime_tts.session.frontend import Frame

SAMPLES = np.full(2400, 0.25, np.float32)
WORDS = Words(3, 0, None, "ok", (SpokenWord("Hi", 0.01, 0.055, (0, 2)),))


def started(*, encoding: str = "pcm", streamed: bool = True, labelled: bool = False) -> SentenceStarted:
    audio_format = AudioFormat.parse(encoding, 24_000)
    return SentenceStarted(
        3, 0, None, 7, "Hi.", (0, 3), audio_format, 24_000, streamed, labelled, timestamps_in_audio=True
    )


def chunks_of(event: SentenceStarted) -> SentenceChunks:
    audio = sentence_audio(event)
    assert isinstance(audio, SentenceChunks)
    return audio


def messages(frames: list[Frame]) -> list[dict[str, Any]]:
    assert not any(frame.is_binary for frame in frames)
    return [json.loads(frame.data) for frame in frames]


def test_audio_is_sent_as_it_is_made_and_the_words_at_the_end() -> None:
    audio = chunks_of(started())
    frames = [*audio.encode(SAMPLES), *audio.encode(SAMPLES)]
    audio.add_words(WORDS)
    frames += audio.end(failed=False)
    assert [frame.audio_s for frame in frames] == [0.1, 0.1, 0.0]
    first, second, last = messages(frames)
    assert (first["chunk_id"], second["chunk_id"], last["chunk_id"]) == (0, 1, 2)
    assert [(m["chunk_start_ms"], m["chunk_end_ms"]) for m in (first, second, last)] == [(0, 100), (100, 200), (0, 200)]
    assert base64.b64decode(first["audio_b64"]) == (np.full(2400, 8192, "<i2")).tobytes()
    assert first["timestamps"] is None
    assert last["audio_b64"] == ""
    assert last["timestamps"] == [{"word": "Hi", "start_ms": 10.0, "end_ms": 55.0, "text_span": [0, 2]}]
    assert audio.total_bytes == 9600


def test_times_are_null_if_they_are_not_known() -> None:
    for status in ("unsupported", "failed", None):
        audio = chunks_of(started())
        if status is not None:
            audio.add_words(Words(3, 0, None, status))
        (last,) = messages([*audio.end(failed=False)])
        assert last["timestamps"] is None, status


def test_a_failed_sentence_has_no_last_chunk() -> None:
    audio = chunks_of(started())
    assert len([*audio.encode(SAMPLES)]) == 1
    assert [*audio.end(failed=True)] == []


def test_a_whole_file_is_one_chunk_and_none_if_it_failed() -> None:
    audio = chunks_of(started(encoding="wav", streamed=False))
    assert [*audio.encode(SAMPLES)] == []
    file, last = messages([*audio.end(failed=False)])
    assert base64.b64decode(file["audio_b64"])[:4] == b"RIFF"
    assert (file["chunk_end_ms"], last["audio_b64"]) == (100, "")
    audio = chunks_of(started(encoding="wav", streamed=False))
    assert [*audio.encode(SAMPLES), *audio.end(failed=True)] == []


def test_a_labelled_sentence_needs_no_header_in_its_messages() -> None:
    audio = chunks_of(started(labelled=True))
    (message,) = messages([*audio.encode(SAMPLES)])
    assert len(base64.b64decode(message["audio_b64"])) == 4800


def test_without_word_times_in_the_audio_the_frames_are_binary() -> None:
    audio_format = AudioFormat.parse("pcm", 24_000)
    audio = sentence_audio(SentenceStarted(3, 0, None, 7, "Hi.", (0, 3), audio_format, 24_000, True, False))
    assert type(audio) is SentenceAudio
    assert [frame.is_binary for frame in audio.encode(SAMPLES)] == [True]
