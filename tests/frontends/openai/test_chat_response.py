"""Responses of chat completions: their JSON in each shape."""

import base64
import io
import wave
from dataclasses import replace

from realtime_tts.audio.format import AudioFormat, Encoding
from realtime_tts.engine.api import TextEnd, TextSampling
from realtime_tts.frontends.openai.chat_request import Chat
from realtime_tts.frontends.openai.chat_response import AnswerShape

PCM = bytes(480)
CHAT = Chat(
    turns=(),
    sampling=TextSampling(),
    modalities=("text", "audio"),
    voice=None,
    audio_format=AudioFormat(Encoding.PCM, 24_000),
    format_name="pcm16",
    stream=True,
    include_usage=False,
    shape="openai",
    ignored=(),
)
VLLM_OMNI = replace(CHAT, shape="vllm_omni", audio_format=AudioFormat(Encoding.WAV, 24_000), format_name="wav")


def test_the_id_of_the_audio_is_announced_once_and_the_text_is_in_both_places() -> None:
    shape = AnswerShape(CHAT, "omni")
    (first,), (second,) = shape.text("It "), shape.text("is")
    assert first["choices"][0]["delta"] == {"content": "It ", "audio": {"id": shape.audio_id, "transcript": "It "}}
    assert second["choices"][0]["delta"] == {"content": "is", "audio": {"transcript": "is"}}
    (audio,) = shape.audio(PCM)
    assert audio["choices"][0]["delta"] == {"audio": {"data": base64.b64encode(PCM).decode()}}
    assert (first["modality"], audio["modality"]) == ("text", "audio")
    expiry, last = shape.end(TextEnd.LENGTH)
    assert set(expiry["choices"][0]["delta"]["audio"]) == {"expires_at"}
    assert last["choices"][0]["finish_reason"] == "length"
    assert {chunk["id"] for chunk in (first, second, audio, last)} == {first["id"]}


def test_a_text_answer_has_no_audio_at_all() -> None:
    shape = AnswerShape(replace(CHAT, modalities=("text",)), "omni")
    (chunk,) = shape.text("It")
    assert chunk["choices"][0]["delta"] == {"content": "It"}
    assert len(list(shape.end(TextEnd.STOP))) == 1
    assert "audio" not in shape.whole("It", b"", TextEnd.STOP, {})["choices"][0]["message"]


def test_in_vllm_omnis_shape_each_chunk_of_audio_is_a_file_in_the_content() -> None:
    shape = AnswerShape(VLLM_OMNI, "omni")
    (text,) = shape.text("It")
    assert text["choices"][0]["delta"] == {"content": "It"}
    (chunk,) = shape.audio(PCM)
    choice = chunk["choices"][0]
    with wave.open(io.BytesIO(base64.b64decode(choice["delta"]["content"]))) as file:
        assert (file.getframerate(), file.getnframes()) == (24_000, 240)
    assert choice["audio_metadata"] == {"format": "wav", "sample_rate_hz": 24_000, "frame_count": 240, "channels": 1}
    (last,) = shape.end(TextEnd.STOP)
    assert (last["modality"], last["choices"][0]["finish_reason"]) == ("audio", "stop")


def test_a_whole_answer_has_content_and_audio() -> None:
    shape = AnswerShape(CHAT, "omni")
    body = shape.whole("It is.", b"audio", TextEnd.STOP, {"total_tokens": 3})
    (choice,) = body["choices"]
    assert (body["object"], body["model"], body["usage"]) == ("chat.completion", "omni", {"total_tokens": 3})
    audio = choice["message"]["audio"]
    assert (choice["message"]["content"], audio["transcript"], audio["id"]) == ("It is.", "It is.", shape.audio_id)
    only_audio = AnswerShape(replace(CHAT, modalities=("audio",)), "omni")
    assert only_audio.whole("It is.", b"audio", TextEnd.STOP, {})["choices"][0]["message"]["content"] is None
