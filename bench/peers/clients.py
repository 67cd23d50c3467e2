"""Clients of the comparison: our WebSocket protocol, OpenAI's HTTP API, and Home Assistant's Wyoming protocol."""

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
from bench.peers.text_source import TextSource
from bench.request_record import RequestRecord
from bench.server_process import HOST
from realtime_tts.client import Audio, ClientSession, ConnectionRefused, SessionEnded, connect

SAMPLE_BYTES = 2
MAX_HEADER_BYTES = 1 << 20
REFUSALS = (429, 503)


class Client(Protocol):
    async def request(self, port: int, source: TextSource, record: RequestRecord, watch: Stopwatch) -> None:
        """Sends the text and receives all audio.  The time to connect counts.  The record holds the result."""
        ...


@dataclass(frozen=True, slots=True)
class WebSocketClient:
    """Ours: text is sent as it is written, while audio is received."""

    voice: str

    async def request(self, port: int, source: TextSource, record: RequestRecord, watch: Stopwatch) -> None:
        try:
            async with connect(f"http://{HOST}:{port}", voice=self.voice) as session:
                sending = asyncio.create_task(_send(session, source, record, watch))
                try:
                    async for event in session.utterance():
                        if isinstance(event, Audio):
                            record.on_audio(event.data, event.start.sample_rate, watch.now_s())
                        else:
                            record.on_message(event, watch.now_s())
                finally:
                    sending.cancel()
                    await asyncio.gather(sending, return_exceptions=True)  # a broken connection is reported below
        except ConnectionRefused as refusal:
            if refusal.status in REFUSALS:
                record.refuse(refusal.message, watch.now_s(), refusal.retry_after_s)
            else:
                record.fail(refusal.message, watch.now_s())
        except SessionEnded as end:
            record.on_closed(end.received_close_code, end.message, watch.now_s())


async def _send(session: ClientSession, source: TextSource, record: RequestRecord, watch: Stopwatch) -> None:
    record.on_sending(watch.now_s())
    async with aclosing(source.pieces(watch)) as pieces:
        async for piece in pieces:
            await session.send_text(piece)
    await session.done()


@dataclass(frozen=True, slots=True)
class HttpClient:
    """A POST with a text, answered with audio; a text that is written token by token is sent by sentences.

    Each request is sent after the response to the last one, as voice frameworks do with such servers.
    """

    path: str
    text_field: str
    fields: dict[str, str | bool] = field(default_factory=dict)
    sample_rate_hz: int | None = None
    """Of the streamed raw PCM; None if the response is a whole wav file."""
    whole_text: bool = True
    """Whether a complete text is one request, which the server splits.  Otherwise each sentence is one."""

    async def request(self, port: int, source: TextSource, record: RequestRecord, watch: Stopwatch) -> None:
        record.on_sending(watch.now_s())
        at_once = self.whole_text and source.tokens_per_s is None
        try:
            async with (
                aiohttp.ClientSession(f"http://{HOST}:{port}") as http,
                aclosing(source.pieces(watch) if at_once else source.sentences(watch)) as texts,
            ):
                async for text in texts:
                    async with http.post(self.path, json={**self.fields, self.text_field: text}) as response:
                        if response.status != 200:
                            return await _record_error(response, record, watch)
                        await self._receive(response, record, watch)
        except (aiohttp.ClientError, wave.Error, EOFError) as error:
            record.fail(f"{type(error).__name__}: {error}", watch.now_s())
        else:
            record.finish(watch.now_s())

    async def _receive(self, response: aiohttp.ClientResponse, record: RequestRecord, watch: Stopwatch) -> None:
        if self.sample_rate_hz is None:
            pcm, rate_hz = read_wav(await response.read())
            record.on_audio(pcm, rate_hz, watch.now_s())
            return
        remainder = b""
        async for data in response.content.iter_any():
            data = remainder + data
            whole = len(data) - len(data) % SAMPLE_BYTES
            if whole:
                record.on_audio(data[:whole], self.sample_rate_hz, watch.now_s())
            remainder = data[whole:]


async def _record_error(response: aiohttp.ClientResponse, record: RequestRecord, watch: Stopwatch) -> None:
    reason = f"HTTP {response.status}: {(await response.text())[:200]}"
    if response.status in REFUSALS:
        retry_after = response.headers.get("Retry-After", "")
        record.refuse(reason, watch.now_s(), float(retry_after) if retry_after.isdigit() else None)
    else:
        record.fail(reason, watch.now_s())


def read_wav(data: bytes) -> tuple[bytes, int]:
    """16-bit mono samples and their rate.  Raises wave.Error or EOFError for other files."""
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
    """The fields of all events that are read."""

    rate: int = 0
    text: str = "an error without a message"


@dataclass(frozen=True, slots=True)
class WyomingClient:
    """Lines of JSON over TCP, each with optional audio; text is sent in pieces.

    Events: https://github.com/OHF-Voice/wyoming
    """

    async def request(self, port: int, source: TextSource, record: RequestRecord, watch: Stopwatch) -> None:
        try:
            reader, writer = await asyncio.open_connection(HOST, port, limit=MAX_HEADER_BYTES)
        except OSError as error:
            return record.fail(f"no server: {error}", watch.now_s())
        sending = asyncio.create_task(_send_events(writer, source, record, watch))
        try:
            async with aclosing(_events(reader)) as events:
                async for kind, data, payload in events:
                    if kind == "audio-chunk":
                        record.on_audio(payload, data.rate, watch.now_s())
                    elif kind == "error":
                        return record.fail(data.text, watch.now_s())
                    elif kind == "synthesize-stopped":
                        return record.finish(watch.now_s())
            record.fail("the connection ended before the audio", watch.now_s())
        except (OSError, EOFError, ValueError) as error:
            record.fail(f"{type(error).__name__}: {error}", watch.now_s())
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)  # a broken connection is reported above
            writer.close()


async def _send_events(
    writer: asyncio.StreamWriter, source: TextSource, record: RequestRecord, watch: Stopwatch
) -> None:
    record.on_sending(watch.now_s())
    writer.write(b'{"type": "synthesize-start", "data": {}}\n')
    async with aclosing(source.pieces(watch)) as pieces:
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
