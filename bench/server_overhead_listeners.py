"""Listeners of `bench.server_overhead`: many sockets on one thread with minimal work per message.

Their figures use the one definition of underrun in realtime_tts/audio/playout.py, in a time window in which all streams
are active.  A listener has no buffer: the sender sends at playback speed, so every delay is an interruption.
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

from bench.server_overhead_servers import CHUNK_S, Usage
from bench.summary import percentile
from realtime_tts.audio.playout import PlayoutLedger
from realtime_tts.frontends.native.messages import STREAM_PATH

THRESHOLD_S = 0.1
"""The shortest underrun that a listener notices."""
OK_SHARE = 0.99
START_S, STARTS_PER_S = 1.0, 100.0
"""The requests of many listeners are spread over this time."""
SETTLE_S = 0.5
TIMEOUT_S = 20.0
RECEIVE_BYTES = 1 << 16

TEXT, BINARY, CLOSE = 1, 2, 8


@dataclass(frozen=True, slots=True)
class Trial:
    """Concurrent listeners of one server, and their playback."""

    kind: str
    streams: int
    failed: int
    """Listeners with an error, a close, or fewer than two packets.  They count as underruns."""
    ok_share: float
    underrun_p95_s: float
    messages_per_s: float
    """Received binary messages."""
    server_cpu: float
    """Share of one core; so are the next two."""
    server_waited: float
    """The server was ready to run, but another process used its core."""
    client_cpu: float
    lag_p50_s: float
    lag_p99_s: float
    rss_per_stream_bytes: float | None

    @property
    def sustained(self) -> bool:
        return self.underrun_p95_s <= THRESHOLD_S and self.ok_share >= OK_SHARE

    @property
    def cpu_us_per_message(self) -> float:
        """CPU time of the server; infinite without messages."""
        return self.server_cpu / self.messages_per_s * 1e6 if self.messages_per_s else float("inf")


@dataclass(slots=True, eq=False)
class Listener:
    """The frames received on one socket."""

    socket: socket.socket
    arrivals_s: list[float] = field(default_factory=list)
    """Of the binary messages."""
    failed: bool = False
    _rest: bytes = b""
    _skip: int = 0
    """Remaining bytes of the payload of a binary message."""

    def receive(self, data: bytes, now_s: float) -> None:
        """Processes received bytes; audio is counted and discarded."""
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
        """The longest interruption in the window, and whether the listener failed; `duration_s` is that of a packet."""
        ledger = PlayoutLedger()
        arrivals_s = [at_s for at_s in self.arrivals_s if begin_s <= at_s <= end_s]
        if self.failed or len(arrivals_s) < 2:  # a single packet in the window: the stream has stopped
            return float("inf"), True
        for at_s in arrivals_s:
            ledger.record(arrived_at_s=at_s, duration_s=duration_s)
        ledger.record(arrived_at_s=end_s, duration_s=0.0)  # an interruption may last until the end
        return ledger.report().max_underrun_s, False


def _header(data: bytes, at: int) -> tuple[int, int, int] | None:
    """(opcode, start of the payload, its length) of a server's frame; None if the header is incomplete."""
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


# -- Server process ----------------------------------------------------------------------------------------------------


class ServerProcess:
    """One of `bench.server_overhead_servers`, on one core if the system can pin processes."""

    def __init__(self, kind: str, encoding: str, core: int | None) -> None:
        command = [sys.executable, "-m", "bench.server_overhead_servers", "--kind", kind, "--format", encoding]
        if core is not None:
            command += ["--core", str(core)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = int(self._line() or "0")
        if not self.port:
            raise RuntimeError(f"the server {kind!r} did not start")

    def request_usage(self) -> None:
        """Requests a `Usage`, which `usage` reads; a busy server answers late."""
        assert self._process.stdin is not None
        self._process.stdin.write("usage\n")
        self._process.stdin.flush()

    def usage(self) -> Usage:
        return msgspec.json.decode(self._line(), type=Usage)

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
def reserved_core() -> Iterator[int | None]:
    """Yields a core for the server, and moves this process to the others; None if that is impossible."""
    if not hasattr(os, "sched_setaffinity") or len(allowed := os.sched_getaffinity(0)) < 2:
        yield None
        return
    core = min(allowed)
    os.sched_setaffinity(0, allowed - {core})
    try:
        yield core
    finally:
        os.sched_setaffinity(0, allowed)


# -- Trials ------------------------------------------------------------------------------------------------------------


class ListenerPool:
    """All listeners of one server."""

    def __init__(self, port: int, encoding: str) -> None:
        self.listeners: list[Listener] = []
        self._address = ("127.0.0.1", port)
        self._selector = selectors.DefaultSelector()
        self._handshake = (
            f"GET {STREAM_PATH} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        ).encode()
        config = f'{{"type":"session.config","response_format":"{encoding}","stream_audio":true}}'
        messages = (config, '{"type":"input.text","text":"Hello world."}', '{"type":"input.done"}')
        self._request = b"".join(masked(message.encode()) for message in messages)

    def connect(self) -> None:
        """Adds a listener, without a request yet."""
        connection = socket.create_connection(self._address, timeout=TIMEOUT_S)
        connection.sendall(self._handshake)
        response = b""
        while b"\r\n\r\n" not in response:
            if not (data := connection.recv(RECEIVE_BYTES)):
                break
            response += data
        connection.setblocking(False)
        listener = Listener(connection, failed=b" 101 " not in response.partition(b"\r\n")[0])
        self.listeners.append(listener)
        self._selector.register(connection, selectors.EVENT_READ, listener)

    def start(self, until_s: float) -> None:
        """Sends the requests of all listeners, evenly spread in time."""
        start_s = time.monotonic()
        for number, listener in enumerate(self.listeners):
            self.receive(start_s + (until_s - start_s) * number / len(self.listeners))
            try:
                listener.socket.sendall(self._request)
            except OSError:
                listener.failed = True

    def receive(self, until_s: float) -> None:
        """Receives all messages until then, at least once."""
        while True:
            for key, _events in self._selector.select(max(0.0, until_s - time.monotonic())):
                self._receive_from(key.data)
            if time.monotonic() >= until_s:
                return

    def _receive_from(self, listener: Listener) -> None:
        try:
            data = listener.socket.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            listener.receive(data, time.monotonic())
        else:
            listener.failed = True
            self._selector.unregister(listener.socket)

    def close(self) -> None:
        self._selector.close()
        for listener in self.listeners:
            listener.socket.close()


def masked(payload: bytes) -> bytes:
    """A text frame as a client sends it (RFC 6455, 5.3), with a mask of zeros."""
    assert len(payload) < 126, "all requests are short"
    return bytes((0x81, 0x80 | len(payload))) + bytes(4) + payload


def trial(kind: str, encoding: str, streams: int, window_s: float, core: int | None) -> Trial:
    """Starts a server, connects the listeners for a while, and stops it."""
    with running(kind, encoding, core) as server:
        pool = ListenerPool(server.port, encoding)
        try:
            server.request_usage()
            before = server.usage()
            for _ in range(streams):
                pool.connect()
            pool.start(time.monotonic() + min(START_S, streams / STARTS_PER_S))
            pool.receive(time.monotonic() + SETTLE_S)
            server.request_usage()
            start_s, start_cpu_s = time.monotonic(), time.process_time()
            pool.receive(start_s + window_s)
            end_s, end_cpu_s = time.monotonic(), time.process_time()
            server.request_usage()
            client_cpu = (end_cpu_s - start_cpu_s) / (end_s - start_s)
            # A busy server answers late: its CPU time is counted between its two answers.
            usages = before, server.usage(), server.usage()
            return trial_of(kind, pool.listeners, (start_s, end_s), usages, client_cpu, encoding)
        finally:
            pool.close()


def trial_of(
    kind: str,
    listeners: Sequence[Listener],
    window: tuple[float, float],
    usages: tuple[Usage, Usage, Usage],
    client_cpu: float,
    encoding: str,
) -> Trial:
    """`usages` are those before the first connection and at both ends of the window."""
    start_s, end_s = window
    empty, first, last = usages
    duration_s = 0.02 if encoding == "opus" else CHUNK_S
    waits = [listener.waits(start_s, end_s, duration_s) for listener in listeners]
    received = sum(start_s <= at_s <= end_s for listener in listeners for at_s in listener.arrivals_s)
    rss = None if last.rss_bytes is None or empty.rss_bytes is None else last.rss_bytes - empty.rss_bytes
    return Trial(
        kind=kind,
        streams=len(listeners),
        failed=sum(failed for _wait_s, failed in waits),
        ok_share=sum(wait_s <= THRESHOLD_S for wait_s, _failed in waits) / len(listeners),
        underrun_p95_s=sorted(wait_s for wait_s, _failed in waits)[math.ceil(0.95 * len(waits)) - 1],
        messages_per_s=received / (end_s - start_s),
        server_cpu=(last.cpu_s - first.cpu_s) / (last.at_s - first.at_s),
        server_waited=(last.waited_s - first.waited_s) / (last.at_s - first.at_s),
        client_cpu=client_cpu,
        lag_p50_s=percentile(last.lags_s, 50) or 0.0,
        lag_p99_s=percentile(last.lags_s, 99) or 0.0,
        rss_per_stream_bytes=None if rss is None else rss / len(listeners),
    )
