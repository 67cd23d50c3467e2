"""A request for speech: any JSON becomes a session's inputs or an error, and only complete speech is a response."""

import asyncio
import json
from unittest.mock import Mock

import numpy as np
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from realtime_tts.audio.format import Encoding
from realtime_tts.audio.playout import ContinuityReport
from realtime_tts.engine.models import tone
from realtime_tts.errors import NothingToSpeak, Overloaded, RealtimeTTSError, SynthesisTruncated
from realtime_tts.frontends.openai.speech import Fields, Speech, SpeechFrontEnd, decode_fields, parse_speech
from realtime_tts.session.events import AudioChunk, ConfigApplied, Failed, SentenceFailed, UtteranceDone
from realtime_tts.session.inputs import Close, Configure, Done, Text
from realtime_tts.session.settings import SessionSettings

INFO = tone.info()


def speech_for(**fields: object) -> Speech:
    return parse_speech(fields, INFO, lambda name: {"voice": name}, max_chars=100, max_whole_chars=50)


def front_end_for(text: str = "Hello.", **fields: object) -> SpeechFrontEnd:
    return SpeechFrontEnd(Mock(web.Request), speech_for(input=text, **fields), INFO, 1.0)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_an_object_comes_back_without_its_nulls(fields: Fields) -> None:
    # Numbers beyond 64 bits become floats: no field of ours is so large.
    decoded = decode_fields(json.dumps(fields).encode())
    assert decoded.keys() == {name for name, value in fields.items() if value is not None}


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes_are_an_object_or_refused(body: bytes) -> None:
    try:
        assert isinstance(decode_fields(body), dict)
    except RealtimeTTSError as error:
        assert error.code == "invalid_message"  # noqa: PT017


@given(st.dictionaries(st.sampled_from(["input", "voice", "response_format", "sample_rate", "stream", "x"]), JSON))
def test_any_fields_are_speech_or_an_error(fields: Fields) -> None:
    try:
        speech = speech_for(**{"input": "Hello.", **fields})
    except RealtimeTTSError:
        return
    assert speech.text.strip()
    assert speech.ignored == (("x",) if "x" in fields else ())


@pytest.mark.parametrize("encoding", Encoding)
def test_what_has_its_length_in_front_is_whole_unless_it_is_to_be_streamed(encoding: Encoding) -> None:
    in_front = encoding in ("wav", "flac")
    assert speech_for(input="Hello.", response_format=encoding.value).whole is in_front
    assert speech_for(input="Hello.", response_format=encoding.value, stream=True).whole is False
    assert speech_for(input="Hello.", response_format=encoding.value, stream=False).whole is True
    assert speech_for(input="Hello.", response_format=encoding.value, stream=False, stream_format="sse").whole is False


def test_only_a_request_for_a_stream_is_live() -> None:
    """Most clients wait for the whole response, in any format."""
    for fields, live in (
        ({}, False),
        ({"stream": False}, False),
        ({"response_format": "wav"}, False),
        ({"stream": True}, True),
        ({"stream_format": "sse"}, True),
        ({"stream": False, "stream_format": "sse"}, True),
    ):
        assert speech_for(input="Hello.", **fields).config.live is live, fields


def test_more_text_may_be_streamed_than_kept() -> None:
    text = "x" * 51
    assert speech_for(input=text).text == text
    for fields in ({"input": text, "stream": False}, {"input": text * 2}):
        with pytest.raises(RealtimeTTSError, match=r"^input: \d+ characters"):
            speech_for(**fields)


def test_only_fields_with_the_same_meaning_are_passed_to_the_session() -> None:
    fields: Fields = {
        "input": "Hello.", "voice": "tone_high", "speed": 2, "seed": 1, "frame_header": True, "word_timestamps": True,
        "stream_audio": False, "on_new_context": "interrupt", "type": "session.close", "unknown": ["a"],
        "context_id": "c", "instructions": "Whisper.",
    }  # fmt: skip
    speech = speech_for(**fields)
    assert speech.config == Configure(voice="tone_high", speed=2, seed=1, stream_audio=True, live=False)
    assert set(speech.ignored) == fields.keys() - {"input", "voice", "speed", "seed"}


# -- The front end ----------------------------------------------------------------------------------------------------

APPLIED = ConfigApplied(SessionSettings.default(INFO), "tone", None, ("seed",))


def done(audio_s: float) -> UtteranceDone:
    report = ContinuityReport(0.1, audio_s, 2, 0, 0.0, 0.0, 0.0, 0.0)
    return UtteranceDone(0, None, 1, False, 6, report, 0.1, True, 0.1)


async def test_no_text_is_given_before_the_config_is_accepted() -> None:
    front_end = front_end_for()
    assert await front_end.receive() == (Configure(stream_audio=True, live=False),)
    text = asyncio.create_task(front_end.receive())
    for _ in range(5):
        await asyncio.sleep(0)
    assert not text.done()
    assert list(front_end.encode(APPLIED)) == []
    assert await text == (Text("Hello."), Done(), Close())


def test_frames_are_of_bounded_size_and_carry_the_duration_once() -> None:
    front_end = front_end_for(response_format="pcm")
    for length in (0, 1, 24_576, 24_577, 100_000):
        frames = list(front_end.encode(AudioChunk(0, 0, np.zeros(length, np.float32), 0)))
        assert sum(len(frame.data) for frame in frames) == 2 * length
        assert max(len(frame.data) for frame in frames) <= 48 * 1024
        assert sum(frame.audio_s for frame in frames) == length / 24_000


async def test_speech_without_an_end_is_truncated() -> None:
    with pytest.raises(SynthesisTruncated):
        await front_end_for().finish()


async def test_a_failure_ends_the_session_and_is_reported() -> None:
    for event in (
        Failed(Overloaded("full", retry_after_s=1.5)),
        SentenceFailed(0, 0, None, SynthesisTruncated("short")),
    ):
        front_end = front_end_for()
        with pytest.raises(ConnectionError):
            front_end.encode(event)
        with pytest.raises(type(event.error)) as failed:
            await front_end.finish()
        assert failed.value is event.error


async def test_a_sentence_without_words_is_an_error_only_if_it_is_the_only_one() -> None:
    error = NothingToSpeak("no words")
    for audio_s in (0.1, 0.0):
        front_end = front_end_for()
        front_end.encode(SentenceFailed(0, 0, None, error))
        front_end.encode(done(audio_s))
        if audio_s:
            assert front_end._check_spoken()
        else:
            with pytest.raises(NothingToSpeak, match="no words"):
                await front_end.finish()
