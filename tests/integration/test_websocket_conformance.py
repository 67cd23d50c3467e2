"""Conformance with RFC 6455, over a raw socket: handshakes, frames, fragments, control frames, closes."""

import asyncio
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from realtime_tts.frontends.native.messages import PROTOCOL
from realtime_tts.server.app import ServerLimits
from realtime_tts.session.limits import SessionLimits
from tests.base_client import PATH, raw_socket
from tests.fakes import until
from tests.serving import status_of, tone_server

MAX_MESSAGE_BYTES = 1000
LIMITS = ServerLimits(session=SessionLimits(max_message_bytes=MAX_MESSAGE_BYTES, max_invalid_messages=1000))
CONT, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
MASK = b"\x37\xfa\x21\x3d"
KEY = "dGhlIHNhbXBsZSBub25jZQ=="
"""Of the example in RFC 6455, 1.3."""
ACCEPT = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


def frame(
    opcode: int,
    payload: bytes = b"",
    *,
    fin: bool = True,
    rsv: int = 0,
    mask: bytes | None = MASK,
    length: int | None = None,
    length_bytes: int | None = None,
) -> bytes:
    """A frame of a client; `length` is announced instead of the real one, in 2 or 8 `length_bytes` if given."""
    size = len(payload) if length is None else length
    masked = 0x80 if mask is not None else 0
    if length_bytes == 8 or size > 0xFFFF:
        announced = bytes([masked | 127]) + struct.pack("!Q", size)
    elif length_bytes == 2 or size > 125:
        announced = bytes([masked | 126]) + struct.pack("!H", size)
    else:
        announced = bytes([masked | size])
    head = bytes([(0x80 if fin else 0) | rsv << 4 | opcode]) + announced
    if mask is None:
        return head + payload
    return head + mask + bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))


def message(text: str) -> bytes:
    return json.dumps({"type": "input.text", "text": text}, ensure_ascii=False).encode()


def close(code: int | None, reason: bytes = b"") -> bytes:
    return frame(CLOSE, b"" if code is None else struct.pack("!H", code) + reason)


@dataclass
class Received:
    """What the server has sent up to the end of the connection."""

    pongs: list[bytes] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    closes: list[bytes] = field(default_factory=list)

    @property
    def close_code(self) -> int | None:
        assert len(self.closes) == 1, f"{len(self.closes)} close frames"
        return struct.unpack("!H", self.closes[0][:2])[0] if self.closes[0] else None


async def exchange(url: str, *pieces: bytes) -> Received:
    """Sends each piece in a segment of its own, and reads up to the end of the connection.

    The end is the server's: it disconnects after both close frames.  For unreadable frames, which the server cannot
    read on after, this client disconnects after the close.
    """
    reader, writer = await raw_socket(url)
    received = Received()
    try:
        async with asyncio.timeout(10):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                if len(pieces) > 1:
                    await asyncio.sleep(0.002)
            while True:
                first, second = await reader.readexactly(2)
                assert first & 0x80, "the server sends no fragments"
                assert not first & 0x70, "no extension was negotiated"
                assert not second & 0x80, "a server does not mask"
                size = second
                if second >= 126:
                    extra = await reader.readexactly(2 if second == 126 else 8)
                    size = int.from_bytes(extra)
                payload = await reader.readexactly(size)
                match first & 15:
                    case 1:
                        content = json.loads(payload)
                        received.types.append(content["type"])
                        if content["type"] == "error":
                            received.errors.append(content["code"])
                    case 8:
                        received.closes.append(payload)
                        if received.errors or "session.done" in received.types:
                            writer.write_eof()
                    case 10:
                        received.pongs.append(payload)
    except (asyncio.IncompleteReadError, ConnectionResetError):
        return received
    finally:
        writer.close()


# -- Handshakes -------------------------------------------------------------------------------------------------------

HANDSHAKE = {
    "Host": "localhost",
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": KEY,
}

HANDSHAKES: tuple[tuple[str, str, Mapping[str, str | None], int], ...] = (
    ("as in the RFC", "GET / HTTP/1.1", {}, 101),
    ("upper case", "GET / HTTP/1.1", {"Upgrade": "WebSocket", "Connection": "upgrade"}, 101),
    ("several connection options", "GET / HTTP/1.1", {"Connection": "keep-alive, Upgrade"}, 101),
    ("compression is declined", "GET / HTTP/1.1", {"Sec-WebSocket-Extensions": "permessage-deflate"}, 101),
    (
        "two offers of compression",
        "GET / HTTP/1.1",
        {"Sec-WebSocket-Extensions": "permessage-deflate; client_max_window_bits, x-webkit-deflate-frame"},
        101,
    ),
    ("an unknown extension", "GET / HTTP/1.1", {"Sec-WebSocket-Extensions": "x-unknown; a=1"}, 101),
    ("an unknown subprotocol", "GET / HTTP/1.1", {"Sec-WebSocket-Protocol": "chat, superchat"}, 101),
    ("our subprotocol", "GET / HTTP/1.1", {"Sec-WebSocket-Protocol": f"chat, {PROTOCOL}"}, 101),
    ("HTTP/1.0", "GET / HTTP/1.0", {}, 400),
    ("version 7", "GET / HTTP/1.1", {"Sec-WebSocket-Version": "7"}, 426),
    ("version 8", "GET / HTTP/1.1", {"Sec-WebSocket-Version": "8"}, 426),
    ("version 99", "GET / HTTP/1.1", {"Sec-WebSocket-Version": "99"}, 426),
    ("version 013", "GET / HTTP/1.1", {"Sec-WebSocket-Version": "013"}, 426),
    ("no version", "GET / HTTP/1.1", {"Sec-WebSocket-Version": None}, 426),
    ("no key", "GET / HTTP/1.1", {"Sec-WebSocket-Key": None}, 400),
    ("a short key", "GET / HTTP/1.1", {"Sec-WebSocket-Key": "AAAA"}, 400),
    ("a key that is not base64", "GET / HTTP/1.1", {"Sec-WebSocket-Key": "!" * 24}, 400),
    ("a long key", "GET / HTTP/1.1", {"Sec-WebSocket-Key": "A" * 400}, 400),
    ("no Upgrade", "GET / HTTP/1.1", {"Upgrade": None}, 400),
    ("another Upgrade", "GET / HTTP/1.1", {"Upgrade": "h2c"}, 400),
    ("no Connection", "GET / HTTP/1.1", {"Connection": None}, 400),
    ("another Connection", "GET / HTTP/1.1", {"Connection": "keep-alive"}, 400),
    ("POST", "POST / HTTP/1.1", {"Content-Length": "0"}, 405),
    ("HEAD", "HEAD / HTTP/1.1", {}, 405),
    ("no Host", "GET / HTTP/1.1", {"Host": None}, 400),
)


async def handshake(url: str, line: str, changes: Mapping[str, str | None]) -> tuple[int, dict[str, str]]:
    headers = {name: value for name, value in {**HANDSHAKE, **changes}.items() if value is not None}
    lines = [line.replace(" / ", f" {PATH} "), *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    reader, writer = await asyncio.open_connection(urlsplit(url).hostname, urlsplit(url).port)
    try:
        async with asyncio.timeout(10):
            writer.write("\r\n".join(lines).encode())
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            answer = dict(each.split(": ", 1) for each in head.split("\r\n")[1:] if each)
            return status_of(head.encode()), {name.lower(): value for name, value in answer.items()}
    finally:
        writer.close()


async def test_handshakes() -> None:
    async with tone_server(limits=LIMITS) as (url, server):
        for name, line, changes, status in HANDSHAKES:
            answered, headers = await handshake(url, line, changes)
            assert answered == status, name
            assert "sec-websocket-extensions" not in headers, name
            if status == 101:
                assert headers["sec-websocket-accept"] == ACCEPT, name
                assert (headers["upgrade"], headers["connection"]) == ("websocket", "Upgrade"), name
                chosen = PROTOCOL if PROTOCOL in (changes.get("Sec-WebSocket-Protocol") or "") else None
                assert headers.get("sec-websocket-protocol") == chosen, name
                assert not {"content-length", "transfer-encoding", "content-type"} & headers.keys(), name
            if status == 426:
                assert (headers["sec-websocket-version"], headers["upgrade"]) == ("13", "websocket"), name
        await until(lambda: server.active_sessions == 0)


async def test_a_repeated_key_is_refused_and_frames_sent_with_the_handshake_are_read() -> None:
    async with tone_server(limits=LIMITS) as (url, server):
        status, _headers = await handshake(url, "GET / HTTP/1.1", {"X: y\r\nSec-WebSocket-Key": KEY})
        assert status == 400
        reader, writer = await asyncio.open_connection(urlsplit(url).hostname, urlsplit(url).port)
        head = "\r\n".join([f"GET {PATH} HTTP/1.1", *(f"{name}: {value}" for name, value in HANDSHAKE.items()), "", ""])
        writer.write(head.encode() + frame(PING, b"early") + close(1000))
        async with asyncio.timeout(10):
            answer = await reader.read()
        assert answer.endswith(b"\x8a\x05early" + b"\x88\x02\x03\xe8")
        writer.close()
        await until(lambda: server.active_sessions == 0)


# -- Frames that are allowed ------------------------------------------------------------------------------------------

HELLO = message("Hällo 中文 😀.")
BYE = close(1000)
CONFIG = b'{"type": "session.config", "response_format": "pcm", "stream_audio": true}'


def one_by_one(data: bytes) -> tuple[bytes, ...]:
    return tuple(data[at : at + 1] for at in range(len(data)))


def in_fragments(payload: bytes, size: int, between: bytes = b"") -> bytes:
    cut = [payload[at : at + size] for at in range(0, len(payload), size)]
    frames = [
        frame(TEXT if number == 0 else CONT, piece, fin=number == len(cut) - 1) for number, piece in enumerate(cut)
    ]
    return between.join(frames)


@dataclass(frozen=True)
class Allowed:
    """Frames that keep the connection open; a close 1000 follows them."""

    name: str
    pieces: tuple[bytes, ...]
    pongs: tuple[bytes, ...] = ()
    errors: tuple[str, ...] = ()


ALLOWED = (
    Allowed("nothing", ()),
    Allowed("a text message", (frame(TEXT, HELLO),)),
    Allowed("a mask of zeros", (frame(TEXT, HELLO, mask=b"\0\0\0\0"),)),
    Allowed("byte by byte", one_by_one(frame(TEXT, HELLO))),
    Allowed("two messages in a segment", (frame(TEXT, CONFIG) + frame(TEXT, HELLO),)),
    Allowed("a length of 126", (frame(TEXT, CONFIG + b" " * (126 - len(CONFIG))),)),
    Allowed("a length of 125", (frame(TEXT, CONFIG + b" " * (125 - len(CONFIG))),)),
    Allowed("a message of the largest size", (frame(TEXT, CONFIG + b" " * (MAX_MESSAGE_BYTES - len(CONFIG))),)),
    Allowed("a length in 8 bytes", (frame(TEXT, HELLO, length_bytes=8),)),
    Allowed("a length in 2 bytes", (frame(TEXT, HELLO, length_bytes=2),)),
    Allowed("two fragments", (in_fragments(HELLO, 20),)),
    Allowed("fragments inside UTF-8 characters", (in_fragments(HELLO, 1),)),
    Allowed("fragments in segments", tuple(in_fragments(HELLO, 1)[at : at + 50] for at in range(0, 800, 50))),
    Allowed("an empty first fragment", (frame(TEXT, fin=False) + frame(CONT, HELLO),)),
    Allowed("an empty last fragment", (frame(TEXT, HELLO, fin=False) + frame(CONT),)),
    Allowed("empty fragments between", (frame(TEXT, HELLO, fin=False) + frame(CONT, fin=False) * 20 + frame(CONT),)),
    Allowed("pings between fragments", (in_fragments(HELLO, 20, frame(PING, b"p")),), pongs=(b"p",) * 2),
    Allowed("an empty ping", (frame(PING),), pongs=(b"",)),
    Allowed("a ping of 125 bytes", (frame(PING, b"x" * 125),), pongs=(b"x" * 125,)),
    Allowed("a ping of bytes that are not UTF-8", (frame(PING, b"\xff\xfe\x00"),), pongs=(b"\xff\xfe\x00",)),
    Allowed("a ping byte by byte", one_by_one(frame(PING, b"slow")), pongs=(b"slow",)),
    Allowed(
        "pings in order", (b"".join(frame(PING, b"%d" % n) for n in range(10)),), tuple(b"%d" % n for n in range(10))
    ),
    Allowed("an unsolicited pong", (frame(PONG, b"unasked"),)),
    Allowed("an empty pong", (frame(PONG),)),
    Allowed("a binary message", (frame(TEXT, CONFIG) + frame(BINARY, b"\0\1"),), errors=("unexpected_message",)),
    Allowed(
        "a binary message in fragments",
        (frame(TEXT, CONFIG) + frame(BINARY, b"\0", fin=False) + frame(CONT, b"\1"),),
        errors=("unexpected_message",),
    ),
)


async def test_allowed_frames_are_read() -> None:
    async with tone_server(limits=LIMITS) as (url, server):
        for case in ALLOWED:
            received = await exchange(url, *case.pieces, BYE)
            assert received.pongs == list(case.pongs), case.name
            assert received.errors == list(case.errors), case.name
            assert received.close_code == 1000, case.name
        await until(lambda: server.active_sessions == 0)


async def test_fragments_are_one_message() -> None:
    async with tone_server(limits=LIMITS) as (url, _server):
        for size in (1, 2, 3, 7, 30):
            done = b'{"type": "session.close"}'
            received = await exchange(url, frame(TEXT, CONFIG), in_fragments(HELLO, size), frame(TEXT, done))
            assert received.errors == [], size
            assert "session.done" in received.types, size
            assert received.closes == [struct.pack("!H", 1000) + b"done"], size


async def test_hundreds_of_pings_in_one_segment_are_answered() -> None:
    async with tone_server(limits=LIMITS) as (url, _server):
        received = await exchange(url, frame(PING, b"ping") * 900, BYE)
        assert received.pongs == [b"ping"] * 900


# -- Frames that are not allowed --------------------------------------------------------------------------------------

PROTOCOL_ERRORS: dict[str, bytes] = {
    "an unmasked text": frame(TEXT, HELLO, mask=None),
    "an unmasked ping": frame(PING, b"x", mask=None),
    "an unmasked close": frame(CLOSE, b"\x03\xe8", mask=None),
    "an unmasked frame after a masked one": frame(TEXT, CONFIG) + frame(TEXT, HELLO, mask=None),
    "RSV1": frame(TEXT, HELLO, rsv=4),
    "RSV2": frame(TEXT, HELLO, rsv=2),
    "RSV3": frame(TEXT, HELLO, rsv=1),
    "all reserved bits": frame(BINARY, b"x", rsv=7),
    "RSV1 of a ping": frame(PING, b"x", rsv=4),
    "RSV1 of a close": frame(CLOSE, b"\x03\xe8", rsv=4),
    "RSV1 of a continuation": frame(TEXT, b"{", fin=False) + frame(CONT, b"}", rsv=4),
    **{f"opcode {opcode}": frame(opcode, b"x") for opcode in (3, 4, 5, 6, 7, 11, 12, 13, 14, 15)},
    "a continuation of nothing": frame(CONT, b"x"),
    "an unfinished continuation of nothing": frame(CONT, b"x", fin=False),
    "a continuation after the end": in_fragments(HELLO, 20) + frame(CONT, b"x"),
    "a text inside a text": frame(TEXT, b"{", fin=False) + frame(TEXT, b"}"),
    "a binary inside a text": frame(TEXT, b"{", fin=False) + frame(BINARY, b"}"),
    "a fragmented ping": frame(PING, b"x", fin=False),
    "a fragmented close": frame(CLOSE, b"\x03\xe8", fin=False),
    "a ping of 126 bytes": frame(PING, b"x" * 126),
    "a pong of 126 bytes": frame(PONG, b"x" * 126),
    "a close of 126 bytes": close(1000, b"x" * 124),
    "a close of 1 byte": frame(CLOSE, b"\x03"),
    **{
        f"close code {code}": close(code)
        for code in (0, 1, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535)
    },
    "no frames at all": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


async def test_a_protocol_error_is_explained_and_closed_once_with_1002() -> None:
    async with tone_server(limits=LIMITS) as (url, server):
        for name, data in PROTOCOL_ERRORS.items():
            received = await exchange(url, data)
            assert received.close_code == 1002, name
            assert received.errors == ["invalid_message"], name
        await until(lambda: server.active_sessions == 0)


INVALID_TEXTS: dict[str, bytes] = {
    "a byte that is never used": frame(TEXT, b"\xff"),
    "an incomplete character": frame(TEXT, message("x")[:-2] + b'\xe4\xb8"}'),
    "a surrogate": frame(TEXT, b'{"type": "input.text", "text": "\xed\xa0\x80"}'),
    "an overlong slash": frame(TEXT, b'{"type": "input.text", "text": "\xc0\xaf"}'),
    "beyond U+10FFFF": frame(TEXT, b'{"type": "input.text", "text": "\xf4\x90\x80\x80"}'),
    "in a key that is not a field": frame(TEXT, b'{"type": "input.text", "text": "x", "\xff": 1}'),
    "in fragments": in_fragments(b'{"type": "input.text", "text": "\xce\xba\xed\xa0\x80"}', 3),
    "in the reason of a close": close(1000, b"\xff\xfe"),
}


async def test_text_that_is_not_utf8_is_closed_with_1007() -> None:
    async with tone_server(limits=LIMITS) as (url, server):
        for name, data in INVALID_TEXTS.items():
            received = await exchange(url, data)
            assert (received.close_code, received.errors) == (1007, ["invalid_message"]), name
        await until(lambda: server.active_sessions == 0)


TOO_BIG: dict[str, bytes] = {
    "above the session's limit": frame(TEXT, b" " * (MAX_MESSAGE_BYTES + 1)),
    "far above": frame(TEXT, b"", length=8 * MAX_MESSAGE_BYTES + 1),
    "2^31": frame(TEXT, b"", length=1 << 31),
    "2^62": frame(BINARY, b"", length=1 << 62),
    "2^63, which is not allowed": frame(TEXT, b"", length=1 << 63),
    "in fragments": frame(TEXT, b"x" * 5000, fin=False) + frame(CONT, b"x" * 5000),
}


async def test_a_message_too_big_is_closed_with_1009_before_it_is_received() -> None:
    async with tone_server(limits=LIMITS) as (url, server):
        for name, data in TOO_BIG.items():
            received = await exchange(url, data)
            assert (received.close_code, received.errors) == (1009, ["message_too_big"]), name
        await until(lambda: server.active_sessions == 0)


# -- Closes -----------------------------------------------------------------------------------------------------------


async def test_a_close_is_answered_once_with_its_own_code_and_reason() -> None:
    async with tone_server(limits=LIMITS) as (url, server):
        for code in (1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 3999, 4000, 4999):
            assert (await exchange(url, close(code))).close_code == code
        for name, data, answer in (
            ("no code", close(None), b""),
            ("a reason", close(1000, "Tschüß".encode()), b"\x03\xe8" + "Tschüß".encode()),
            ("the longest reason", close(1000, b"x" * 123), b"\x03\xe8" + b"x" * 123),
            ("byte by byte", close(1001), b"\x03\xe9"),
            ("inside a fragmented message", frame(TEXT, b"{", fin=False) + close(1001), b"\x03\xe9"),
            ("two closes", close(1000) + close(1001), b"\x03\xe8"),
            ("a message after the close", close(1000) + frame(TEXT, HELLO), b"\x03\xe8"),
            ("a ping after the close", close(1000) + frame(PING, b"x"), b"\x03\xe8"),
            ("an invalid frame after the close", close(1000) + b"\xff" * 20, b"\x03\xe8"),
        ):
            received = await exchange(url, *(one_by_one(data) if name == "byte by byte" else (data,)))
            assert (received.closes, received.errors, received.pongs) == ([answer], [], []), name
        await until(lambda: server.active_sessions == 0)


async def test_a_close_of_the_server_waits_for_that_of_the_client() -> None:
    async with tone_server(limits=LIMITS) as (url, server):
        reader, writer = await raw_socket(url)
        writer.write(frame(TEXT, b'{"type": "session.close"}'))
        async with asyncio.timeout(10):
            assert (await reader.readexactly(8)) == b"\x88\x06\x03\xe8done"
            writer.write(frame(PING, b"x") + frame(TEXT, HELLO))
            await asyncio.sleep(0.05)
            assert server.active_sessions == 1
            writer.write(close(1000))
            assert await reader.read() == b"", "nothing follows a close"
        writer.close()
        await until(lambda: server.active_sessions == 0)


async def test_half_a_frame_and_a_disconnect_leave_no_session() -> None:
    async with tone_server(limits=LIMITS) as (url, server):
        whole = frame(TEXT, HELLO, length_bytes=8)
        for size in (1, 2, 5, 9, 11, 13, 20):
            for ends in ("abort", "eof"):
                reader, writer = await raw_socket(url)
                writer.write(whole[:size])
                await writer.drain()
                if ends == "abort":
                    writer.transport.abort()
                else:
                    writer.write_eof()
                    async with asyncio.timeout(10):
                        assert await reader.read() == b"", size
                    writer.close()
        await until(lambda: server.active_sessions == 0)
