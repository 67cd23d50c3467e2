"""The choice of a client's dialect by its first message."""

import contextlib
import json
from typing import Any

import pytest

from realtime_tts.errors import InvalidMessage, MalformedMessage, MessageTooBig
from realtime_tts.frontends.dialects import ClientDialect
from realtime_tts.session.events import SegmentDone, TextCommitted
from realtime_tts.session.inputs import Audio, Close, Commit, Done, SessionInput

COMMITTED = TextCommitted(0, None, "a", 0, 2, 20)
SEGMENT = SegmentDone(0, None, 0, 2, 2)
NESTED = {"type": "session.config", "session": {"voice": "tone_low"}}
FLAT = {"type": "session.config", "voice": "tone_low"}


def decode(dialect: ClientDialect, message: Any) -> tuple[SessionInput, ...]:
    return dialect.decode(json.dumps(message).encode(), is_binary=False)


def is_sglang(dialect: ClientDialect) -> bool:
    answers = [[*dialect.encode(event)] for event in (COMMITTED, SEGMENT)]
    assert sorted(map(len, answers)) == [0, 1], "a commit is acknowledged once in each dialect"
    return bool(answers[1])


def test_a_nested_first_config_selects_sglang_omni_s_dialect() -> None:
    dialect = ClientDialect("s", 1000)
    assert len(decode(dialect, NESTED)) == 1
    assert is_sglang(dialect)
    assert decode(dialect, {"type": "input.done"}) == (Done(), Close())


def test_any_other_first_message_selects_ours() -> None:
    for first in (FLAT, {"type": "input.text", "text": "Hi."}, {"type": "session.keepalive"}):
        dialect = ClientDialect("s", 1000)
        decode(dialect, first)
        decode(dialect, NESTED)
        assert not is_sglang(dialect), first
        assert decode(dialect, {"type": "input.done"}) == (Done(),), first
        assert decode(dialect, {"type": "input.commit", "commit_id": "a"}) == (Commit("a"),), first


def test_a_rejected_first_config_has_selected_the_dialect() -> None:
    dialect = ClientDialect("s", 1000)
    with pytest.raises(InvalidMessage):
        decode(dialect, {"type": "session.config", "session": 7})
    assert is_sglang(dialect)


def test_frames_that_are_no_message_are_typed_errors() -> None:
    dialect = ClientDialect("s", 1000)
    for data, is_binary, error in (
        (b"x" * 1001, False, MessageTooBig),
        (b"x" * 1001, True, MessageTooBig),
        (b"x", False, MalformedMessage),
        (b"[]", False, InvalidMessage),
    ):
        with pytest.raises(error):
            dialect.decode(data, is_binary=is_binary)
    decode(dialect, NESTED)
    assert is_sglang(dialect), "it was the first message"


def test_a_binary_frame_is_audio_in_both_dialects() -> None:
    dialect = ClientDialect("s", 1000)
    assert dialect.decode(b"abcd", is_binary=True) == (Audio(b"abcd"),)
    with contextlib.suppress(InvalidMessage):
        decode(dialect, {"type": "session.config", "session": 7})
    assert dialect.decode(b"abcd", is_binary=True) == (Audio(b"abcd"),)
