"""Answers over a real WebSocket: with text, audio and images, for clients that know them and for those that do not."""

import asyncio
import base64
import io
import json
from typing import Any

import numpy as np
import PIL.Image
import websockets.asyncio.client

from realtime_tts.audio.pcm import pcm_bytes
from realtime_tts.engine.models import tone
from realtime_tts.frontends.native.messages import STREAM_PATH
from tests.base_client import base_client
from tests.engine.thinking.answers import spoken
from tests.fakes import slots, until
from tests.serving import answer_server


async def received(socket: websockets.asyncio.client.ClientConnection, last: str = "session.done") -> list[Any]:
    """Messages and audio, up to the message of type `last`."""
    found: list[Any] = []
    async with asyncio.timeout(20):
        while not found or not isinstance(found[-1], dict) or found[-1]["type"] != last:
            frame = await socket.recv()
            found.append(frame if isinstance(frame, bytes) else json.loads(frame))
    return found


def of(kind: str, found: list[Any]) -> list[dict[str, Any]]:
    return [each for each in found if isinstance(each, dict) and each["type"] == kind]


async def test_a_client_of_the_base_protocol_plays_the_answer() -> None:
    async with (
        answer_server() as (url, _server, _engine),
        base_client(url, voice="tone_high", response_format="pcm", stream_audio=True) as client,
    ):
        utterance = await client.speak("Hello there?")
        (sentence,) = utterance.sentences
        assert sentence.text == ""
        assert sentence.audio == pcm_bytes(spoken("You said: Hello there?", "tone_high"))
        again = await client.speak("And now?")
        assert again.sentences[0].audio == pcm_bytes(spoken("You said: And now?", "tone_high"))


async def test_a_turn_of_text_audio_and_an_image_is_answered() -> None:
    file = io.BytesIO()
    PIL.Image.new("RGB", (64, 32)).save(file, "PNG")
    async with (
        answer_server() as (url, _server, engine),
        websockets.asyncio.client.connect(url.replace("http", "ws") + STREAM_PATH) as socket,
    ):
        config = {"response_format": "pcm", "stream_audio": True, "input_sample_rate": 48_000}
        await socket.send(json.dumps({"type": "session.config", **config}))
        await socket.send(json.dumps({"type": "input.text", "text": "What is this?"}))
        image = "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
        await socket.send(json.dumps({"type": "input.image", "data": image}))
        for _ in range(4):
            await socket.send(pcm_bytes(np.zeros(12_000, np.float32)))
        await socket.send(json.dumps({"type": "input.done"}))
        found = await received(socket)
        text = "You said: What is this? I received 1.0 s of audio. I received an image of 64 x 32 pixels."
        assert of("turn.committed", found)[0]["audio_ms"] == 1000.0
        assert "".join(each["delta"] for each in of("response.text.delta", found)) == text
        assert of("response.text.done", found)[0]["text"] == text
        assert b"".join(each for each in found if isinstance(each, bytes)) == pcm_bytes(spoken(text))
        usage = of("session.done", found)[0]["usage"]
        assert usage["output_tokens"] == -(-len(text) // 3)
        kinds = [each["type"] for each in found if isinstance(each, dict)]
        assert kinds.index("response.text.delta") < kinds.index("audio.start")
    await until(lambda: engine.is_idle)


async def test_a_cancel_stops_text_and_audio_at_once() -> None:
    model = tone.build(answers=True, profile="h200")
    async with (
        answer_server(model) as (url, _server, engine),
        websockets.asyncio.client.connect(url.replace("http", "ws") + STREAM_PATH) as socket,
    ):
        await socket.send(json.dumps({"type": "session.config", "response_format": "pcm", "stream_audio": True}))
        await socket.send(json.dumps({"type": "input.text", "text": "word " * 400}))
        await socket.send(json.dumps({"type": "input.done"}))
        await received(socket, "audio.start")
        await socket.send(json.dumps({"type": "input.cancel"}))
        found = await received(socket, "session.done")
        cancelled = of("audio.cancelled", found)[0]
        after = found[found.index(cancelled) + 1 :]
        assert [each["type"] for each in after] == ["session.done"]
        assert (cancelled["text_spoken"] + cancelled["text_remaining"]).startswith("You said: word")
        await until(lambda: slots(model) == 0)
    await until(lambda: engine.is_idle)


async def test_a_client_that_disconnects_frees_its_answer() -> None:
    model = tone.build(answers=True, profile="h200")
    async with answer_server(model) as (url, _server, engine):
        async with websockets.asyncio.client.connect(url.replace("http", "ws") + STREAM_PATH) as socket:
            await socket.send(json.dumps({"type": "input.text", "text": "word " * 400}))
            await socket.send(json.dumps({"type": "input.done"}))
            await received(socket, "response.text.delta")
        await until(lambda: engine.is_idle)
        await until(lambda: slots(model) == 0)
