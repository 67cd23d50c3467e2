"""Listeners for `bench.server_overhead`: as many as there should be, on one thread that does as little as it can.

Their figures are by the one definition of underrun in realtime_tts/audio/playout.py, counted in a window in which all
are speaking.  A listener holds nothing in reserve: the sender keeps the pace of speech, so each delay is a wait.
"""

import math
import os
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import msgspec

from bench.server_overhead_servers import CHUNK_S, Mark
from bench.summary import percentile
from realtime_tts.audio.playout import PlayoutLedger
from realtime_tts.frontends.native.messages import STREAM_PATH

THRESHOLD_S = 0.1
"""Of an underrun that a listener notices."""
OK_SHARE = 0.99
START_S, STARTS_PER_S = 1.0, 100.0
"""The listeners ask for their sound one after the other: so long, where they are many."""
SETTLE_S = 0.5
TIMEOUT_S = 20.0
RECEIVE_BYTES = 1 << 16

TEXT, BINARY, CLOSE = 1, 2, 8


@dataclass(frozen=True, slots=True)
class Trial:
    """So many listeners at once on one server, and how they fared."""

    kind: str
    streams: int
    failed: int
    """Who got an error, a close, or less than two packets.  They count as listeners who ran dry."""
    ok_share: float
    underrun_p95_s: float
    messages_per_s: float
    """Binary ones that were received."""
    server_cpu: float
    """Share of one core, as are the next two."""
    server_waited: float
    """In which it could have run, and others had its core."""
    client_cpu: float
    lag_p50_s: float
    lag_p99_s: float
    rss_per_stream_bytes: float | None

    @property
    def carried(self) -> bool:
        return self.underrun_p95_s <= THRESHOLD_S and self.ok_share >= OK_SHARE

    @property
    def cpu_us_per_message(self) -> float:
        """The server's processor time; infinite where nothing came."""
        return self.server_cpu / self.messages_per_s * 1e6 if self.messages_per_s else float("inf")


@dataclass(slots=True, eq=False)
class Listener:
    """One socket's frames, as far as they have come."""

    socket: socket.socket
    arrivals_s: list[float] = field(default_factory=list)
    """Of binary messages."""
    failed: bool = False
    _rest: bytes = b""
    _skip: int = 0
    """Of a sound's payload, what is still to come."""

    def feed(self, data: bytes, now_s: float) -> None:
        """What was received; sounds are counted and not kept."""
        if self._rest:
            data, self._rest = self._rest + data, b""
        at, size = 0, len(data)
        while True:
            if self._skip:
                taken = min(self._skip, size - at)
                at += taken
                self._skip -= taken
                if self._skip:
                    return
                self.arrivals_s.append(now_s)
            header = _header(data, at)
            if header is None:
                self._rest = data[at:]
                return
            opcode, start, length = header
            if opcode == BINARY:
                at, self._skip = start, length
                continue
            if size < start + length:
                self._rest = data[at:]
                return
            self.failed |= opcode == CLOSE or (opcode == TEXT and b'"type":"error"' in data[start : start + length])
            at = start + length

    def waits(self, begin_s: float, end_s: float, duration_s: float) -> tuple[float, bool]:
        """The longest wait in the window, and whether it failed; a packet holds `duration_s` of sound."""
        ledger = PlayoutLedger()
        heard = [at_s for at_s in self.arrivals_s if begin_s <= at_s <= end_s]
        if self.failed or len(heard) < 2:  # one packet has no continuity to speak of: here it is one that stopped
            return float("inf"), True
        for at_s in heard:
            ledger.record(arrived_at_s=at_s, duration_s=duration_s)
        ledger.record(arrived_at_s=end_s, duration_s=0.0)  # who waits still, waits until now
        return ledger.report().max_underrun_s, False


def _header(data: bytes, at: int) -> tuple[int, int, int] | None:
    """(opcode, where the payload starts, its length) of a server's frame; None where that has not come yet."""
    left = len(data) - at
    if left < 2:
        return None
    length = data[at + 1]
    if length < 126:
        return data[at] & 15, at + 2, length
    extra = 2 if length == 126 else 8
    if left < 2 + extra:
        return None
    return data[at] & 15, at + 2 + extra, int.from_bytes(data[at + 2 : at + 2 + extra])


# -- The server's process ----------------------------------------------------------------------------------------------


class ServerProcess:
    """One of `bench.server_overhead_servers`, on one core where that can be had."""

    def __init__(self, kind: str, encoding: str, core: int | None) -> None:
        command = [sys.executable, "-m", "bench.server_overhead_servers", "--kind", kind, "--format", encoding]
        if core is not None:
            command += ["--core", str(core)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = int(self._line() or "0")
        if not self.port:
            raise RuntimeError(f"the server {kind!r} did not start")

    def ask(self) -> None:
        """For a mark, which `mark` reads; a busy server takes its time."""
        assert self._process.stdin is not None
        self._process.stdin.write("mark\n")
        self._process.stdin.flush()

    def mark(self) -> Mark:
        return msgspec.json.decode(self._line(), type=Mark)

    def stop(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


@contextmanager
def running(kind: str, encoding: str, core: int | None) -> Iterator[ServerProcess]:
    process = ServerProcess(kind, encoding, core)
    try:
        yield process
    finally:
        process.stop()


@contextmanager
def own_cores() -> Iterator[int | None]:
    """Yields a core for the server, and keeps this process off it; None where there is but one, or no choice."""
    if not hasattr(os, "sched_setaffinity") or len(allowed := os.sched_getaffinity(0)) < 2:
        yield None
        return
    core = min(allowed)
    os.sched_setaffinity(0, allowed - {core})
    try:
        yield core
    finally:
        os.sched_setaffinity(0, allowed)


# -- A trial -----------------------------------------------------------------------------------------------------------


class Audience:
    """All listeners of one server."""

    def __init__(self, port: int, encoding: str) -> None:
        self.listeners: list[Listener] = []
        self._address = ("127.0.0.1", port)
        self._selector = selectors.DefaultSelector()
        self._opening = (
            f"GET {STREAM_PATH} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        ).encode()
        config = f'{{"type":"session.config","response_format":"{encoding}","stream_audio":true}}'
        messages = (config, '{"type":"input.text","text":"Hello world."}', '{"type":"input.done"}')
        self._wish = b"".join(masked(message.encode()) for message in messages)

    def connect(self) -> None:
        """One more, who does not yet ask for anything."""
        connection = socket.create_connection(self._address, timeout=TIMEOUT_S)
        connection.sendall(self._opening)
        answer = b""
        while b"\r\n\r\n" not in answer:
            if not (data := connection.recv(RECEIVE_BYTES)):
                break
            answer += data
        connection.setblocking(False)
        listener = Listener(connection, failed=b" 101 " not in answer.partition(b"\r\n")[0])
        self.listeners.append(listener)
        self._selector.register(connection, selectors.EVENT_READ, listener)

    def start(self, until_s: float) -> None:
        """Everybody asks for sound, evenly spread in time."""
        begin_s = time.monotonic()
        for number, listener in enumerate(self.listeners):
            self.listen(begin_s + (until_s - begin_s) * number / len(self.listeners))
            try:
                listener.socket.sendall(self._wish)
            except OSError:
                listener.failed = True

    def listen(self, until_s: float) -> None:
        """Receives whatever comes, at least once."""
        while True:
            for key, _events in self._selector.select(max(0.0, until_s - time.monotonic())):
                self._receive(key.data)
            if time.monotonic() >= until_s:
                return

    def _receive(self, listener: Listener) -> None:
        try:
            data = listener.socket.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            listener.feed(data, time.monotonic())
        else:
            listener.failed = True
            self._selector.unregister(listener.socket)

    def close(self) -> None:
        self._selector.close()
        for listener in self.listeners:
            listener.socket.close()


def masked(payload: bytes) -> bytes:
    """A text frame as a client sends it (RFC 6455, 5.3), with a mask that changes nothing."""
    assert len(payload) < 126, "all that is asked for is short"
    return bytes((0x81, 0x80 | len(payload))) + bytes(4) + payload


def trial(kind: str, encoding: str, streams: int, window_s: float, core: int | None) -> Trial:
    """Starts a server, lets so many listeners hear for a while, and stops it."""
    with running(kind, encoding, core) as server:
        audience = Audience(server.port, encoding)
        try:
            server.ask()
            empty = server.mark()
            for _ in range(streams):
                audience.connect()
            audience.start(time.monotonic() + min(START_S, streams / STARTS_PER_S))
            audience.listen(time.monotonic() + SETTLE_S)
            server.ask()
            begin_s, begin_cpu_s = time.monotonic(), time.process_time()
            audience.listen(begin_s + window_s)
            end_s, end_cpu_s = time.monotonic(), time.process_time()
            server.ask()
            client_cpu = (end_cpu_s - begin_cpu_s) / (end_s - begin_s)
            # The answers come when the server gets to it: its processor time is that between them.
            return judged(
                kind, audience.listeners, (begin_s, end_s), (empty, server.mark(), server.mark()), client_cpu, encoding
            )
        finally:
            audience.close()


def judged(
    kind: str,
    listeners: Sequence[Listener],
    window: tuple[float, float],
    marks: tuple[Mark, Mark, Mark],
    client_cpu: float,
    encoding: str,
) -> Trial:
    """`marks` are the server's before anybody came, and at both ends of the window."""
    begin_s, end_s = window
    empty, first, last = marks
    duration_s = 0.02 if encoding == "opus" else CHUNK_S
    waits = [listener.waits(begin_s, end_s, duration_s) for listener in listeners]
    heard = sum(begin_s <= at_s <= end_s for listener in listeners for at_s in listener.arrivals_s)
    rss = None if last.rss_bytes is None or empty.rss_bytes is None else last.rss_bytes - empty.rss_bytes
    return Trial(
        kind=kind,
        streams=len(listeners),
        failed=sum(failed for _wait_s, failed in waits),
        ok_share=sum(wait_s <= THRESHOLD_S for wait_s, _failed in waits) / len(listeners),
        underrun_p95_s=sorted(wait_s for wait_s, _failed in waits)[math.ceil(0.95 * len(waits)) - 1],
        messages_per_s=heard / (end_s - begin_s),
        server_cpu=(last.cpu_s - first.cpu_s) / (last.at_s - first.at_s),
        server_waited=(last.waited_s - first.waited_s) / (last.at_s - first.at_s),
        client_cpu=client_cpu,
        lag_p50_s=percentile(last.lags_s, 50) or 0.0,
        lag_p99_s=percentile(last.lags_s, 99) or 0.0,
        rss_per_stream_bytes=None if rss is None else rss / len(listeners),
    )
