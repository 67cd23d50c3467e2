"""One request for speech: any JSON becomes a wish or a refusal, and nothing but a whole speech has a use to tell."""

import asyncio
import json
from typing import Any
from unittest.mock import Mock

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from realtime_tts.audio.format import Encoding
from realtime_tts.engine.models import tone
from realtime_tts.errors import RealtimeTTSError
from realtime_tts.frontends.openai.speech import (
    TEXT_SLICE_CHARS,
    Answer,
    Fields,
    SpeechTransport,
    Wish,
    decode_fields,
    make_wish,
)

INFO = tone.info()


def wish_for(**fields: object) -> Wish:
    return make_wish(fields, INFO, lambda name: {"voice": name}, max_chars=100, max_whole_chars=50)


def transport_for(text: str = "Hello.") -> SpeechTransport:
    wish = make_wish({"input": text}, INFO, lambda name: {}, max_chars=100_000, max_whole_chars=10)
    request = Mock(web.Request)
    return SpeechTransport(request, wish, 24_000, Answer(request, wish, INFO, 1.0))


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
def test_any_fields_are_a_wish_or_refused(fields: Fields) -> None:
    try:
        wish = wish_for(**{"input": "Hello.", **fields})
    except RealtimeTTSError:
        return
    assert wish.text.strip()
    assert wish.ignored == (("x",) if "x" in fields else ())


@pytest.mark.parametrize("encoding", Encoding)
def test_what_has_its_length_in_front_is_whole_unless_it_is_to_be_streamed(encoding: Encoding) -> None:
    in_front = encoding in ("wav", "flac")
    assert wish_for(input="Hello.", response_format=encoding.value).whole is in_front
    assert wish_for(input="Hello.", response_format=encoding.value, stream=True).whole is False
    assert wish_for(input="Hello.", response_format=encoding.value, stream=False).whole is True
    assert wish_for(input="Hello.", response_format=encoding.value, stream=False, stream_format="sse").whole is False


def test_more_text_may_be_streamed_than_kept() -> None:
    text = "x" * 51
    assert wish_for(input=text).text == text
    for fields in ({"input": text, "stream": False}, {"input": text * 2}):
        with pytest.raises(RealtimeTTSError, match=r"^input: \d+ characters"):
            wish_for(**fields)


def test_only_what_means_the_same_goes_to_the_session() -> None:
    fields: Fields = {
        "input": "Hello.", "voice": "tone_high", "speed": 2, "seed": 1, "frame_header": True, "word_timestamps": True,
        "stream_audio": False, "on_new_context": "interrupt", "type": "session.close", "unknown": ["a"],
        "context_id": "c", "instructions": "Whisper.",
    }  # fmt: skip
    wish = wish_for(**fields)
    assert wish.config == {"voice": "tone_high", "speed": 2, "seed": 1}
    assert set(wish.ignored) == fields.keys() - {"input", "voice", "speed", "seed"}


# -- The session's client ---------------------------------------------------------------------------------------------


async def messages_of(transport: SpeechTransport) -> list[dict[str, Any]]:
    """All that it sends, its config accepted."""
    messages: list[dict[str, Any]] = []
    while not messages or messages[-1]["type"] != "session.close":
        data = await transport.receive()
        assert isinstance(data, str)
        messages.append(json.loads(data))
        if messages[-1]["type"] == "session.config":
            transport._accepted.set()
    return messages


@pytest.mark.parametrize("length", [1, TEXT_SLICE_CHARS, TEXT_SLICE_CHARS + 1, 3 * TEXT_SLICE_CHARS - 1])
async def test_all_of_the_text_is_sent_in_order_and_no_message_is_too_large(length: int) -> None:
    text = "".join(chr(0x4E00 + number % 5000) for number in range(length))
    config, *texts, done, close = await messages_of(transport_for(text))
    assert (config["type"], done["type"], close["type"]) == ("session.config", "input.done", "session.close")
    assert (config["response_format"], config["stream_audio"], config["sample_rate"]) == ("pcm", True, 24_000)
    assert "".join(message["text"] for message in texts) == text
    assert max(len(json.dumps(message)) for message in texts) < 100_000


async def test_no_text_is_sent_before_the_config_is_accepted() -> None:
    transport = transport_for()
    await transport.receive()
    text = asyncio.create_task(transport.receive())
    for _ in range(5):
        await asyncio.sleep(0)
    assert not text.done()
    transport._accepted.set()
    assert "input.text" in str(await text)


SPOKEN = {"characters": 6, "audio_ms": 100.0}
DONE = {
    "type": "session.done", "total_sentences": 1, "utterance_index": 0, "reason": "complete", "usage": SPOKEN,
    "continuity": {
        "ttfp_ms": None, "ttfa_ms": None, "audio_ms": 0, "packets": 0, "underrun_count": 0, "underrun_total_ms": 0,
        "max_underrun_ms": 0, "text_starvation_ms": 0, "continuity_ok": None,
    },
}  # fmt: skip
METRICS = {
    "ttfp_ms": None, "ttfa_ms": None, "rtf": None, "queue_ms": None, "chunks": 0, "initial_chunk_frames": None,
    "max_underrun_ms": 0, "underrun_count": 0, "continuity_ok": None,
}  # fmt: skip


async def test_a_speech_that_has_come_to_its_end_has_a_use() -> None:
    transport = transport_for()
    await transport.send_text(json.dumps(DONE).encode())
    assert transport.usage().audio_ms == 100.0


async def test_a_speech_without_an_end_has_none() -> None:
    with pytest.raises(RealtimeTTSError) as failed:
        transport_for().usage()
    assert failed.value.code == "synthesis_truncated"


async def test_a_sentence_that_was_cut_short_ends_the_whole() -> None:
    transport = transport_for()
    done = {
        "type": "audio.done", "sentence_index": 0, "total_bytes": 1, "error": False, "utterance_index": 0,
        "duration_ms": 1, "samples": 1, "reason": "truncated", "metrics": METRICS,
    }  # fmt: skip
    with pytest.raises(ConnectionError):
        await transport.send_text(json.dumps(done).encode())
    with pytest.raises(RealtimeTTSError):
        transport.usage()


async def test_an_error_ends_the_whole_and_is_told() -> None:
    transport = transport_for()
    error = {
        "type": "error", "code": "overloaded", "message": "full", "fatal": False, "retryable": True,
        "session_id": "s", "retry_after_ms": 1500.0,
    }  # fmt: skip
    with pytest.raises(ConnectionError):
        await transport.send_text(json.dumps(error).encode())
    with pytest.raises(RealtimeTTSError, match="full") as failed:
        transport.usage()
    assert (failed.value.code, failed.value.retry_after_s) == ("overloaded", 1.5)


async def test_a_sentence_without_words_is_an_error_only_where_it_is_the_only_one() -> None:
    error = {
        "type": "error", "code": "nothing_to_speak", "message": "no words", "fatal": False, "retryable": False,
        "session_id": "s",
    }  # fmt: skip
    for audio_ms in (100.0, 0.0):
        transport = transport_for()
        await transport.send_text(json.dumps(error).encode())
        await transport.send_text(json.dumps({**DONE, "usage": {**SPOKEN, "audio_ms": audio_ms}}).encode())
        if audio_ms:
            assert transport.usage()
        else:
            with pytest.raises(RealtimeTTSError, match="no words"):
                transport.usage()
