"""Legality of inputs: what is allowed in which state, and the consequence of a violation."""

from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.errors import (
    ConfigRequired,
    InvalidMessage,
    MalformedMessage,
    RealtimeTTSError,
    TooManyInvalidMessages,
    UnexpectedMessage,
)
from realtime_tts.session.inputs import Close, Configure, Done, KeepAlive, SessionInput, Text
from realtime_tts.session.limits import SessionLimits
from realtime_tts.session.protocol import RECEIVE, Protocol, State

LIMITS = SessionLimits(max_invalid_messages=3)
ITEMS = (Configure(), Text("hi"), Done(), Close(), KeepAlive(), InvalidMessage("bad"), MalformedMessage("worse"))


def protocol(*, default_voice: bool = True) -> Protocol:
    return Protocol(LIMITS, has_default_voice=default_voice)


@given(st.lists(st.sampled_from(ITEMS), max_size=30), st.booleans())
@settings(max_examples=50)
def test_every_input_follows_the_table_or_raises_a_typed_error(
    items: list[SessionInput | RealtimeTTSError], default_voice: bool
) -> None:
    each = protocol(default_voice=default_voice)
    for item in items:
        before = each.state
        if before is State.CLOSED:
            break
        error = error_of(each, item)
        if error is not None:
            assert each.state is (before if error.close_code is None else State.CLOSED)
        else:
            assert not isinstance(item, RealtimeTTSError)
            assert each.state is RECEIVE[before, type(item)]


def error_of(each: Protocol, item: SessionInput | RealtimeTTSError) -> RealtimeTTSError | None:
    if isinstance(item, RealtimeTTSError):
        return each.rejected(item)
    try:
        each.receive(item)
    except RealtimeTTSError as error:
        return error
    return None


def test_every_input_is_in_the_table() -> None:
    assert {kind for _, kind in RECEIVE} == set(get_args(SessionInput))


def test_text_before_config_closes_1008_if_there_is_no_default_voice() -> None:
    with pytest.raises(ConfigRequired) as caught:
        protocol(default_voice=False).receive(Text("hi"))
    assert caught.value.close_code == 1008


def test_text_before_config_is_accepted_if_there_is_a_default_voice() -> None:
    each = protocol()
    each.receive(Text("hi"))
    assert each.state is State.OPEN


def test_a_binary_frame_before_config_closes_1008_and_after_it_is_an_error() -> None:
    binary = UnexpectedMessage("binary frames are only sent from server to client")
    assert protocol().rejected(binary).close_code == 1008
    each = protocol()
    each.receive(Configure())
    assert each.rejected(binary).close_code is None
    each.receive(Text("hi"))


def test_a_repeated_config_is_legal() -> None:
    each = protocol()
    for _ in range(5):
        each.receive(Configure())
    assert each.state is State.OPEN


def test_a_keepalive_has_no_effect_even_before_config() -> None:
    each = protocol(default_voice=False)
    each.receive(KeepAlive())
    assert each.state is State.NEW


def test_text_after_close_is_rejected_while_earlier_text_is_finished() -> None:
    each = protocol()
    each.receive(Configure())
    each.receive(Close())
    with pytest.raises(UnexpectedMessage):
        each.receive(Text("hi"))
    assert each.state is State.CLOSING


def test_an_error_with_a_close_code_ends_the_session_at_once() -> None:
    each = protocol()
    assert each.rejected(MalformedMessage("not JSON")).close_code == 1007
    assert each.state is State.CLOSED


def test_many_invalid_messages_in_a_row_close_and_a_valid_one_resets_the_count() -> None:
    each = protocol()
    for _ in range(2):
        for _ in range(LIMITS.max_invalid_messages):
            assert each.rejected(InvalidMessage("bad")).close_code is None
        each.receive(Configure())
    for _ in range(LIMITS.max_invalid_messages):
        each.rejected(InvalidMessage("bad"))
    last = each.rejected(InvalidMessage("bad"))
    assert isinstance(last, TooManyInvalidMessages)
    assert last.close_code == 1008
    assert each.state is State.CLOSED
