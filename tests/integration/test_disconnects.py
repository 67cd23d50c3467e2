"""Clients that disconnect at any moment leave nothing behind, and other clients are not affected."""

import asyncio
import gc
import random
import threading
from dataclasses import replace
from urllib.parse import urlsplit

import aiohttp
import pytest

from realtime_tts.engine.executors.engine_thread import EngineThread
from realtime_tts.engine.models import tone
from realtime_tts.engine.state import RequestState, Stream
from realtime_tts.frontends.native.websocket import NativeFrontEnd
from realtime_tts.server.app import ServerLimits
from realtime_tts.session.context import Context
from realtime_tts.session.limits import SessionLimits
from realtime_tts.session.playback_queue import PlaybackQueue
from realtime_tts.session.runner import SessionRunner
from realtime_tts.session.sentence import SentenceState
from realtime_tts.session.session import Session
from realtime_tts.session.utterance import Utterance
from tests.base_client import PATH, base_client, character_by_character, raw_socket, word_by_word
from tests.fakes import slots, spoken_pcm, until
from tests.neighbour import STREAM, shared_server
from tests.serving import tone_server


async def test_a_client_that_never_reads_is_disconnected_and_its_requests_are_cancelled() -> None:
    slow = {**STREAM, "sample_rate": 48_000, "speed": 0.25}
    async with shared_server(replace(SessionLimits(), write_timeout_s=0.3)) as url, base_client(url, **slow) as client:
        client.socket.transport.pause_reading()
        await client.send_utterance("It goes on and on, and nobody reads it. " * 200)
        await alone_again(url)
        client.socket.transport.abort()


async def alone_again(url: str) -> None:
    """Waits until only the other client of `shared_server` is left."""
    async with aiohttp.ClientSession() as session, asyncio.timeout(20):
        while True:
            async with session.get(f"{url}/readyz") as response:
                if (await response.json())["active_sessions"] == 1:
                    return
            await asyncio.sleep(0.02)


async def disconnect_before_the_handshake(url: str) -> None:
    _reader, writer = await asyncio.open_connection(urlsplit(url).hostname, urlsplit(url).port)
    writer.write(f"GET {PATH} HTTP/1.1\r\nHost:".encode())
    writer.transport.abort()


async def disconnect_after_the_handshake(url: str) -> None:
    _reader, writer = await raw_socket(url)
    writer.transport.abort()


async def disconnect_inside_a_frame(url: str) -> None:
    _reader, writer = await raw_socket(url)
    writer.write(bytes.fromhex("81fe0100 00000000") + b"{" * 20)
    await writer.drain()
    writer.transport.abort()


async def disconnect_during_speech(url: str) -> None:
    async with base_client(url, **STREAM) as client:
        await client.send_utterance("Hello there, this is long enough. " * 50)
        await client.next("audio.start")
        client.socket.transport.abort()


async def half_close_during_speech(url: str) -> None:
    async with base_client(url, **STREAM) as client:
        await client.send_utterance("Hello there, this is long enough. " * 50)
        await client.next("audio.start")
        client.socket.transport.write_eof()
        await client.close_code()


async def test_a_disconnect_leaves_nothing_behind() -> None:
    async with shared_server(model=tone.build(costs=tone.ToneCosts(a0_s=0.0005))) as url:
        for disconnect in (
            disconnect_before_the_handshake,
            disconnect_after_the_handshake,
            disconnect_inside_a_frame,
            disconnect_during_speech,
            half_close_during_speech,
        ):
            for _ in range(3):
                await disconnect(url)
            await alone_again(url)


@pytest.mark.parametrize("visits", [4, pytest.param(40, marks=pytest.mark.slow)])
async def test_disconnects_at_random_moments_leave_nothing_behind(visits: int) -> None:
    rng = random.Random(3)
    model = tone.build(costs=tone.ToneCosts(a0_s=0.0005, b0_s=0.00002, a1_s=0.0005))
    kinds = (
        *(Session, SessionRunner, NativeFrontEnd, Context, PlaybackQueue, Utterance, SentenceState),
        *(RequestState, Stream),
    )

    def ours() -> list[object]:
        gc.collect()
        return [each for each in gc.get_objects() if issubclass(type(each), kinds)]  # isinstance may warn

    earlier = ours()  # kept alive, so that their ids stay theirs
    others = {id(each) for each in earlier}
    async with tone_server(model, ServerLimits(max_sessions=1000)) as (url, server):
        worker = server.engines.default
        assert isinstance(worker, EngineThread)

        async def visit_often(count: int) -> None:
            for _ in range(count):
                await visit(url, rng)

        async def nothing_is_left() -> int:
            await until(lambda: server.active_sessions == 0)
            await until(lambda: worker.status().active_requests == 0)
            await until(lambda: not worker._sinks)
            await until(lambda: slots(model) == 0)
            await until(lambda: asyncio.all_tasks() == tasks)
            assert set(threading.enumerate()) == threads
            assert [each for each in ours() if id(each) not in others] == []
            return len(gc.get_objects())

        await visit(url, rng)
        await until(lambda: server.active_sessions == 0)
        await asyncio.sleep(0.05)
        tasks, threads = asyncio.all_tasks(), set(threading.enumerate())
        await asyncio.gather(*(visit_often(max(visits // 4, 3)) for _ in range(20)))
        objects_before = await nothing_is_left()
        await asyncio.gather(*(visit_often(visits) for _ in range(20)))
        objects_after = await nothing_is_left()
        assert objects_after - objects_before < max(10 * visits, 200), "less than one object for two visits"
        async with base_client(url, **STREAM) as client:
            assert (await client.speak("Still here.")).audio == [spoken_pcm("Still here.")]


async def visit(url: str, rng: random.Random) -> None:
    """Sends text, receives some speech, and leaves: with a close, abruptly, or in the middle of a word."""
    text = "Hello there. " * rng.randint(0, 6) + "And more"
    async with base_client(url, **STREAM) as client:
        if rng.random() < 0.9:
            await client.send_utterance(text, rng.choice([word_by_word, character_by_character]))
            if rng.random() < 0.3:
                await client.next("audio.start")
        await asyncio.sleep(rng.random() * 0.03)
        if rng.random() < 0.2:
            await client.send({"type": "session.close"})
        if rng.random() < 0.6:
            client.socket.transport.abort()
