"""Behaviours of soak clients: each opens connections of its own, does one thing, and checks what it receives."""

import asyncio
import json
import re
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from random import Random
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from bench.soak_check import ConversationCheck, Refused, exact_pcm, require, words
from bench.texts import SENTENCES, pick_text
from realtime_tts.engine.models import tone
from realtime_tts.frontends.native.messages import STREAM_PATH

Behaviour = Callable[[str, Random], Awaitable[None]]
"""Gets the URL of the server.  Raises `Fault` or `Refused`, and what its sockets raise."""

SPEECH_PATH = "/v1/audio/speech"
SMALL_WINDOW_BYTES = 8192
STALL_S = (0.5, 3.0)
FORMATS = ("pcm", "pcm_mulaw", "pcm_alaw", "opus", "wav", "flac", "mp3")
INVALID = (
    '{"type": "nonsense"}',
    '{"type": "input.text", "text": 7}',
    '{"type": "input.text"}',
    '{"type": "session.config", "speed": "fast"}',
    '{"type": "session.config", "speed": 99}',
    '{"type": "session.config", "voice": "nobody"}',
    '{"type": "session.config", "response_format": "vorbis"}',
    '{"type": "playback.report", "played_ms": -1}',
    "[]",
    "7",
)
FATAL = (("hello", 1007), ('{"type": "input.text", "text": "' + "x" * 300_000 + '"}', 1009))


class Conversation:
    """A WebSocket connection, of which every received frame is checked."""

    def __init__(self, connection: ClientConnection) -> None:
        self.check = ConversationCheck()
        self._connection = connection

    async def send(self, kind: str, **fields: object) -> None:
        message = {"type": kind, **{name: value for name, value in fields.items() if value is not None}}
        await self._connection.send(json.dumps(message))

    async def send_frame(self, frame: str) -> None:
        await self._connection.send(frame)

    async def configure(self, **config: Any) -> None:
        await self.send("session.config", **config)
        await self.until("session.updated")
        self.check.voice = config.get("voice", self.check.voice)
        self.check.speed = config.get("speed", self.check.speed)

    async def next(self) -> str:
        """The type of the next frame."""
        return self.check.take(await self._connection.recv())

    async def until(self, kind: str) -> None:
        while await self.next() != kind:
            pass

    async def speak(self, pieces: list[str], rng: Random | None = None) -> None:
        """Speaks the pieces as one utterance and checks its text; with `rng` it waits between them."""
        for piece in pieces:
            await self.send("input.text", text=piece)
            if rng is not None:
                await asyncio.sleep(rng.expovariate(100))
        await self.send("input.done")
        await self.until("session.done")
        spoken = self.check.text_of(self.check.done[-1]["utterance_index"])
        require(spoken == words("".join(pieces)), f"spoken was {spoken!r}, not {''.join(pieces)!r}")

    async def speak_after_cancel(self, text: str) -> None:
        """Like `speak`, where `session.done` of cancelled utterances may come first."""
        await self.send("input.text", text=text)
        await self.send("input.done")
        await self.until("session.done")
        while self.check.done[-1]["reason"] == "cancelled":
            await self.until("session.done")
        spoken = self.check.text_of(self.check.done[-1]["utterance_index"])
        require(spoken == words(text), f"spoken after a cancel was {spoken!r}, not {text!r}")

    async def close_code(self) -> int | None:
        """Receives until the server closes."""
        with suppress(ConnectionClosed):
            while True:
                await self.next()
        return self._connection.close_code

    def reset(self) -> None:
        """Ends the TCP connection with a reset, without a close frame."""
        transport = self._connection.transport
        own = transport.get_extra_info("socket")
        own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()


@asynccontextmanager
async def conversation(url: str, *, small_window: bool = False, **config: Any) -> AsyncIterator[Conversation]:
    """With a small window the server notices soon that its client does not read."""
    address = urlsplit(url)
    own = None
    if small_window:
        own = socket.socket()
        own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_WINDOW_BYTES)
        own.setblocking(False)
        await asyncio.get_running_loop().sock_connect(own, (address.hostname, address.port))
    try:
        connecting = connect(
            f"ws://{address.netloc}{STREAM_PATH}",
            sock=own,
            proxy=None,
            compression=None,
            max_size=None,
            max_queue=2 if small_window else None,
            ping_interval=None,
            close_timeout=5,
        )
        async with connecting as connection:
            opened = Conversation(connection)
            await opened.configure(response_format="pcm", stream_audio=True, **config)
            yield opened
    except InvalidStatus as error:
        if error.response.status_code == 503:
            raise Refused(str(error)) from None
        raise


# -- WebSocket ---------------------------------------------------------------------------------------------------------


async def whole_texts(url: str, rng: Random) -> None:
    async with conversation(url) as client:
        for _ in range(rng.randint(1, 3)):
            await client.speak([pick_text(rng, rng.randint(1, 3))])


async def word_by_word(url: str, rng: Random) -> None:
    async with conversation(url) as client:
        await client.speak(re.findall(r"\S+\s*", pick_text(rng, rng.randint(1, 2))), rng)


async def barge_in(url: str, rng: Random) -> None:
    async with conversation(url) as client:
        for _ in range(rng.randint(1, 3)):
            text = pick_text(rng, 3)
            await client.send("input.text", text=text)
            if rng.random() < 0.8:
                await client.send("input.done")
            for _frame in range(rng.randint(0, 6)):
                if await client.next() == "session.done":
                    break
            await client.send("input.cancel")
            await client.until("audio.cancelled")
            cancelled = client.check.cancelled[-1]
            reported = cancelled["text_spoken"] + cancelled["text_remaining"]
            require(reported == text, f"audio.cancelled has {reported!r} of {text!r}")
        await client.speak_after_cancel(pick_text(rng))


async def config_changes(url: str, rng: Random) -> None:
    async with conversation(url) as client:
        for _ in range(3):
            await client.configure(
                voice=rng.choice(tone.VOICES).name,
                speed=rng.choice((0.8, 1.0, 1.5)),
                response_format=rng.choice(FORMATS),
                stream_audio=rng.random() < 0.7,
                split_granularity=rng.choice(("sentence", "clause")),
                word_timestamps=rng.random() < 0.5,
            )
            await client.speak([pick_text(rng)])


async def contexts(url: str, rng: Random) -> None:
    side_by_side = rng.random() < 0.5
    async with conversation(url, frame_header=side_by_side) as client:
        names = [f"c{number}" for number in range(3)]
        texts = {name: pick_text(rng, 2) for name in names}
        pieces = {name: re.findall(r"\S+\s*", texts[name]) for name in names}
        for name in names:  # in this order they begin
            await client.send("input.text", text=pieces[name].pop(0), context_id=name)
        while any(pieces.values()):
            name = rng.choice([name for name in names if pieces[name]])
            await client.send("input.text", text=pieces[name].pop(0), context_id=name)
        for name in rng.sample(names, len(names)):
            await client.send("input.done", context_id=name)
        for _ in names:
            await client.until("session.done")
        found = client.check.sentences
        for name in names:
            spoken = words(" ".join(each.text for each in found if each.context == name))
            require(spoken == words(texts[name]), f"spoken was {spoken!r}, not {texts[name]!r}")
        order = [each.context for each in found]
        require(side_by_side or order == sorted(order, key=str), f"contexts in the order {order}")


async def invalid_messages(url: str, rng: Random) -> None:
    async with conversation(url) as client:
        count = rng.randint(1, 8)
        client.check.expected_errors = count
        for frame in rng.choices(INVALID, k=count):
            await client.send_frame(frame)
        for _ in range(count):
            await client.until("error")
        await client.speak([pick_text(rng)])


async def fatal_message(url: str, rng: Random) -> None:
    frame, code = rng.choice(FATAL)
    async with conversation(url) as client:
        client.check.expected_errors = 1
        await client.send("input.text", text=pick_text(rng, 2))
        with suppress(ConnectionClosed):
            await client.send_frame(frame)
        found = await client.close_code()
        require(found == code, f"closed with {found}, not {code}")


async def close_in_mid_speech(url: str, rng: Random) -> None:
    text = pick_text(rng, 2)
    async with conversation(url) as client:
        await client.send("input.text", text=text)
        await client.send("session.close")
        found = await client.close_code()
        require(found == 1000, f"closed with {found}, not 1000")
        require(client.check.text_of(0) == words(text), "the rest was not spoken")


async def reset_in_mid_speech(url: str, rng: Random) -> None:
    async with conversation(url) as client:
        await client.send("input.text", text=pick_text(rng, 3))
        for _ in range(rng.randint(0, 5)):
            await client.next()
        client.reset()


async def stalled_reader(url: str, rng: Random) -> None:
    """Reads nothing for a while, then everything."""
    async with conversation(url, small_window=True) as client:
        text = pick_text(rng, 6)
        await client.send("input.text", text=text)
        await client.send("input.done")
        await asyncio.sleep(rng.uniform(*STALL_S))
        await client.until("session.done")
        require(client.check.text_of(0) == words(text), "not all was spoken after a stall")


async def stalled_and_reset(url: str, rng: Random) -> None:
    async with conversation(url, small_window=True) as client:
        await client.send("input.text", text=pick_text(rng, 30))
        await client.send("input.done")
        await asyncio.sleep(rng.uniform(*STALL_S))
        client.reset()


# -- HTTP --------------------------------------------------------------------------------------------------------------


async def http_speech(url: str, rng: Random) -> None:
    text, audio_format = rng.choice(SENTENCES), rng.choice(FORMATS)
    body = {"input": text, "response_format": audio_format, "voice": tone.VOICES[0].name}
    if rng.random() < 0.5:
        body["stream_format"] = "audio"
    async with aiohttp.ClientSession() as http, http.post(url + SPEECH_PATH, json=body) as response:
        data = await response.read()
        if response.status == 503:
            raise Refused(data.decode())
        require(response.status == 200, f"status {response.status}: {data[:200]!r}")
        require(bool(data), f"no {audio_format}")
        if audio_format == "pcm":
            require(data == exact_pcm(text, tone.VOICES[0].name, 1.0), f"{text!r}: other bytes over HTTP")


async def http_hang_up(url: str, rng: Random) -> None:
    """Leaves in the middle of the request or of the response."""
    address = urlsplit(url)
    body = json.dumps({"input": pick_text(rng, 5), "response_format": "pcm"}).encode()
    head = (
        f"POST {SPEECH_PATH} HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode()
    request = head + body
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    try:
        if rng.random() < 0.3:
            writer.write(request[: rng.randrange(len(request))])
            await asyncio.sleep(rng.uniform(0, 0.2))
        else:
            writer.write(request)
            await reader.read(rng.randint(1, 50_000))
    finally:
        writer.transport.abort()


async def http_pages(url: str, rng: Random) -> None:
    paths = {"/": 200, "/static/app.js": 200, "/healthz": 200, "/v1/models": 200, "/v1/audio/voices": 200}
    refused = {"/v1/nothing": 404, "/static/nothing.js": 404, "/v1/models/nothing": 404}
    async with aiohttp.ClientSession() as http:
        for path, status in rng.sample([*paths.items(), *refused.items()], 4):
            async with http.get(url + path) as response:
                await response.read()
                require(response.status == status, f"{path}: status {response.status}")
        async with http.post(url + SPEECH_PATH, json={"input": ""}) as response:
            require(response.status == 400, f"empty text: status {response.status}")


BEHAVIOURS: dict[str, tuple[Behaviour, int]] = {
    "whole texts": (whole_texts, 6),
    "word by word": (word_by_word, 3),
    "barge-in": (barge_in, 4),
    "config changes": (config_changes, 3),
    "contexts": (contexts, 3),
    "invalid messages": (invalid_messages, 2),
    "fatal message": (fatal_message, 1),
    "close in mid-speech": (close_in_mid_speech, 2),
    "reset in mid-speech": (reset_in_mid_speech, 4),
    "stalled reader": (stalled_reader, 2),
    "stalled and reset": (stalled_and_reset, 2),
    "speech over HTTP": (http_speech, 4),
    "hang-up over HTTP": (http_hang_up, 4),
    "pages over HTTP": (http_pages, 2),
}
"""With the weight with which each is chosen."""
