"""Decoding of frames: any data is an input or a typed error."""

import base64
import contextlib
import io
import json

import PIL.Image
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from realtime_tts.errors import InvalidConfig, InvalidMedia, InvalidMessage, MalformedMessage, MessageTooBig
from realtime_tts.frontends.native.decode import decode
from realtime_tts.frontends.native.messages import CLIENT_MESSAGES, SessionConfig
from realtime_tts.session.inputs import Audio, Cancel, Configure, Image, PlaybackReport, SessionInput, Text

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
fields = st.sampled_from([*SessionConfig.__struct_fields__, "text", "played_ms", "extra", ""])


def decoded(frame: str | bytes) -> SessionInput:
    data = frame.encode("utf-8", "surrogatepass") if isinstance(frame, str) else frame
    return decode(data, is_binary=False, max_message_bytes=1_000_000)


@given(st.binary() | st.text().map(str.encode))
@settings(max_examples=50)
def test_any_text_frame_is_an_input_or_a_typed_error(frame: bytes) -> None:
    with contextlib.suppress(InvalidMessage):
        assert isinstance(decoded(frame), SessionInput)


@given(st.sampled_from(list(CLIENT_MESSAGES)), st.dictionaries(fields, json_values, max_size=6))
@settings(max_examples=50)
def test_any_field_values_are_an_input_or_a_typed_error(kind: str, values: dict[str, object]) -> None:
    with contextlib.suppress(InvalidMessage):
        assert isinstance(decoded(json.dumps({**values, "type": kind})), SessionInput)


@given(st.text())
@settings(max_examples=50)
def test_text_is_decoded_unchanged(text: str) -> None:
    assert decoded(json.dumps({"type": "input.text", "text": text})) == Text(text)


def test_a_text_can_end_inside_a_surrogate_pair() -> None:
    assert decoded('{"type":"input.text","text":"hi \\ud83d"}') == Text("hi \ud83d")


def test_absent_fields_and_null_are_different() -> None:
    config = decoded('{"type":"session.config","voice":null,"speed":1.5}')
    assert config == Configure(voice=None, speed=1.5)
    assert isinstance(config, Configure)
    assert config.language is UNSET


def test_speaker_is_another_name_of_voice_and_milliseconds_become_seconds() -> None:
    config = decoded('{"type":"session.config","speaker":"x","max_buffer_delay_ms":250,"continuity_threshold_ms":null}')
    assert config == Configure(voice="x", max_buffer_delay_s=0.25, continuity_threshold_s=None)
    assert decoded('{"type":"session.config","voice":"y","speaker":"x"}') == Configure(voice="y")
    assert decoded('{"type":"input.cancel","playback_offset_ms":1500}') == Cancel(None, 1.5)
    report = decoded('{"type":"playback.report","played_ms":1000,"buffered_ms":20,"context_id":"a","underruns":3}')
    assert report == PlaybackReport(1.0, "a", 0.02)


def test_unknown_fields_of_a_config_are_kept_by_name() -> None:
    config = decoded('{"type":"session.config","sneed":1,"unknown":2,"\\ud800":3}')
    assert config == Configure(unknown=("sneed", "unknown", "\ufffd"))


def test_malformed_and_invalid_messages_are_distinguished() -> None:
    malformed: list[str | bytes] = [
        "",
        "hello",
        '{"type":"input.text"',
        "[" * 100_000,
        '{"a":' * 100_000,
        b'{"type":"\xff"}',
    ]
    invalid: list[str | bytes] = [
        "[]",
        "null",
        "{}",
        '{"type":7}',
        '{"type":"nope"}',
        '{"type":"input.text"}',
        '{"type":"input.text","text":7}',
        '{"type":"input.text","text":null}',
        '{"type":"session.config","voice":7}',
        '{"type":"session.config","stream_audio":"yes"}',
        '{"type":"session.config","sample_rate":1e999}',
        '{"type":"session.config","sample_rate":"24000"}',
        '{"type":"input.cancel","playback_offset_ms":-1}',
        '{"type":"input.cancel","playback_offset_ms":NaN}',
        '{"type":"playback.report","played_ms":1,"buffered_ms":-1}',
    ]
    cases = [(MalformedMessage, each) for each in malformed] + [(InvalidMessage, each) for each in invalid]
    for kind, frame in cases:
        with pytest.raises(kind) as caught:
            decoded(frame)
        assert type(caught.value) is kind, frame[:60]


def test_an_invalid_time_is_rejected_with_its_field() -> None:
    with pytest.raises(InvalidMessage, match="playback_offset_ms: must be a number") as caught:
        decoded('{"type":"input.cancel","playback_offset_ms":-1}')
    assert caught.value.param == "playback_offset_ms"


def test_frames_above_the_limit_are_rejected() -> None:
    for is_binary in (False, True):
        with pytest.raises(MessageTooBig) as caught:
            decode(b"x" * 1001, is_binary=is_binary, max_message_bytes=1000)
        assert caught.value.close_code == 1009


def test_a_binary_frame_is_audio_of_a_turn() -> None:
    assert decode(b"abcd", is_binary=True, max_message_bytes=1000) == Audio(b"abcd")
    assert decoded('{"type": "input.audio", "audio": "YWJjZA==", "context_id": "a"}') == Audio(b"abcd", "a")


def test_an_image_is_decoded() -> None:
    file = io.BytesIO()
    PIL.Image.new("RGB", (3, 2), (255, 0, 0)).save(file, "PNG")
    url = "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
    item = decoded(json.dumps({"type": "input.image", "data": url}))
    assert isinstance(item, Image)
    assert item.image.pixels.tolist() == [[[255, 0, 0]] * 3] * 2


def test_audio_and_images_that_are_not_valid_are_rejected() -> None:
    for message in (
        {"type": "input.audio", "audio": "%%%"},
        {"type": "input.audio", "audio": ""},
        {"type": "input.image", "data": "data:image/png,abc"},
        {"type": "input.image", "data": base64.b64encode(b"no image").decode()},
    ):
        with pytest.raises(InvalidMedia):
            decoded(json.dumps(message))


def test_turn_detection_is_refused_by_name() -> None:
    with pytest.raises(InvalidConfig) as caught:
        decoded('{"type": "session.config", "turn_detection": {"type": "server_vad"}}')
    assert caught.value.param == "turn_detection"
    assert isinstance(decoded('{"type": "session.config", "turn_detection": null}'), Configure)
