"""Responses of chat completions: the JSON of one answer, whole or in the chunks of a stream."""

import base64
import secrets
from collections.abc import Iterator

from realtime_tts.audio.format import Encoding
from realtime_tts.audio.wav import wav_header
from realtime_tts.clock import unix_time_s
from realtime_tts.engine.api import TextEnd
from realtime_tts.frontends.openai.answer_store import KEPT_S
from realtime_tts.frontends.openai.chat_request import Chat, Fields


class AnswerShape:
    """The JSON of one answer: as OpenAI's clients read it, or those that are written for vLLM-Omni's stream.

    Text is in `delta.content` and, equal, in `delta.audio.transcript`; audio is in `delta.audio.data`, and in
    vLLM-Omni's shape in `delta.content` of the chunks whose `modality` is audio.
    """

    def __init__(self, chat: Chat, model: str) -> None:
        self.audio_id = f"audio_{secrets.token_hex(12)}"
        self._chat = chat
        self._head: Fields = {"id": f"chatcmpl-{secrets.token_hex(12)}", "created": int(unix_time_s()), "model": model}
        self._is_vllm_omni = chat.shape == "vllm_omni"
        self._has_text = "text" in chat.modalities
        self._expires_at = int(unix_time_s() + KEPT_S)
        self._announced_audio = False

    def begin(self) -> Iterator[Fields]:
        yield self._chunk({"role": "assistant", "content": "" if self._has_text else None}, "text")

    def text(self, delta: str) -> Iterator[Fields]:
        fields: Fields = {"content": delta} if self._has_text else {}
        if self._chat.has_audio and not self._is_vllm_omni:
            fields["audio"] = self._audio_fields() | {"transcript": delta}
        if fields:
            yield self._chunk(fields, "text")

    def audio(self, data: bytes) -> Iterator[Fields]:
        if not self._is_vllm_omni:
            yield self._chunk({"audio": self._audio_fields() | {"data": _base64(data)}}, "audio")
            return
        chunk = self._chunk({"role": "assistant", "content": _base64(self._file(data))}, "audio")
        chunk["choices"][0]["audio_metadata"] = self._metadata(len(data) // 2)
        yield chunk

    def _file(self, pcm: bytes) -> bytes:
        """With wav each chunk is a file of its own."""
        audio_format = self._chat.audio_format
        return wav_header(audio_format, len(pcm)) + pcm if audio_format.encoding is Encoding.WAV else pcm

    def end(self, end: TextEnd) -> Iterator[Fields]:
        if self._chat.has_audio and not self._is_vllm_omni:
            yield self._chunk({"audio": {"expires_at": self._expires_at}}, "audio")
        yield self._chunk({}, "audio" if self._chat.has_audio else "text", finish_reason=_finish_reason(end))

    def usage(self, usage: Fields) -> Fields:
        return {**self._head, "object": "chat.completion.chunk", "choices": [], "usage": usage}

    def whole(self, text: str, audio: bytes, end: TextEnd, usage: Fields) -> Fields:
        message: Fields = {"role": "assistant", "content": text if self._has_text else None, "refusal": None}
        choice: Fields = {
            "index": 0,
            "message": message,
            "finish_reason": _finish_reason(end),
            "logprobs": None,
        }
        if self._chat.has_audio:
            message["audio"] = {
                "id": self.audio_id,
                "data": _base64(audio),
                "expires_at": self._expires_at,
                "transcript": text,
            }
        return {**self._head, "object": "chat.completion", "choices": [choice], "usage": usage}

    def _audio_fields(self) -> Fields:
        if self._announced_audio:
            return {}
        self._announced_audio = True
        return {"id": self.audio_id}

    def _metadata(self, samples: int) -> Fields:
        rate_hz = self._chat.audio_format.sample_rate_hz
        return {"format": self._chat.format_name, "sample_rate_hz": rate_hz, "frame_count": samples, "channels": 1}

    def _chunk(self, delta: Fields, modality: str, *, finish_reason: str | None = None) -> Fields:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason, "logprobs": None}
        return {**self._head, "object": "chat.completion.chunk", "choices": [choice], "modality": modality}


def _finish_reason(end: TextEnd) -> str:
    return "length" if end is TextEnd.LENGTH else "stop"


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
