"""Frames to messages and back: whatever comes in is a message or a typed error."""

import contextlib
import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from realtime_tts.errors import InvalidMessage, MalformedMessage
from realtime_tts.session.messages import (
    CLIENT_MESSAGES,
    ClientMessage,
    InputText,
    ServerError,
    SessionConfig,
    decode_client_message,
    decode_server_message,
    encode,
    printable,
)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
fields = st.sampled_from([*SessionConfig.__struct_fields__, "text", "extra", ""])


@given(st.text() | st.binary().map(lambda data: data.decode("utf-8", "replace")))
def test_any_text_frame_is_a_message_or_a_typed_error(frame: str) -> None:
    with contextlib.suppress(InvalidMessage):
        assert isinstance(decode_client_message(frame), ClientMessage)


@given(st.sampled_from(list(CLIENT_MESSAGES)), st.dictionaries(fields, json_values, max_size=6))
def test_any_field_values_are_a_message_or_a_typed_error(kind: str, values: dict[str, object]) -> None:
    with contextlib.suppress(InvalidMessage):
        message = decode_client_message(json.dumps({**values, "type": kind}))
        assert type(message) is CLIENT_MESSAGES[kind]


@given(st.text())
def test_text_arrives_as_it_was_sent(text: str) -> None:
    assert decode_client_message(json.dumps({"type": "input.text", "text": text})) == InputText(text)


def test_a_text_may_end_inside_a_surrogate_pair() -> None:
    message = decode_client_message('{"type":"input.text","text":"hi \\ud83d"}')
    assert message == InputText("hi \ud83d")


def test_absent_null_and_given_are_three_different_things() -> None:
    config = decode_client_message('{"type":"session.config","voice":null,"speed":1.5}')
    assert isinstance(config, SessionConfig)
    assert (config.voice, config.speed, config.language) == (None, 1.5, UNSET)


def test_unknown_keys_of_a_config_are_kept_by_name() -> None:
    config = decode_client_message('{"type":"session.config","sneed":1,"unknown":2,"\\ud800":3}')
    assert isinstance(config, SessionConfig)
    assert config.unknown == ("sneed", "unknown", "\ufffd")


@pytest.mark.parametrize(
    ("frame", "error"),
    [
        ("", MalformedMessage),
        ("hello", MalformedMessage),
        ('{"type":"input.text"', MalformedMessage),
        ("[" * 100_000, MalformedMessage),
        ('{"a":' * 100_000, MalformedMessage),
        ("[]", InvalidMessage),
        ("null", InvalidMessage),
        ("{}", InvalidMessage),
        ('{"type":7}', InvalidMessage),
        ('{"type":"nope"}', InvalidMessage),
        ('{"type":"input.text"}', InvalidMessage),
        ('{"type":"input.text","text":7}', InvalidMessage),
        ('{"type":"input.text","text":null}', InvalidMessage),
        ('{"type":"session.config","voice":7}', InvalidMessage),
        ('{"type":"session.config","stream_audio":"yes"}', InvalidMessage),
        ('{"type":"session.config","sample_rate":1e999}', InvalidMessage),
        ('{"type":"session.config","sample_rate":"24000"}', InvalidMessage),
    ],
)
def test_bad_frames_are_told_apart(frame: str, error: type[InvalidMessage]) -> None:
    with pytest.raises(error) as caught:
        decode_client_message(frame)
    assert type(caught.value) is error


def test_a_client_passes_over_messages_that_it_does_not_know() -> None:
    assert decode_server_message('{"type":"from.the.future","x":1}') is None


def test_a_server_message_comes_back_as_it_was() -> None:
    error = ServerError(code="c", message="m", fatal=True, retryable=False, session_id="s")
    data = encode(error)
    assert "sentence_index" not in msgspec.json.decode(data)
    assert decode_server_message(data) == error


@given(st.text(alphabet=st.characters(), max_size=300))
def test_printable_text_can_always_be_encoded(text: str) -> None:
    encode(ServerError(code="c", message=printable(text), fatal=True, retryable=False, session_id="s"))
