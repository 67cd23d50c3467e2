"""Servers of `bench.server_overhead`: ours, bare aiohttp, and hand-written frames on asyncio streams.

    python -m bench.server_overhead_servers --kind ours --format pcm --core 0

All send the same packets at the same rate: a chunk of 80 ms to each listener every 80 ms, by the time at which it is
due, independent of when the last one was sent.  The process prints its port in the first line, answers each line on
stdin with its CPU time, memory and event-loop lag so far (a `Usage`), and ends when stdin is closed.
"""

import asyncio
import base64
import hashlib
import os
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import cycle
from pathlib import Path

import msgspec
import numpy as np
from aiohttp import web

from bench.load import loop_factory
from bench.options import make_parser
from bench.stub_engine import StubEngine
from realtime_tts.audio.encoder import make_encoder
from realtime_tts.audio.format import AudioFormat, Encoding
from realtime_tts.clock import Clock, MonotonicClock
from realtime_tts.engine.api import (
    AudioReady,
    EndStream,
    EngineCommand,
    EventSink,
    Samples,
    SynthesisRequest,
)
from realtime_tts.engine.models import tone
from realtime_tts.frontends.native.messages import STREAM_PATH
from realtime_tts.ops.metrics import Metrics
from realtime_tts.server.app import Server, ServerLimits, ServerOptions, listening

KINDS = ("ours", "aiohttp", "raw")
CHUNK_SAMPLES = tone.SAMPLES_PER_FRAME
CHUNK_S = CHUNK_SAMPLES / tone.SAMPLE_RATE_HZ
CHUNKS = 64
"""Of audio made beforehand and repeated."""
MAX_LISTENERS = 16_000
LAG_EVERY_S = 0.01
WEBSOCKET_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
"""RFC 6455, 1.3."""


class Usage(msgspec.Struct, frozen=True):
    """The resources that the server has used so far."""

    at_s: float
    cpu_s: float
    waited_s: float
    """Ready to run while another process used its core; 0 if the system does not report it."""
    rss_bytes: int | None
    """None if the system does not report it."""
    lags_s: tuple[float, ...]
    """Of the event loop, sampled since the previous answer."""


def chunks() -> list[Samples]:
    """The audio of all listeners: speech of `tone`, float32, `CHUNK_SAMPLES` each."""
    text = "The capacity of one core is the number of streams that it serves in time. " * 4
    audio = tone.render(SynthesisRequest("overhead", "overhead", text, "tone_low"))
    whole = np.resize(audio, CHUNKS * CHUNK_SAMPLES)
    return [np.asarray(piece, np.float32) for piece in whole.reshape(CHUNKS, CHUNK_SAMPLES)]


def packets_of(encoding: Encoding) -> list[list[bytes]]:
    """The encoded packets of each chunk: the minimal senders do not encode."""
    encoder = make_encoder(AudioFormat(encoding, tone.SAMPLE_RATE_HZ), tone.SAMPLE_RATE_HZ, streaming=True)
    return [[packet.data for packet in encoder.encode(chunk)] for chunk in chunks()]


# -- Ours --------------------------------------------------------------------------------------------------------------


class RealtimeEngine(StubEngine):
    """An engine without cost: audio made beforehand, sent at playback speed until the stream ends."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._chunks = chunks()
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def send(self, command: EngineCommand, sink: EventSink | None = None) -> None:
        super().send(command, sink)
        if isinstance(command, EndStream) and (timer := self._timers.pop(command.stream_id, None)):
            timer.cancel()

    def submit(self, request: SynthesisRequest, sink: EventSink) -> None:
        chunk = 0
        due_s = self._loop.time()

        def send_chunk() -> None:
            nonlocal chunk, due_s
            due_s += CHUNK_S
            self._timers[request.stream_id] = self._loop.call_at(due_s, send_chunk)
            sink(AudioReady(request.request_id, self._chunks[chunk]))
            chunk = (chunk + 1) % CHUNKS

        send_chunk()


@asynccontextmanager
async def ours(_encoding: Encoding) -> AsyncIterator[int]:
    """The complete server except for its engine thread: connection limits, middlewares, session, encoder, metrics."""
    clock, metrics = MonotonicClock(), Metrics()
    limits = ServerLimits(max_sessions=MAX_LISTENERS)
    server = Server(
        {"tone": RealtimeEngine(asyncio.get_running_loop())},
        clock,
        limits,
        ServerOptions(observer=metrics, metrics_text=metrics.text),
    )
    metrics.watch_sessions(lambda: server.active_sessions)
    lag = asyncio.create_task(metrics.measure_loop_lag(clock))
    try:
        async with listening(server, "127.0.0.1", 0) as url:
            yield int(url.rsplit(":", 1)[1])
    finally:
        lag.cancel()


# -- Minimal senders ---------------------------------------------------------------------------------------------------


async def realtime(packets: Sequence[Sequence[bytes]]) -> AsyncIterator[bytes]:
    """An endless sequence of packets, each at the time at which it is due."""
    loop = asyncio.get_running_loop()
    due_s = loop.time()
    for chunk in cycle(packets):
        for packet in chunk:
            yield packet
        due_s += CHUNK_S
        await asyncio.sleep(due_s - loop.time())


@asynccontextmanager
async def bare_aiohttp(encoding: Encoding) -> AsyncIterator[int]:
    """The shortest possible sender with aiohttp."""
    packets = packets_of(encoding)

    async def stream(request: web.Request) -> web.WebSocketResponse:
        websocket = web.WebSocketResponse(compress=False)
        await websocket.prepare(request)
        await websocket.receive()
        try:
            async for packet in realtime(packets):
                await websocket.send_bytes(packet)
        except ConnectionError:
            pass  # the listener has disconnected
        return websocket

    app = web.Application()
    app.add_routes([web.get(STREAM_PATH, stream)])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, backlog=1024)
        await site.start()
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


@asynccontextmanager
async def raw(encoding: Encoding) -> AsyncIterator[int]:
    """The cost of asyncio itself: each frame was made beforehand and is written unchanged."""
    frames = [[frame(packet) for packet in chunk] for chunk in packets_of(encoding)]

    async def stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(upgraded(await reader.readuntil(b"\r\n\r\n")))
            await reader.read(1)
            async for data in realtime(frames):
                writer.write(data)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the listener has disconnected
        finally:
            writer.close()

    server = await asyncio.start_server(stream, "127.0.0.1", 0, backlog=1024)
    async with server:
        yield int(server.sockets[0].getsockname()[1])


def frame(payload: bytes) -> bytes:
    """A binary frame as a server sends it (RFC 6455, 5.2)."""
    size = len(payload)
    if size < 126:
        return bytes((0x82, size)) + payload
    assert size < 1 << 16, "80 ms of audio are shorter"
    return bytes((0x82, 126)) + size.to_bytes(2) + payload


def upgraded(request: bytes) -> bytes:
    """The response to the opening request of a WebSocket."""
    lines = (line.partition(b":") for line in request.split(b"\r\n"))
    key = next(value.strip() for name, _colon, value in lines if name.lower() == b"sec-websocket-key")
    accept = base64.b64encode(hashlib.sha1(key + WEBSOCKET_GUID).digest())
    return (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n"
    )


# -- Process -----------------------------------------------------------------------------------------------------------


async def sample_lag(lags_s: list[float], clock: Clock) -> None:
    """Records how late the event loop runs a timer, until cancelled."""
    while True:
        due_s = clock.now_s() + LAG_EVERY_S
        await asyncio.sleep(LAG_EVERY_S)
        lags_s.append(max(0.0, clock.now_s() - due_s))


def waited_s() -> float:
    schedstat = Path("/proc/self/schedstat")
    return int(schedstat.read_text().split()[1]) / 1e9 if schedstat.exists() else 0.0


def rss_bytes() -> int | None:
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if statm.exists() else None


async def serve(kind: str, encoding: Encoding) -> None:
    loop, clock = asyncio.get_running_loop(), MonotonicClock()
    lags_s: list[float] = []

    def answer() -> None:
        if not sys.stdin.readline():
            os._exit(0)  # closing thousands of connections is not measured
        usage = Usage(clock.now_s(), time.process_time(), waited_s(), rss_bytes(), tuple(lags_s))
        lags_s.clear()
        print(msgspec.json.encode(usage).decode(), flush=True)

    async with {"ours": ours, "aiohttp": bare_aiohttp, "raw": raw}[kind](encoding) as port:
        loop.add_reader(sys.stdin, answer)
        print(port, flush=True)
        await sample_lag(lags_s, clock)


def main() -> None:
    parser = make_parser("bench.server_overhead_servers", __doc__)
    parser.add_argument("--kind", choices=KINDS, required=True)
    parser.add_argument("--format", choices=("pcm", "opus"), default="pcm")
    parser.add_argument("--core", type=int, help="run on this core only  [default: any]")
    args = parser.parse_args()
    if args.core is not None:
        os.sched_setaffinity(0, {args.core})
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(serve(args.kind, Encoding(args.format)))


if __name__ == "__main__":
    main()
