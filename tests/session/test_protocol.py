"""The legality table: what is allowed when, what a mistake costs, and when patience ends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime_tts.errors import (
    ConfigRequired,
    MalformedMessage,
    MessageTooBig,
    RealtimeTTSError,
    TooManyInvalidMessages,
    UnexpectedMessage,
)
from realtime_tts.session.limits import SessionLimits
from realtime_tts.session.messages import CLIENT_MESSAGES, ClientMessage, InputText
from realtime_tts.session.protocol import RECEIVE, Protocol, State

LIMITS = SessionLimits(max_message_bytes=1000, max_invalid_messages=3)
CONFIG = '{"type":"session.config"}'
TEXT = '{"type":"input.text","text":"hi"}'
CLOSE = '{"type":"session.close"}'

frames = st.sampled_from(
    [CONFIG, TEXT, CLOSE, '{"type":"input.done"}', '{"type":"session.keepalive"}', "{}", "[", b"x"]
)


def protocol(*, default_voice: bool = True) -> Protocol:
    return Protocol(LIMITS, has_default_voice=default_voice)


@given(st.lists(frames, max_size=30), st.booleans())
def test_every_frame_moves_by_the_table_or_raises_a_typed_error(data: list[str | bytes], default_voice: bool) -> None:
    each = protocol(default_voice=default_voice)
    for frame in data:
        before = each.state
        if before is State.CLOSED:
            break
        outcome = outcome_of(each, frame)
        if isinstance(outcome, RealtimeTTSError):
            assert each.state is (before if outcome.close_code is None else State.CLOSED)
        else:
            assert each.state is RECEIVE[before, type(outcome)]


def outcome_of(each: Protocol, frame: str | bytes) -> ClientMessage | RealtimeTTSError:
    try:
        return each.receive(frame)
    except RealtimeTTSError as error:
        return error


def test_every_message_of_a_client_is_somewhere_in_the_table() -> None:
    assert {kind for _, kind in RECEIVE} == set(CLIENT_MESSAGES.values())


def test_text_before_config_closes_1008_where_there_is_no_default_voice() -> None:
    with pytest.raises(ConfigRequired) as caught:
        protocol(default_voice=False).receive(TEXT)
    assert caught.value.close_code == 1008


def test_text_before_config_is_welcome_where_there_is_a_default_voice() -> None:
    assert protocol().receive(TEXT) == InputText("hi")


def test_binary_before_config_closes_1008() -> None:
    with pytest.raises(ConfigRequired):
        protocol().receive(b"\x00\x01")


def test_binary_after_config_is_an_error_and_the_session_goes_on() -> None:
    each = protocol()
    each.receive(CONFIG)
    with pytest.raises(UnexpectedMessage) as caught:
        each.receive(b"\x00\x01")
    assert caught.value.close_code is None
    assert each.receive(TEXT) == InputText("hi")


def test_a_repeated_config_is_no_mistake() -> None:
    each = protocol()
    for _ in range(5):
        each.receive(CONFIG)
    assert each.state is State.OPEN


def test_a_keepalive_has_no_effect_even_before_config() -> None:
    each = protocol(default_voice=False)
    each.receive('{"type":"session.keepalive"}')
    assert each.state is State.NEW


def test_text_after_close_is_refused_while_the_rest_is_still_spoken() -> None:
    each = protocol()
    each.receive(CONFIG)
    each.receive(CLOSE)
    with pytest.raises(UnexpectedMessage):
        each.receive(TEXT)
    assert each.state is State.CLOSING


def test_what_is_not_json_closes_1007_at_once() -> None:
    with pytest.raises(MalformedMessage) as caught:
        protocol().receive("hello")
    assert caught.value.close_code == 1007


@pytest.mark.parametrize("frame", ["x" * 1001, b"x" * 1001])
def test_a_frame_that_is_too_big_closes_1009(frame: str | bytes) -> None:
    with pytest.raises(MessageTooBig) as caught:
        protocol().receive(frame)
    assert caught.value.close_code == 1009


def test_a_stream_of_bad_messages_closes_but_a_good_one_starts_the_count_again() -> None:
    each = protocol()
    for _ in range(2):
        for _ in range(LIMITS.max_invalid_messages):
            with pytest.raises(RealtimeTTSError) as caught:
                each.receive("{}")
            assert caught.value.close_code is None
        each.receive(CONFIG)
    for _ in range(LIMITS.max_invalid_messages):
        with pytest.raises(RealtimeTTSError):
            each.receive("{}")
    with pytest.raises(TooManyInvalidMessages) as last:
        each.receive("{}")
    assert last.value.close_code == 1008
    assert each.state is State.CLOSED
