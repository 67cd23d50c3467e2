"""Floods over a WebSocket: control frames, fragments and configs must not delay other clients or fill the memory."""

import asyncio
import gc
import itertools
import json
from contextlib import suppress

import pytest

from realtime_tts.frontends.native.websocket import MAX_SMALL_FRAMES, READ_AHEAD_BYTES, SLICE_BYTES, WebSocket
from realtime_tts.server.app import ServerLimits
from realtime_tts.session.limits import SessionLimits
from tests.base_client import base_client, raw_socket
from tests.fakes import spoken_pcm, until
from tests.integration.test_websocket_conformance import CONT, PING, PONG, TEXT, close, exchange, frame
from tests.serving import tone_server

STREAM = {"response_format": "pcm", "stream_audio": True}
RECEIVE_BYTES = 256 * 1024
"""What uvloop receives at once."""
FLOODS: dict[str, tuple[bytes, bytes]] = {
    "pings": (b"", frame(PING)),
    "long pings": (b"", frame(PING, b"x" * 125)),
    "pongs": (b"", frame(PONG)),
    "empty fragments": (frame(TEXT, fin=False), frame(CONT, fin=False)),
    "fragments of one byte": (frame(TEXT, fin=False), frame(CONT, b" ", fin=False)),
}
"""The first frame, and the one that is repeated."""


def open_websockets() -> list[WebSocket]:
    """Those that can receive."""
    return [each for each in gc.get_objects() if type(each) is WebSocket and not each._ended]


def pause_reading(writer: asyncio.StreamWriter) -> None:
    assert isinstance(writer.transport, asyncio.Transport)
    writer.transport.pause_reading()


def resume_reading(writer: asyncio.StreamWriter) -> None:
    assert isinstance(writer.transport, asyncio.Transport)
    writer.transport.resume_reading()


async def test_a_flood_of_small_frames_ends_its_session_and_no_other() -> None:
    async with tone_server() as (url, server), base_client(url, **STREAM) as client:
        await client.next("session.updated")
        for name, (first, repeated) in FLOODS.items():
            received = await exchange(url, first + repeated * 100_000)
            assert (received.errors, received.close_code) == (["too_many_frames"], 1008), name
            assert len(received.pongs) <= MAX_SMALL_FRAMES, name
            await until(lambda: server.active_sessions == 1)
            assert (await client.speak("Still here.")).audio == [spoken_pcm("Still here.")], name


async def test_a_flood_is_parsed_in_small_parts_between_which_other_clients_are_served() -> None:
    async with tone_server() as (url, _server):
        _reader, writer = await raw_socket(url)
        (attacked,) = open_websockets()
        writer.write(frame(PING) * MAX_SMALL_FRAMES)
        parsed: list[int] = []
        async with asyncio.timeout(10):
            while attacked._small_frames < MAX_SMALL_FRAMES:
                parsed.append(attacked._small_frames)
                assert len(attacked._unread) <= READ_AHEAD_BYTES + RECEIVE_BYTES
                await asyncio.sleep(0)
        steps = [after - before for before, after in itertools.pairwise(parsed)]
        assert max(steps) <= SLICE_BYTES // len(frame(PING)) + 1, "one slice between two steps of this task"
        writer.transport.abort()


async def test_all_pings_of_an_honest_client_are_answered_while_it_speaks() -> None:
    async with tone_server() as (url, _server), base_client(url, **STREAM) as client:
        for _ in range(20):
            waiter = await client.socket.ping()
            assert (await client.speak("Hello.")).audio == [spoken_pcm("Hello.")]
            await asyncio.wait_for(waiter, 10)


async def test_pings_of_a_client_that_does_not_read_are_not_queued() -> None:
    async with tone_server() as (url, server):
        reader, writer = await raw_socket(url)
        (attacked,) = open_websockets()
        pause_reading(writer)
        attacked._connection.pause_writing()  # as the transport does when its buffer is full
        for number in range(MAX_SMALL_FRAMES // 2):
            writer.write(frame(PING, b"%d" % number))
        await until(lambda: attacked._small_frames == MAX_SMALL_FRAMES // 2)
        assert attacked._transport.get_write_buffer_size() == 0
        attacked._connection.resume_writing()
        resume_reading(writer)
        writer.write(close(1000))
        async with asyncio.timeout(10):
            assert await reader.read() == b"\x88\x02\x03\xe8"
        writer.close()
        await until(lambda: server.active_sessions == 0)


async def test_a_config_with_thousands_of_keys_is_refused_and_its_names_are_not_sent_back() -> None:
    async with tone_server() as (url, server), base_client(url, **STREAM) as client:
        await client.next("session.updated")
        config = json.dumps({"type": "session.config", **{f"key_{number}": 0 for number in range(10_000)}})
        for _ in range(10):
            await client.socket.send(config)
            error = await client.next("error")
            assert (error["code"], error["fatal"]) == ("invalid_message", False)
            assert len(json.dumps(error)) < 1000
        await client.socket.send(config)
        assert await client.close_code() == 1008
        await until(lambda: server.active_sessions == 0)


@pytest.mark.slow  # 2 s: the buffers of both sockets are filled first
async def test_a_client_that_reads_nothing_cannot_queue_large_answers() -> None:
    limits = SessionLimits(max_queued_bytes=1_000_000)
    config = {"type": "session.config", "pronunciations": {f"word{number}": "x" * 100 for number in range(1000)}}
    async with tone_server(limits=ServerLimits(session=limits)) as (url, server):
        _reader, writer = await raw_socket(url)
        pause_reading(writer)
        data = frame(TEXT, json.dumps(config).encode(), mask=b"\0\0\0\0")
        with suppress(ConnectionError):
            for _ in range(200):
                writer.write(data)
                await asyncio.wait_for(writer.drain(), 10)
        await until(lambda: server.active_sessions == 0)
        writer.close()
