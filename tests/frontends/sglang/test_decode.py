"""Decoding of SGLang-Omni's dialect: defaults, other names, bad input."""

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from realtime_tts.errors import InvalidConfig, InvalidMessage, RealtimeTTSError, UnreadableConfig
from realtime_tts.frontends.sglang.decode import TYPES, to_inputs
from realtime_tts.session.inputs import Close, Commit, Configure, Done, Text


def configure(session: Any, **outer: Any) -> Configure:
    (item,) = to_inputs("session.config", {"session": session, **outer})
    assert isinstance(item, Configure)
    return item


def test_the_defaults_are_whole_pcm_and_no_delay() -> None:
    item = configure({})
    assert (item.response_format, item.stream_audio, item.max_buffer_delay_s) == ("pcm", UNSET, 0.0)
    assert configure({"response_format": "wav", "stream_audio": True}).response_format == "wav"


def test_null_and_the_voice_default_are_the_default() -> None:
    for session in ({"voice": "default"}, {"speaker": "Default"}, {"voice": None, "speed": None}):
        item = configure(session)
        assert (item.voice, item.speed) == (UNSET, UNSET), session
    assert configure({"voice": "tone_low"}).voice == "tone_low"


def test_a_config_may_be_flat_after_the_first_one() -> None:
    (item,) = to_inputs("session.config", {"voice": "tone_low"})
    assert item == configure({"voice": "tone_low"})
    (item,) = to_inputs("session.config", {"session": None, "voice": "tone_low"})
    assert item == configure({"voice": "tone_low"})


def test_fields_without_effect_are_ignored_by_name() -> None:
    item = configure({"stage_params": {"a": {}}, "word_timestamps": True, "frame_header": 7}, voice="x")
    assert item.unknown == ("stage_params", "voice", "word_timestamps", "frame_header")
    assert (item.word_timestamps, item.frame_header, item.voice) == (UNSET, UNSET, UNSET)


def test_a_reference_is_a_recording_with_its_transcript() -> None:
    for name in ("audio_path", "ref_audio", "audio", "data"):
        item = configure({"references": [{name: "UklGRg==", "text": "Hello."}]})
        assert (item.ref_audio, item.ref_text) == ("UklGRg==", "Hello."), name
    item = configure({"references": [{"audio": "x"}], "ref_text": "Hello."})
    assert (item.ref_audio, item.ref_text) == ("x", "Hello.")


def test_the_end_of_the_text_is_the_end_of_the_connection() -> None:
    assert to_inputs("input.text", {"text": "Hello.", "context_id": "a"}) == (Text("Hello."),)
    assert to_inputs("input.commit", {"commit_id": 7}) == (Commit(),)
    assert to_inputs("input.done", {}) == (Done(), Close())


def test_bad_input_is_rejected_with_its_field() -> None:
    cases: list[tuple[str, dict[str, Any], type[RealtimeTTSError], str]] = [
        ("session.config", {"session": 7}, UnreadableConfig, "session"),
        ("session.config", {"session": [1]}, UnreadableConfig, "session"),
        ("session.config", {"session": {"voice": 7}}, UnreadableConfig, "voice"),
        ("session.config", {"session": {"stream_audio": "yes"}}, UnreadableConfig, "stream_audio"),
        ("session.config", {"session": {"references": {}}}, UnreadableConfig, "references"),
        ("session.config", {"session": {"references": ["x"]}}, UnreadableConfig, "references"),
        ("session.config", {"session": {"references": []}}, UnreadableConfig, "references"),
        ("session.config", {"session": {"references": [{}, {}]}}, InvalidConfig, "references"),
        ("session.config", {"session": {"references": [{"audio": 7}]}}, UnreadableConfig, "ref_audio"),
        ("input.text", {}, InvalidMessage, "text"),
        ("input.text", {"text": 7}, InvalidMessage, "text"),
        ("input.cancel", {}, InvalidMessage, "type"),
    ]
    for kind, fields, error, field in cases:
        with pytest.raises(error) as caught:
            to_inputs(kind, fields)
        assert (type(caught.value), caught.value.param) == (error, field), fields


json_values = st.recursive(
    st.none() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=2), max_leaves=3
)
names = st.sampled_from(["session", "text", "voice", "references", "speed", ""])


@given(st.sampled_from(TYPES), st.dictionaries(names, json_values | st.dictionaries(names, json_values), max_size=4))
@settings(max_examples=50)
def test_any_fields_are_inputs_or_a_typed_error(kind: str, fields: dict[str, Any]) -> None:
    with contextlib.suppress(InvalidMessage, InvalidConfig):
        assert to_inputs(kind, fields)
