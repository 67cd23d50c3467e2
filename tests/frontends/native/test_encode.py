"""Encoding of events: messages, audio frames, headers, counts."""

import json

import numpy as np
import pytest

from realtime_tts.audio.format import AudioFormat
from realtime_tts.errors import Overloaded
from realtime_tts.frontends.native.encode import NativeEncoder, error_message
from realtime_tts.frontends.native.frame_header import HEADER_BYTES, FrameHeader
from realtime_tts.session.events import AudioChunk, AudioEnd, Closed, Expiring, Failed, SentenceStarted, Warned


def started(*, encoding: str = "pcm", streamed: bool = True, labelled: bool = False) -> SentenceStarted:
    audio_format = AudioFormat.parse(encoding, 24_000)
    return SentenceStarted(3, 0, None, 7, "Hi.", (0, 3), audio_format, 24_000, streamed, labelled)


def chunk(samples: int = 2400) -> AudioChunk:
    return AudioChunk(3, 0, np.full(samples, 0.25, np.float32), 0)


def test_audio_frames_have_their_duration() -> None:
    encoder = NativeEncoder("s")
    (start,) = encoder.encode(started())
    assert json.loads(start.data)["type"] == "audio.start"
    (frame,) = encoder.encode(chunk())
    assert (frame.is_binary, frame.audio_s, len(frame.data)) == (True, 0.1, 4800)
    assert list(encoder.encode(AudioEnd(3, 0, failed=False))) == []
    assert list(encoder.encode(Closed(1000, "done"))) == []


def test_frames_that_are_not_sent_are_not_counted() -> None:
    encoder = NativeEncoder("s")
    list(encoder.encode(started(encoding="opus")))
    frames = iter(encoder.encode(chunk(24_000)))
    sent = [next(frames) for _ in range(3)]
    audio = encoder._sentences[3, 0]
    assert audio.total_bytes == sum(len(frame.data) for frame in sent)
    assert audio.samples / 24_000 == pytest.approx(sum(frame.audio_s for frame in sent))


def test_labelled_frames_have_a_header_and_the_last_one_is_marked() -> None:
    encoder = NativeEncoder("s")
    list(encoder.encode(started(labelled=True)))
    frames = [*encoder.encode(chunk()), *encoder.encode(chunk()), *encoder.encode(AudioEnd(3, 0, failed=False))]
    headers = [FrameHeader.unpack(frame.data) for frame in frames]
    assert [(header.sequence, header.sample_offset, header.last) for header in headers] == [
        (0, 0, False),
        (1, 2400, False),
        (2, 4800, True),
    ]
    assert len(frames[-1].data) == HEADER_BYTES


def test_a_whole_file_is_one_frame_at_the_end_and_none_if_it_failed() -> None:
    for failed in (False, True):
        encoder = NativeEncoder("s")
        list(encoder.encode(started(encoding="wav", streamed=False)))
        assert list(encoder.encode(chunk())) == []
        frames = list(encoder.encode(AudioEnd(3, 0, failed=failed)))
        assert len(frames) == (0 if failed else 1)
        assert all(frame.audio_s == 0.1 for frame in frames)


def test_an_error_becomes_an_error_message() -> None:
    error = Overloaded("full", retry_after_s=1.5)
    message = error_message(error, "s", "a")
    assert (message.code, message.fatal, message.retryable, message.retry_after_ms) == ("overloaded", True, True, 1500)
    (frame,) = NativeEncoder("s").encode(Failed(error, "a"))
    assert json.loads(frame.data)["session_id"] == "s"


def test_warnings_and_expiry_become_messages() -> None:
    encoder = NativeEncoder("s")
    (warning,) = encoder.encode(Warned("nothing_to_speak", "no words", 0, None))
    (expiring,) = encoder.encode(Expiring("ttl", 30.0))
    assert json.loads(warning.data)["code"] == "nothing_to_speak"
    assert json.loads(expiring.data)["deadline_ms"] == 30_000
