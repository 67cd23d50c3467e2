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

from realtime_tts.errors import (
    InvalidConfig,
    InvalidMedia,
    InvalidMessage,
    MalformedMessage,
    MessageTooBig,
    UnreadableConfig,
)
from realtime_tts.frontends.native.decode import decode
from realtime_tts.frontends.native.messages import CLIENT_MESSAGES, SessionConfig
from realtime_tts.session.inputs import Audio, Cancel, Commit, Configure, Image, PlaybackReport, SessionInput, Text

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
    with contextlib.suppress(InvalidMessage, InvalidConfig):
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
        '{"type":"input.commit","commit_id":7}',
        '{"type":"input.cancel","playback_offset_ms":-1}',
        '{"type":"input.cancel","playback_offset_ms":NaN}',
        '{"type":"playback.report","played_ms":1,"buffered_ms":-1}',
    ]
    config: list[str | bytes] = [
        '{"type":"session.config","voice":7}',
        '{"type":"session.config","stream_audio":"yes"}',
        '{"type":"session.config","sample_rate":1e999}',
        '{"type":"session.config","sample_rate":"24000"}',
    ]
    cases: list[tuple[type[InvalidMessage], list[str | bytes]]] = [
        (MalformedMessage, malformed),
        (InvalidMessage, invalid),
        (UnreadableConfig, config),
    ]
    for kind, frames in cases:
        for frame in frames:
            with pytest.raises(kind) as caught:
                decoded(frame)
            assert type(caught.value) is kind, frame[:60]


def test_a_field_of_a_wrong_type_is_named() -> None:
    cases = {
        '{"type":"session.config","voice":7}': "voice",
        '{"type":"input.text"}': "text",
        '{"type":"input.text","text":7}': "text",
        '{"type":"input.commit","commit_id":7}': "commit_id",
        '{"type":"input.commit","commit_id":["a"]}': "commit_id",
        '{"type":"input.commit","context_id":{}}': "context_id",
        '{"type":7}': "type",
        '{"type":"nope"}': "type",
    }
    for frame, field in cases.items():
        with pytest.raises(InvalidMessage) as caught:
            decoded(frame)
        assert caught.value.param == field, frame
        assert caught.value.message.startswith(f"{field}: "), frame


def test_a_commit_is_a_commit_and_its_id_can_be_sent_back() -> None:
    assert decoded('{"type":"input.commit"}') == Commit()
    assert decoded('{"type":"input.commit","commit_id":"a","context_id":"b"}') == Commit("a", "b")
    assert decoded('{"type":"input.commit","commit_id":"\\ud800"}') == Commit("\ufffd")


def test_a_streaming_mode_stands_for_other_fields_and_yields_to_them() -> None:
    def mode(name: object, **fields: object) -> SessionInput:
        return decoded(json.dumps({"type": "session.config", "streaming_mode": name, **fields}))

    assert mode("sentence") == mode(None) == Configure()
    assert mode("token_level") == Configure(stream_audio=True)
    committed = Configure(stream_audio=True, split_granularity="none", max_buffer_delay_s=0.0)
    assert mode("sentence_commit") == committed
    by_clause = mode("sentence_commit", split_granularity="clause", stream_audio=False)
    assert by_clause == Configure(stream_audio=False, split_granularity="clause", max_buffer_delay_s=0.0)
    with pytest.raises(InvalidConfig, match="must be sentence, token_level, sentence_commit") as caught:
        mode("word_level")
    assert caught.value.param == "streaming_mode"


def test_word_times_are_sent_with_the_audio_if_requested_or_if_the_config_is_one_of_vllm_omni() -> None:
    def in_audio(**fields: object) -> object:
        config = decoded(json.dumps({"type": "session.config", **fields}))
        assert isinstance(config, Configure)
        return config.timestamps_in_audio

    assert in_audio(word_timestamps=True) is UNSET
    assert in_audio(task_type="CustomVoice") is UNSET
    assert in_audio(task_type="CustomVoice", word_timestamps=False) is UNSET
    assert in_audio(task_type=None, word_timestamps=True) is UNSET
    assert in_audio(task_type="CustomVoice", word_timestamps=True) is True
    assert in_audio(task_type="CustomVoice", word_timestamps=True, timestamps_as="audio.timestamps") is False
    assert in_audio(timestamps_as="audio.chunk") is True
    assert in_audio(timestamps_as=None) is None
    with pytest.raises(InvalidConfig) as caught:
        in_audio(timestamps_as="audio")
    assert caught.value.param == "timestamps_as"


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
