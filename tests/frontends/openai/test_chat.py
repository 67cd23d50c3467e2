"""Chat completions, requested by OpenAI's client: answers as text and speech, and errors before the first token."""

import asyncio
import base64
import io
import json
import wave
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import aiohttp
import numpy as np
import openai
import PIL.Image
import pytest
import soundfile

from realtime_tts.audio.pcm import pcm_bytes
from realtime_tts.engine.answers import AnswerEngine
from realtime_tts.engine.models import tone
from realtime_tts.engine.stage import Stage, StageInput, StageOutput
from realtime_tts.errors import InvalidConfig
from realtime_tts.server.app import Server, ServerOptions
from tests.engine.thinking.answers import spoken
from tests.fakes import slots, until, with_stage
from tests.serving import answer_server, tone_server

FRAME_SAMPLES = 1920


class Served:
    def __init__(self, url: str, server: Server, engine: AnswerEngine, http: aiohttp.ClientSession) -> None:
        self.url = url
        self.server = server
        self.engine = engine
        self._http = http

    def openai(self) -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=0)

    async def ask(self, path: str = "/v1/chat/completions", **fields: object) -> tuple[int, Any]:
        body = io.BytesIO(json.dumps(fields).encode())
        headers = {"Content-Type": "application/json"}
        async with self._http.post(self.url + path, data=body, headers=headers) as response:
            return response.status, await response.json(content_type=None)

    async def refused(self, **fields: object) -> dict[str, Any]:
        """The error of a request that is refused before any token."""
        asked: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}], **fields}
        status, body = await self.ask(**asked)
        assert status == 400, body
        assert set(body["error"]) == {"message", "type", "param", "code"}
        assert body["error"]["type"] == "invalid_request_error"
        error: dict[str, Any] = body["error"]
        return error

    async def idle(self) -> None:
        await until(lambda: self.server.active_sessions == 0 and self.engine.is_idle)


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with answer_server() as (url, server, engine), aiohttp.ClientSession() as http:
        yield Served(url, server, engine, http)


def wav(seconds: float, rate_hz: int = 24_000) -> str:
    file = io.BytesIO()
    soundfile.write(file, np.zeros(int(seconds * rate_hz), np.float32), rate_hz, format="WAV")
    return base64.b64encode(file.getvalue()).decode()


def png(width: int = 64, height: int = 48) -> str:
    file = io.BytesIO()
    PIL.Image.new("RGB", (width, height)).save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


SEEN: Any = [
    {"type": "text", "text": "What is this?"},
    {"type": "input_audio", "input_audio": {"data": wav(1.4), "format": "wav"}},
    {"type": "image_url", "image_url": {"url": png()}},
]
ANSWER = "You said: What is this? I received 1.4 s of audio. I received an image of 64 x 48 pixels."
TOKENS = -(-len(ANSWER) // 3)
FRAMES = len(spoken(ANSWER)) // FRAME_SAMPLES


async def test_a_whole_answer_has_text_audio_and_usage(served: Served) -> None:
    async with served.openai() as client:
        answer = await client.chat.completions.create(
            model="tone",
            modalities=["text", "audio"],
            audio={"voice": "tone_high", "format": "pcm16"},
            messages=[{"role": "user", "content": SEEN}],
        )
    (choice,) = answer.choices
    assert (choice.message.content, choice.finish_reason) == (ANSWER, "stop")
    audio = choice.message.audio
    assert audio is not None
    assert audio.transcript == ANSWER
    assert base64.b64decode(audio.data) == pcm_bytes(spoken(ANSWER, "tone_high"))
    usage = answer.usage
    assert usage is not None
    assert usage.prompt_tokens > 20
    assert usage.completion_tokens == TOKENS + FRAMES
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert usage.completion_tokens_details is not None
    assert usage.completion_tokens_details.audio_tokens == FRAMES
    await served.idle()


async def test_a_stream_has_the_same_text_and_audio_in_pieces(served: Served) -> None:
    text = transcript = ""
    pcm, chunks, finish, usage, expires_at = b"", 0, None, None, None
    async with served.openai() as client:
        stream = await client.chat.completions.create(
            model="tone",
            modalities=["text", "audio"],
            audio={"voice": "tone_low", "format": "pcm16"},
            stream=True,
            stream_options={"include_usage": True},
            messages=[{"role": "user", "content": SEEN}],
        )
        async for chunk in stream:
            usage = chunk.usage or usage
            if not chunk.choices:
                continue
            delta = chunk.choices[0].delta
            finish = chunk.choices[0].finish_reason or finish
            text += delta.content or ""
            audio = delta.audio
            if audio is not None:
                transcript += audio.transcript or ""
                pcm += base64.b64decode(audio.data or "")
                chunks += bool(audio.data)
                expires_at = audio.expires_at or expires_at
    assert text == transcript == ANSWER
    assert pcm == pcm_bytes(spoken(ANSWER))
    assert chunks > 1
    assert finish == "stop"
    assert expires_at is not None
    assert usage is not None
    assert usage.completion_tokens == TOKENS + FRAMES
    await served.idle()


async def test_a_text_answer_is_the_default(served: Served) -> None:
    async with served.openai() as client:
        answer = await client.chat.completions.create(
            model="gpt-4o-audio-preview",
            messages=[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
            max_completion_tokens=3,
        )
    (choice,) = answer.choices
    assert (choice.message.content, choice.finish_reason) == ("You said:", "length")
    assert choice.message.audio is None
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 3


async def test_audio_alone_has_no_content(served: Served) -> None:
    fields: dict[str, Any] = {"modalities": ["audio"], "messages": [{"role": "user", "content": "Hi"}]}
    status, body = await served.ask(**fields)
    message = body["choices"][0]["message"]
    assert (status, message["content"], message["audio"]["transcript"]) == (200, None, "You said: Hi")
    with wave.open(io.BytesIO(base64.b64decode(message["audio"]["data"]))) as file:
        assert file.getnframes() == len(spoken("You said: Hi"))


async def test_every_format_of_a_whole_answer_can_be_decoded(served: Served) -> None:
    for name in ("wav", "flac", "mp3", "opus"):
        fields: dict[str, Any] = {
            "modalities": ["audio"],
            "audio": {"format": name},
            "messages": [{"role": "user", "content": "Hi"}],
        }
        _status, body = await served.ask(**fields)
        data = base64.b64decode(body["choices"][0]["message"]["audio"]["data"])
        samples, _rate_hz = soundfile.read(io.BytesIO(data))
        assert len(samples) > FRAME_SAMPLES, name


async def test_an_earlier_answer_is_named_by_the_id_of_its_audio(served: Served) -> None:
    async with served.openai() as client:
        first = await client.chat.completions.create(
            model="tone",
            modalities=["text", "audio"],
            audio={"voice": "tone_low", "format": "wav"},
            messages=[{"role": "user", "content": "One?"}],
        )
        audio = first.choices[0].message.audio
        assert audio is not None
        second = await client.chat.completions.create(
            model="tone",
            messages=[
                {"role": "user", "content": "One?"},
                {"role": "assistant", "audio": {"id": audio.id}},
                {"role": "user", "content": "Two?"},
            ],
        )
    assert second.choices[0].message.content == "You said: Two?"
    assert second.usage is not None
    assert first.usage is not None
    assert second.usage.prompt_tokens == first.usage.prompt_tokens + 2 + 5 + 2 + 2  # two turns more
    error = await served.refused(
        messages=[{"role": "assistant", "audio": {"id": "x"}}, {"role": "user", "content": "?"}]
    )
    assert error["param"] == "messages[0]"


async def test_a_stop_text_ends_the_answer(served: Served) -> None:
    _status, body = await served.ask(messages=[{"role": "user", "content": "One. Two."}], stop=["Two", "x"])
    assert body["choices"][0]["message"]["content"] == "You said: One. "
    assert body["choices"][0]["finish_reason"] == "stop"


async def test_the_shape_of_vllm_omni_has_audio_in_the_content(served: Served) -> None:
    """The request of `vllm bench serve --backend openai-chat-omni`, and how that client reads the stream."""
    body = {
        "model": "tone",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
        "modalities": ["text", "audio"],
        "temperature": 0.0,
        "max_completion_tokens": 100,
        "stream": True,
        "stream_options": {"include_usage": True},
        "mm_processor_kwargs": {},
        "sampling_params_list": [{}],
    }
    text, samples, usage = "", 0, None
    async with (
        aiohttp.ClientSession() as http,
        http.post(f"{served.url}/v1/chat/completions?stream_shape=vllm_omni", json=body) as response,
    ):
        assert response.status == 200
        assert "sampling_params_list" in response.headers["X-Realtime-TTS-Ignored"]
        async for line in response.content:
            if not line.startswith(b"data: {"):
                continue
            chunk = json.loads(line.removeprefix(b"data: "))
            usage = chunk.get("usage") or usage
            for choice in chunk["choices"]:
                content = choice["delta"].get("content") or ""
                if chunk["modality"] == "audio" and content:
                    with wave.open(io.BytesIO(base64.b64decode(content))) as file:
                        samples += file.getnframes()
                    assert choice["audio_metadata"]["sample_rate_hz"] == 24_000
                elif chunk["modality"] == "text":
                    text += content
    assert text == "You said: Hi"
    assert samples == len(spoken(text))
    assert usage is not None


async def test_bad_input_is_refused_before_the_first_token_in_openais_shape(served: Served) -> None:
    def user(*parts: dict[str, Any]) -> list[dict[str, Any]]:
        return [{"role": "user", "content": list(parts)}]

    def sound(data: str) -> dict[str, Any]:
        return {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}

    def picture(url: str) -> dict[str, Any]:
        return {"type": "image_url", "image_url": {"url": url}}

    nan = io.BytesIO()
    soundfile.write(nan, np.full(2400, np.nan, np.float32), 24_000, format="WAV", subtype="FLOAT")
    garbage = base64.b64encode(b"not a picture").decode()
    cases: list[tuple[dict[str, Any], str | None, str]] = [
        ({"n": 2}, "n", "invalid_message"),
        ({"tools": [{"type": "function"}]}, "tools", "invalid_message"),
        ({"logprobs": True}, "logprobs", "invalid_message"),
        ({"response_format": {"type": "json_object"}}, "response_format", "invalid_message"),
        ({"messages": []}, "messages", "invalid_message"),
        ({"messages": [{"role": "user", "content": "x"}] * 10_000}, "messages", "invalid_message"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0]", "invalid_message"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, "messages", "invalid_message"),
        ({"messages": [{"role": "user", "content": "x" * 60_000}]}, None, "text_too_long"),
        ({"messages": "x"}, "messages", "invalid_message"),
        ({"modalities": ["video"]}, "modalities", "invalid_config"),
        ({"modalities": ["audio"], "audio": {"voice": "nobody"}}, "voice", "unknown_voice"),
        ({"modalities": ["audio"], "audio": {"format": "aiff"}}, "audio.format", "unsupported_format"),
        ({"modalities": ["audio"], "audio": {"format": "mp3"}, "stream": True}, "audio.format", "unsupported_format"),
        ({"temperature": 3}, "temperature", "invalid_message"),
        ({"max_tokens": 0}, "max_completion_tokens", "invalid_message"),
        ({"stop": ["a", "b", "c", "d", "e"]}, "stop", "invalid_message"),
        ({"messages": user({"type": "video_url", "video_url": {"url": "x"}})}, "messages[0]", "invalid_message"),
        ({"messages": user(sound(wav(301.0, 8000)))}, "messages[0]", "invalid_media"),
        ({"messages": user(sound(""))}, "messages[0]", "invalid_media"),
        ({"messages": user(sound(wav(0.0)))}, "messages[0]", "invalid_media"),
        ({"messages": user(sound(base64.b64encode(nan.getvalue()).decode()))}, "messages[0]", "invalid_media"),
        ({"messages": user(sound(garbage))}, "messages[0]", "invalid_media"),
        ({"messages": user(picture(garbage))}, "messages[0]", "invalid_media"),
        ({"messages": user(picture(png(4000, 4000)))}, "messages[0]", "invalid_media"),
        ({"messages": user(picture(png(1000, 2)))}, "messages[0]", "invalid_media"),
        ({"messages": user(*[picture(png())] * 9)}, "messages[0]", "invalid_media"),
        ({"messages": user(picture("https://example.com/a.png"))}, "messages[0]", "invalid_media"),
        ({"messages": user({"type": "text"})}, "messages[0]", "invalid_message"),
        ({"messages": user()}, "messages[0]", "invalid_message"),
    ]
    for fields, param, code in cases:
        for stream in (False, True):
            error = await served.refused(**{"stream": stream, **fields})
            assert (error["code"], error["param"]) == (code, param), (str(fields)[:200], error)
    await served.idle()


async def test_urls_are_fetched_where_the_server_allows_it() -> None:
    fetched: list[str] = []

    async def fetch(url: str) -> bytes:
        fetched.append(url)
        if url.endswith("missing"):
            raise InvalidConfig("the URL answers with status 404")
        return base64.b64decode(wav(0.5))

    options = ServerOptions(fetch_media=fetch)
    async with answer_server(options=options) as (url, server, engine), aiohttp.ClientSession() as http:
        served = Served(url, server, engine, http)
        part = {"type": "audio_url", "audio_url": {"url": "https://example.com/a.wav"}}
        _status, body = await served.ask(messages=[{"role": "user", "content": [part]}])
        assert body["choices"][0]["message"]["content"] == "I received 0.5 s of audio."
        part = {"type": "audio_url", "audio_url": {"url": "https://example.com/missing"}}
        error = await served.refused(messages=[{"role": "user", "content": [part]}])
        assert "404" in error["message"]
    assert len(fetched) == 2


async def test_a_client_that_leaves_frees_its_answer() -> None:
    model = tone.build(answers=True, profile="h200")
    async with answer_server(model) as (url, server, engine), aiohttp.ClientSession() as http:
        served = Served(url, server, engine, http)
        body = {
            "messages": [{"role": "user", "content": "x" * 3000}],
            "modalities": ["text", "audio"],
            "stream": True,
        }
        async with http.post(f"{url}/v1/chat/completions", json=body) as response:
            await response.content.readany()
        await served.idle()
        await until(lambda: slots(model) == 0)


class ShortTalker:
    """A Talker that reaches its limit of frames before the end of the text."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._frames: Counter[str] = Counter()

    def run(self, batch: Sequence[StageInput]) -> Sequence[StageOutput]:
        outputs = self._stage.run(batch)
        for row, output in zip(batch, outputs, strict=True):
            self._frames[row.request.request_id] += len(output.values)
        return [
            replace(output, finished=True, truncated=True) if self._frames[row.request.request_id] >= 5 else output
            for row, output in zip(batch, outputs, strict=True)
        ]

    def release(self, request_id: str) -> None:
        self._stage.release(request_id)


async def test_speech_that_is_cut_off_ends_with_the_reason_length() -> None:
    model = tone.build(answers=True)
    model = with_stage(model, "talker", ShortTalker(model.stages["talker"][0]))
    async with answer_server(model) as (url, server, engine), aiohttp.ClientSession() as http:
        served = Served(url, server, engine, http)
        fields: dict[str, Any] = {"modalities": ["text", "audio"], "audio": {"format": "pcm16"}}
        status, body = await served.ask(messages=[{"role": "user", "content": "Hello there?"}], **fields)
        assert (status, body["choices"][0]["finish_reason"]) == (200, "length")
        message = body["choices"][0]["message"]
        assert message["content"] == "You said: Hello there?"
        assert len(base64.b64decode(message["audio"]["data"])) == 5 * FRAME_SAMPLES * 2


async def test_large_requests_that_are_received_at_once_are_limited(served: Served) -> None:
    async def slow() -> AsyncIterator[bytes]:
        yield b"{"
        await released.wait()
        yield b'"messages": [{"role": "user", "content": "Hi"}]}'

    released = asyncio.Event()
    headers = {"Content-Type": "application/json"}
    url = f"{served.url}/v1/chat/completions"
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:

        async def ask() -> int:
            async with http.post(url, data=slow(), headers=headers) as response:
                return response.status

        waiting = [asyncio.create_task(ask()) for _ in range(16)]
        await until(lambda: served.server.chat.large_bodies == 16)
        assert await ask() == 503
        status, _body = await served.ask(messages=[{"role": "user", "content": "Hi"}])
        assert status == 200  # small ones are not affected
        released.set()
        assert set(await asyncio.gather(*waiting)) == {200}


async def test_speech_is_refused_by_name(served: Served) -> None:
    status, body = await served.ask("/v1/audio/speech", input="Hi", voice="tone_low")
    assert (status, body["error"]["code"], body["error"]["param"]) == (404, "model_not_found", "model")


async def test_a_server_without_a_model_that_answers_has_no_such_resource() -> None:
    async with tone_server() as (url, _), aiohttp.ClientSession() as http:
        body = {"messages": [{"role": "user", "content": "Hi"}]}
        async with http.post(f"{url}/v1/chat/completions", json=body) as response:
            assert response.status == 404
            assert (await response.json())["error"]["code"] == "not_found"


async def test_a_model_that_does_not_answer_is_refused_by_name() -> None:
    async with (
        answer_server() as (_url, server, engine),
        tone_server(other_engines={"answers": engine}) as (both_url, _),
        aiohttp.ClientSession() as http,
    ):
        served = Served(both_url, server, engine, http)
        body: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}], "model": "tone"}
        status, answer = await served.ask(**body)
        assert (status, answer["error"]["code"], answer["error"]["param"]) == (404, "model_not_found", "model")
        status, answer = await served.ask(**{**body, "model": "answers"})
        assert (status, answer["model"]) == (200, "answers")
        async with http.get(f"{both_url}/v1/models") as response:
            models = {each["id"]: each for each in (await response.json())["data"]}
        assert (models["tone"]["answers"], models["answers"]["answers"]) == (False, True)
        assert models["answers"]["input_modalities"] == ["text", "audio", "image"]
