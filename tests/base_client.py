"""A client of the base protocol alone, written from its published description and not from our code.

It checks every guarantee of that description, and skips messages and fields that it does not define.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import websockets.asyncio.client

PATH = "/v1/audio/speech/stream"


@dataclass
class ReceivedSentence:
    """One sentence as it was received."""

    index: int
    text: str
    format: str
    sample_rate: int
    start: dict[str, Any]
    frames: list[bytes] = field(default_factory=list)
    done: dict[str, Any] = field(default_factory=dict)

    @property
    def audio(self) -> bytes:
        return b"".join(self.frames)

    @property
    def failed(self) -> bool:
        return bool(self.done["error"])


@dataclass
class Utterance:
    sentences: list[ReceivedSentence] = field(default_factory=list)
    errors: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[dict[str, Any]] = field(default_factory=list)
    done: dict[str, Any] = field(default_factory=dict)

    @property
    def texts(self) -> list[str]:
        return [sentence.text for sentence in self.sentences]

    @property
    def audio(self) -> list[bytes]:
        return [sentence.audio for sentence in self.sentences]


Slicer = Callable[[str], Iterable[str]]


def all_at_once(text: str) -> list[str]:
    return [text]


def word_by_word(text: str) -> list[str]:
    return re.findall(r"\S+\s*|\s+", text)


def character_by_character(text: str) -> list[str]:
    return list(text)


class BaseClient:
    def __init__(self, socket: websockets.asyncio.client.ClientConnection) -> None:
        self.socket = socket

    async def send(self, message: dict[str, Any]) -> None:
        await self.socket.send(json.dumps(message))

    async def config(self, **fields: Any) -> None:
        await self.send({"type": "session.config", **fields})

    async def send_utterance(self, text: str, slicer: Slicer = all_at_once) -> None:
        """Sends the text of one utterance and its end; reads nothing."""
        for piece in slicer(text):
            await self.send({"type": "input.text", "text": piece})
        await self.send({"type": "input.done"})

    async def utterance(self) -> Utterance:
        """Reads up to `session.done`, and checks every message and frame."""
        utterance = Utterance()
        sentence: ReceivedSentence | None = None
        while True:
            frame = await self.socket.recv()
            if isinstance(frame, bytes):
                assert sentence is not None, "audio outside of a sentence"
                assert frame, "an empty binary message"
                sentence.frames.append(frame)
                continue
            message = json.loads(frame)
            match message["type"]:
                case "audio.start":
                    assert sentence is None, "audio.start inside another sentence"
                    sentence = ReceivedSentence(
                        message["sentence_index"],
                        message["sentence_text"],
                        message["format"],
                        message["sample_rate"],
                        message,
                    )
                    assert sentence.index == len(utterance.sentences), "sentence_index must count up from 0"
                case "audio.done":
                    assert sentence is not None, "audio.done without audio.start"
                    assert message["sentence_index"] == sentence.index
                    assert type(message["error"]) is bool
                    assert message["total_bytes"] == len(sentence.audio), "total_bytes is the sum of the frames"
                    if sentence.format == "pcm":
                        assert message["total_bytes"] % 2 == 0
                        assert message["samples"] * 2 == message["total_bytes"]
                    sentence.done = message
                    utterance.sentences.append(sentence)
                    sentence = None
                case "session.done":
                    assert sentence is None, "session.done inside a sentence"
                    assert message["total_sentences"] == len(utterance.sentences)
                    utterance.done = message
                    return utterance
                case "error":
                    assert isinstance(message["code"], str)
                    assert isinstance(message["message"], str)
                    utterance.errors.append(message)
                case "warning":
                    utterance.warnings.append(message)

    async def speak(self, text: str, slicer: Slicer = all_at_once) -> Utterance:
        await self.send_utterance(text, slicer)
        return await self.utterance()

    async def next(self, kind: str) -> dict[str, Any]:
        """The next message of a type; skips audio and other messages."""
        while True:
            frame = await self.socket.recv()
            if isinstance(frame, str) and (message := json.loads(frame))["type"] == kind:
                assert isinstance(message, dict)
                return message

    async def close_code(self) -> int:
        """Waits for the server's close frame, and skips everything before it.  1006: there was no close frame."""
        async for _frame in _until_closed(self.socket):
            pass
        code = self.socket.close_code
        assert code is not None
        return code


async def _until_closed(socket: websockets.asyncio.client.ClientConnection) -> AsyncIterator[str | bytes]:
    while True:
        try:
            yield await socket.recv()
        except websockets.exceptions.ConnectionClosed:
            return


def ws_url(base_url: str) -> str:
    return base_url.replace("http", "ws", 1) + PATH


@asynccontextmanager
async def base_client(base_url: str, **config: Any) -> AsyncIterator[BaseClient]:
    """Connects, and sends `config` if there is any."""
    # With a limited queue `websockets` would stop reading, and would miss the answer to its close for 10 s.
    connecting = websockets.asyncio.client.connect(ws_url(base_url), max_size=None, max_queue=None, proxy=None)
    async with connecting as socket:
        client = BaseClient(socket)
        if config:
            await client.config(**config)
        yield client


async def raw_socket(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A TCP connection after the WebSocket handshake."""
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    writer.write(
        f"GET {PATH} HTTP/1.1\r\nHost: {address.netloc}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n".encode()
    )
    assert b"101" in await reader.readuntil(b"\r\n\r\n")
    return reader, writer
