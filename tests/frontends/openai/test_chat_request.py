"""Requests for chat completions: what of them reaches the model, and what is listed as ignored."""

from typing import Any

import pytest

from realtime_tts.audio.format import Encoding
from realtime_tts.engine.api import Role, TextPart, Turn
from realtime_tts.engine.models import tone
from realtime_tts.errors import InvalidMedia, InvalidMessage
from realtime_tts.frontends.openai.chat_request import Chat, Reader, chat_of, parse_request, with_shape

INFO = tone.info(answers=True)
USER = {"role": "user", "content": "Hi"}


def chat(**fields: Any) -> Chat:
    request, ignored = parse_request({"messages": [USER], **fields})
    return chat_of(request, ignored, (), INFO)


async def turns(*messages: dict[str, Any], earlier: dict[str, str] | None = None) -> tuple[Turn, ...]:
    request, _ignored = parse_request({"messages": list(messages)})
    return await Reader(INFO, (earlier or {}).get, None).turns(request.messages)


def test_fields_without_effect_are_listed() -> None:
    assert chat(user="me", mm_processor_kwargs={}, temperature=0.5).ignored == ("user", "mm_processor_kwargs")


def test_the_sampling_is_that_of_the_request() -> None:
    sampling = chat(temperature=0.5, top_p=0.9, top_k=4, seed=-1, max_tokens=5, stop="x").sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k, sampling.seed) == (0.5, 0.9, 4, -1)
    assert (sampling.max_tokens, sampling.stop) == (5, ("x",))
    assert chat(max_tokens=5, max_completion_tokens=7).sampling.max_tokens == 7


def test_the_voice_has_three_names() -> None:
    assert chat(audio={"voice": "a"}, voice="b", speaker="c").voice == "a"
    assert chat(voice="b", speaker="c").voice == "b"
    assert chat(speaker="c").voice == "c"
    assert chat().voice is None


def test_the_format_depends_on_the_shape_of_the_stream() -> None:
    both = {"modalities": ["text", "audio"]}
    assert chat(**both).audio_format.encoding is Encoding.WAV
    assert chat(**both, stream=True).audio_format.encoding is Encoding.PCM
    in_chunks = chat(**both, stream=True, stream_shape="vllm_omni")
    assert (in_chunks.audio_format.encoding, in_chunks.encoder_format.encoding) == (Encoding.WAV, Encoding.PCM)


def test_the_shape_may_be_in_the_url() -> None:
    request, _ignored = parse_request({"messages": [USER]})
    assert with_shape(request, "vllm_omni").stream_shape == "vllm_omni"
    assert with_shape(request, None).stream_shape is None
    chosen, _ignored = parse_request({"messages": [USER], "stream_shape": "openai"})
    assert with_shape(chosen, "vllm_omni").stream_shape == "openai"
    with pytest.raises(InvalidMessage):
        with_shape(request, "other")


async def test_messages_become_turns() -> None:
    found = await turns(
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "One"}, {"type": "text", "text": "?"}]},
        {"role": "assistant", "audio": {"id": "a"}},
        USER,
        earlier={"a": "Two."},
    )
    assert found == (
        Turn(Role.SYSTEM, (TextPart("Be brief."),)),
        Turn(Role.USER, (TextPart("One"), TextPart("?"))),
        Turn(Role.ASSISTANT, (TextPart("Two."),)),
        Turn(Role.USER, (TextPart("Hi"),)),
    )


async def test_an_error_names_its_message() -> None:
    for message, kind in (
        ({"role": "user", "content": [{"type": "input_audio"}]}, InvalidMessage),
        ({"role": "user", "content": [{"type": "image_url", "image_url": {"url": 1}}]}, InvalidMessage),
        ({"role": "user"}, InvalidMessage),
        ({"role": "user", "audio": {"id": "a"}}, InvalidMessage),
        ({"role": "user", "content": [{"type": "audio_url", "audio_url": {"url": "http://a/b"}}]}, InvalidMedia),
    ):
        with pytest.raises(kind) as caught:
            await turns(USER, message)
        assert caught.value.param == "messages[1]", message


async def test_the_number_of_parts_with_audio_is_limited() -> None:
    silence = "UklGRiwAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQgAAAAAAAAAAAAAAA=="
    part = {"type": "input_audio", "input_audio": {"data": silence, "format": "wav"}}
    assert len((await turns({"role": "user", "content": [part] * 16}))[0].parts) == 16
    with pytest.raises(InvalidMedia, match="16 parts"):
        await turns({"role": "user", "content": [part] * 17})
