"""The compared servers send the same audio, in frames that a WebSocket library accepts."""

from websockets.asyncio.client import connect

from bench.server_overhead_servers import CHUNKS, bare_aiohttp, chunks, frame, ours, packets_of, raw, upgraded
from realtime_tts.audio.format import Encoding
from realtime_tts.frontends.native.messages import STREAM_PATH

REQUEST = (
    '{"type":"session.config","response_format":"pcm","stream_audio":true}',
    '{"type":"input.text","text":"Hello world."}',
    '{"type":"input.done"}',
)


async def test_every_server_sends_the_same_packets() -> None:
    expected = [packet for chunk in packets_of(Encoding.PCM)[:4] for packet in chunk]
    for server in (ours, bare_aiohttp, raw):
        received: list[bytes] = []
        async with (
            server(Encoding.PCM) as port,
            connect(f"ws://127.0.0.1:{port}{STREAM_PATH}", close_timeout=0.1) as websocket,
        ):
            for message in REQUEST:
                await websocket.send(message)
            async for answer in websocket:
                if isinstance(answer, bytes):
                    received.append(answer)
                if len(received) == len(expected):
                    break
        assert received == expected, server.__name__


def test_a_chunk_of_opus_is_four_packets() -> None:
    assert [len(chunk) for chunk in packets_of(Encoding.OPUS)] == [4] * CHUNKS
    assert len({chunk.tobytes() for chunk in chunks()}) > CHUNKS // 2


def test_the_handshake_follows_the_standard() -> None:
    request = b"GET /chat HTTP/1.1\r\nHost: a\r\nsec-websocket-key:  dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    assert b"\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" in upgraded(request)


def test_a_frame_states_its_length() -> None:
    assert frame(b"abc") == b"\x82\x03abc"
    assert frame(bytes(3840))[:4] == b"\x82\x7e\x0f\x00"
    assert (frame(bytes(125))[1], frame(bytes(126))[:4]) == (125, b"\x82\x7e\x00\x7e")
