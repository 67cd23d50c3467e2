"""How a listener speaks to each kind of server: our WebSocket, OpenAI's HTTP, and Home Assistant's Wyoming."""

import asyncio
import io
import json
import wave
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Protocol

import aiohttp
import msgspec

from bench.listeners import Stopwatch
from bench.peers.feed import Feed
from bench.take import Take
from realtime_tts.client import Audio, ClientSession, ConnectionRefused, SessionEnded, connect

HOST = "127.0.0.1"
SAMPLE_BYTES = 2
MAX_HEADER_BYTES = 1 << 20
REFUSALS = (429, 503)


class Client(Protocol):
    async def hear(self, port: int, feed: Feed, take: Take, watch: Stopwatch) -> None:
        """Speaks the feed's text and hears it to the end.  Connecting counts.  What becomes of it is in the take."""
        ...


@dataclass(frozen=True, slots=True)
class WebSocketClient:
    """Ours: text goes out as it comes, while sound comes in."""

    voice: str

    async def hear(self, port: int, feed: Feed, take: Take, watch: Stopwatch) -> None:
        try:
            async with connect(f"http://{HOST}:{port}", voice=self.voice) as session:
                sending = asyncio.create_task(_send(session, feed, take, watch))
                try:
                    async for event in session.utterance():
                        if isinstance(event, Audio):
                            take.on_audio(event.data, event.start.sample_rate, watch.now_s())
                        else:
                            take.on_message(event, watch.now_s())
                finally:
                    sending.cancel()
                    await asyncio.gather(sending, return_exceptions=True)  # a broken connection is told below
        except ConnectionRefused as refusal:
            if refusal.status in REFUSALS:
                take.refuse(refusal.message, watch.now_s(), refusal.retry_after_s)
            else:
                take.fail(refusal.message, watch.now_s())
        except SessionEnded as end:
            take.on_closed(end.received_close_code, end.message, watch.now_s())


async def _send(session: ClientSession, feed: Feed, take: Take, watch: Stopwatch) -> None:
    take.on_sending(watch.now_s())
    async with aclosing(feed.pieces(watch)) as pieces:
        async for piece in pieces:
            await session.send_text(piece)
    await session.done()


@dataclass(frozen=True, slots=True)
class HttpClient:
    """A POST of a text, answered by sound; a text that is still being written goes sentence by sentence.

    One request is answered before the next is sent, which is how voice frameworks drive such servers.
    """

    path: str
    text_field: str
    fields: dict[str, str | bool] = field(default_factory=dict)
    sample_rate_hz: int | None = None
    """Of the raw PCM that is streamed; None where a whole wav file answers."""
    whole_text: bool = True
    """Whether a text that is complete is one request: the server cuts it.  Else each sentence is one."""

    async def hear(self, port: int, feed: Feed, take: Take, watch: Stopwatch) -> None:
        take.on_sending(watch.now_s())
        at_once = self.whole_text and feed.tokens_per_s is None
        try:
            async with (
                aiohttp.ClientSession(f"http://{HOST}:{port}") as http,
                aclosing(feed.pieces(watch) if at_once else feed.sentences(watch)) as texts,
            ):
                async for text in texts:
                    async with http.post(self.path, json={**self.fields, self.text_field: text}) as answer:
                        if answer.status != 200:
                            return await _turn_down(answer, take, watch)
                        await self._listen(answer, take, watch)
        except (aiohttp.ClientError, wave.Error, EOFError) as error:
            take.fail(f"{type(error).__name__}: {error}", watch.now_s())
        else:
            take.finish(watch.now_s())

    async def _listen(self, answer: aiohttp.ClientResponse, take: Take, watch: Stopwatch) -> None:
        if self.sample_rate_hz is None:
            pcm, rate_hz = read_wav(await answer.read())
            take.on_audio(pcm, rate_hz, watch.now_s())
            return
        odd = b""
        async for data in answer.content.iter_any():
            data = odd + data
            whole = len(data) - len(data) % SAMPLE_BYTES
            if whole:
                take.on_audio(data[:whole], self.sample_rate_hz, watch.now_s())
            odd = data[whole:]


async def _turn_down(answer: aiohttp.ClientResponse, take: Take, watch: Stopwatch) -> None:
    reason = f"HTTP {answer.status}: {(await answer.text())[:200]}"
    if answer.status in REFUSALS:
        retry_after = answer.headers.get("Retry-After", "")
        take.refuse(reason, watch.now_s(), float(retry_after) if retry_after.isdigit() else None)
    else:
        take.fail(reason, watch.now_s())


def read_wav(data: bytes) -> tuple[bytes, int]:
    """16-bit mono samples, and their rate.  Raises wave.Error or EOFError where it is no such file."""
    with wave.open(io.BytesIO(data)) as file:
        if (file.getnchannels(), file.getsampwidth()) != (1, SAMPLE_BYTES):
            raise wave.Error(f"{file.getnchannels()} channels of {8 * file.getsampwidth()} bits")
        return file.readframes(file.getnframes()), file.getframerate()


class _EventHead(msgspec.Struct, frozen=True):
    type: str
    data: dict[str, object] = {}
    data_length: int = 0
    payload_length: int = 0


class _EventData(msgspec.Struct, frozen=True):
    """What is read of any event's data."""

    rate: int = 0
    text: str = "an error without words"


@dataclass(frozen=True, slots=True)
class WyomingClient:
    """Lines of JSON over TCP, with sound behind them; text goes out in pieces.

    https://github.com/OHF-Voice/wyoming says what the events are.
    """

    async def hear(self, port: int, feed: Feed, take: Take, watch: Stopwatch) -> None:
        try:
            reader, writer = await asyncio.open_connection(HOST, port, limit=MAX_HEADER_BYTES)
        except OSError as error:
            return take.fail(f"no server: {error}", watch.now_s())
        sending = asyncio.create_task(_send_events(writer, feed, take, watch))
        try:
            async with aclosing(_events(reader)) as events:
                async for kind, data, payload in events:
                    if kind == "audio-chunk":
                        take.on_audio(payload, data.rate, watch.now_s())
                    elif kind == "error":
                        return take.fail(data.text, watch.now_s())
                    elif kind == "synthesize-stopped":
                        return take.finish(watch.now_s())
            take.fail("the connection ended before its sound", watch.now_s())
        except (OSError, EOFError, ValueError) as error:
            take.fail(f"{type(error).__name__}: {error}", watch.now_s())
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)  # a broken connection is told above
            writer.close()


async def _send_events(writer: asyncio.StreamWriter, feed: Feed, take: Take, watch: Stopwatch) -> None:
    take.on_sending(watch.now_s())
    writer.write(b'{"type": "synthesize-start", "data": {}}\n')
    async with aclosing(feed.pieces(watch)) as pieces:
        async for piece in pieces:
            event = {"type": "synthesize-chunk", "data": {"text": piece}}
            writer.write(json.dumps(event).encode() + b"\n")
            await writer.drain()
    writer.write(b'{"type": "synthesize-stop"}\n')
    await writer.drain()


async def _events(reader: asyncio.StreamReader) -> AsyncGenerator[tuple[str, _EventData, bytes], None]:
    """(type, data, payload) of each event until the connection ends."""
    while line := await reader.readline():
        head = msgspec.json.decode(line, type=_EventHead)
        data = msgspec.convert(head.data, _EventData)
        if head.data_length:
            data = msgspec.json.decode(await reader.readexactly(head.data_length), type=_EventData)
        yield head.type, data, await reader.readexactly(head.payload_length)
