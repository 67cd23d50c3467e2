"""The Python client: typed events, clean and unclean ends, refused connections, addresses."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import websockets.asyncio.server
from websockets.asyncio.server import ServerConnection

from realtime_tts.client import Audio, ClientEvent, ClientSession, ConnectionRefused, SessionEnded, connect, stream_url
from realtime_tts.engine.models import tone
from realtime_tts.frontends.native.messages import (
    PROTOCOL,
    AudioDone,
    AudioStart,
    InputCommitted,
    ServerError,
    ServerWarning,
    SessionCreated,
    SessionDone,
    SessionUpdated,
)
from realtime_tts.server.app import ServerLimits
from tests.fakes import spoken_pcm, until
from tests.serving import tone_server


@pytest.fixture
async def url() -> AsyncIterator[str]:
    async with tone_server() as (url, _server):
        yield url


Script = Callable[[ServerConnection], Awaitable[None]]


@asynccontextmanager
async def scripted(script: Script) -> AsyncIterator[str]:
    """A server with scripted behaviour, for cases that our server never produces."""
    server = await websockets.asyncio.server.serve(
        script, "127.0.0.1", 0, subprotocols=[websockets.Subprotocol(PROTOCOL)]
    )
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def speak(session: ClientSession, text: str) -> list[ClientEvent]:
    await session.send_text(text)
    await session.done()
    return [event async for event in session.utterance()]


def audio_of(events: list[ClientEvent]) -> bytes:
    return b"".join(event.data for event in events if isinstance(event, Audio))


async def test_events_are_typed_and_in_order(url: str) -> None:
    async with connect(url, voice="tone_high") as session:
        events = await speak(session, "Hello there. Goodbye.")
    kinds = [type(event) for event in events if not isinstance(event, Audio)]
    per_sentence = [AudioStart, AudioDone]
    assert kinds == [SessionCreated, SessionUpdated, *per_sentence, *per_sentence, SessionDone]
    assert audio_of(events) == b"".join(spoken_pcm(t, voice="tone_high") for t in ("Hello there.", "Goodbye."))


async def test_audio_refers_to_the_start_of_its_sentence(url: str) -> None:
    async with connect(url) as session:
        events = await speak(session, "Hello there. Goodbye.")
    for text in ("Hello there.", "Goodbye."):
        data = b"".join(e.data for e in events if isinstance(e, Audio) and e.start.sentence_text == text)
        assert data == spoken_pcm(text)


async def test_one_connection_can_have_several_utterances_and_configs(url: str) -> None:
    async with connect(url) as session:
        for voice in ("tone_low", "tone_high"):
            await session.configure(voice=voice)
            await session.keepalive()
            assert audio_of(await speak(session, "Hello.")) == spoken_pcm("Hello.", voice=voice)


async def test_errors_are_events_and_the_session_continues(url: str) -> None:
    async with connect(url) as session:
        await session.configure(voice="unknown")
        events = await speak(session, "Hello.")
    assert [event.code for event in events if isinstance(event, ServerError)] == ["unknown_voice"]
    assert audio_of(events) == spoken_pcm("Hello.")


async def test_a_commit_is_acknowledged(url: str) -> None:
    async with connect(url, streaming_mode="sentence_commit") as session:
        for number, text in enumerate(("Hello there. And", " more.")):
            await session.send_text(text)
            await session.commit(f"part {number}")
        await session.done()
        events = [event async for event in session.utterance()]
    commits = [event for event in events if isinstance(event, InputCommitted)]
    assert [(event.commit_id, event.sentence_index) for event in commits] == [("part 0", 0), ("part 1", 1)]
    assert audio_of(events) == spoken_pcm("Hello there. And") + spoken_pcm("more.")


async def test_finish_ends_the_events_after_everything_was_received(url: str) -> None:
    async with connect(url) as session:
        await session.send_text("Hello.")
        await session.finish()
        events = [event async for event in session]
    assert isinstance(events[-1], SessionDone)
    assert audio_of(events) == spoken_pcm("Hello.")


async def test_a_server_that_stops_during_an_utterance_raises_session_ended() -> None:
    stack = AsyncExitStack()
    model = tone.build(costs=tone.ToneCosts(a0_s=0.01))
    url, _server = await stack.enter_async_context(tone_server(model))
    seen: list[ClientEvent] = []
    stopping: list[asyncio.Task[None]] = []

    async def receive(session: ClientSession) -> None:
        async for event in session.utterance():
            seen.append(event)
            if not stopping:
                stopping.append(asyncio.create_task(stack.aclose()))

    async with connect(url) as session:
        await session.send_text("This sentence is not spoken completely, and this one is not spoken.")
        await session.done()
        with pytest.raises(SessionEnded, match="1012: server_stopping") as ended:
            await receive(session)
        assert ended.value.received_close_code == 1012
        assert isinstance(seen[-1], ServerError)
        assert seen[-1].code == "server_stopping"
        await stopping[0]
        with pytest.raises(SessionEnded):
            await session.send_text("Too late.")


async def test_a_clean_close_before_session_done_raises_session_ended() -> None:
    async def close_early(socket: ServerConnection) -> None:
        await socket.recv()
        await socket.close(1000, "bye")

    async with scripted(close_early) as url, connect(url) as session:
        with pytest.raises(SessionEnded, match="1000: bye"):
            await speak(session, "Hello.")


async def test_a_lost_connection_raises_session_ended_with_1006() -> None:
    async def drop_connection(socket: ServerConnection) -> None:
        await socket.recv()
        socket.transport.abort()

    async with scripted(drop_connection) as url, connect(url) as session:
        with pytest.raises(SessionEnded, match="1006"):
            async for _event in session:
                pass


async def test_closing_during_an_utterance_does_not_wait_for_its_audio() -> None:
    model = tone.build()
    async with tone_server(model) as (url, server):
        async with asyncio.timeout(8):  # unread audio would delay the close by 10 s
            async with connect(url) as session:
                await session.send_text("This is one of many sentences. " * 500)
                async for event in session:
                    if isinstance(event, Audio):
                        break
                await asyncio.sleep(0.1)  # until the client's queue is full
        await until(lambda: server.active_sessions == 0)


async def test_unknown_messages_and_fields_are_skipped() -> None:
    async def send_unknown(socket: ServerConnection) -> None:
        await socket.recv()
        await socket.send(json.dumps({"type": "audio.smell", "sentence_index": 0}))
        await socket.send(json.dumps({"type": "warning", "code": "c", "message": "m", "from_the_future": [1]}))
        await socket.close()

    async with scripted(send_unknown) as url, connect(url) as session:
        events = [event async for event in session]
    assert events == [ServerWarning(code="c", message="m")]


async def test_a_full_server_is_reported_with_its_status_and_reason() -> None:
    async with tone_server(limits=ServerLimits(max_sessions=1)) as (url, _server), connect(url):
        with pytest.raises(ConnectionRefused, match="all 1 sessions are in use") as refused:
            async with connect(url):
                pass
    assert (refused.value.status, refused.value.retry_after_s) == (503, 5)


async def test_a_path_without_websocket_raises_connection_refused(url: str) -> None:
    for path, status in {"/unknown": 404, "/healthz": 200}.items():
        with pytest.raises(ConnectionRefused) as refused:
            async with connect(url + path):
                pass
        assert refused.value.status == status, path


async def test_an_address_without_a_server_raises_connection_refused() -> None:
    async with tone_server() as (url, _server):
        pass
    for address in (url, "nonsense://host", "http://"):
        with pytest.raises(ConnectionRefused, match="there is no realtime voice server"):
            async with connect(address):
                pass


def test_the_stream_url_is_derived_from_any_usual_address() -> None:
    cases = {
        "http://127.0.0.1:8000": "ws://127.0.0.1:8000/v1/audio/speech/stream",
        "http://127.0.0.1:8000/": "ws://127.0.0.1:8000/v1/audio/speech/stream",
        "https://voice.example": "wss://voice.example/v1/audio/speech/stream",
        "ws://host:1/v1/audio/speech/stream": "ws://host:1/v1/audio/speech/stream",
        "wss://host/behind/a/proxy?token=x": "wss://host/behind/a/proxy?token=x",
        "host:8000": "ws://host:8000/v1/audio/speech/stream",
        "localhost": "ws://localhost/v1/audio/speech/stream",
        "http://[::1]:8000": "ws://[::1]:8000/v1/audio/speech/stream",
    }
    for address, expected in cases.items():
        assert stream_url(address) == expected, address
