"""Server processes: started on given cores, with their CPU time, and stopped again."""

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from bench.results import ROOT

HOST = "127.0.0.1"
START_TIMEOUT_S = 180.0
"""Some prepare their model at the first start."""
STOP_TIMEOUT_S = 10.0
POLL_EVERY_S = 0.1
LOG_TAIL_BYTES = 1500


class NotStarted(RuntimeError):
    """The server ended or did not listen in time; the message has the end of its output."""


@dataclass(frozen=True, slots=True)
class Command:
    arguments: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Server:
    pid: int
    port: int

    def cpu_s(self) -> float | None:
        """CPU time of the process and its children so far; None without /proc."""
        return cpu_s(self.pid)


@asynccontextmanager
async def running(command: Command, port: int, log: Path, cores: Sequence[int] = ()) -> AsyncIterator[Server]:
    """Yields when the server listens on the port; on all cores without `cores`.  Raises NotStarted."""
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *command.arguments,
            cwd=ROOT,
            env=os.environ | command.environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=asyncio.subprocess.STDOUT,
        )
    try:
        if cores and sys.platform == "linux":
            with suppress(ProcessLookupError):  # it has ended already
                # Before it creates threads: they inherit the setting.
                os.sched_setaffinity(process.pid, cores)
        await _listening(process, port, log)
        yield Server(process.pid, port)
    finally:
        await _stop(process)


async def _listening(process: asyncio.subprocess.Process, port: int, log: Path) -> None:
    clock = asyncio.get_running_loop()
    end_s = clock.time() + START_TIMEOUT_S
    while process.returncode is None and clock.time() < end_s:
        try:
            _reader, writer = await asyncio.open_connection(HOST, port)
        except OSError:
            await asyncio.sleep(POLL_EVERY_S)
        else:
            writer.close()
            return
    ended = f"ended with {process.returncode}" if process.returncode is not None else f"{START_TIMEOUT_S:g} s passed"
    raise NotStarted(f"{ended}; its output: {_end_of(log) or 'none'}")


def _end_of(log: Path) -> str:
    return log.read_bytes()[-LOG_TAIL_BYTES:].decode("utf-8", "replace").strip()


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(STOP_TIMEOUT_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


def free_port() -> int:
    """For servers that cannot choose a port and report it."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def cpu_s(pid: int) -> float | None:
    """User and system seconds of a process and its children, including those that have ended."""
    if not Path("/proc/self/stat").exists():
        return None
    ticks = 0
    for member in _tree(pid):
        try:
            # The name, in brackets, may hold spaces; proc(5) counts utime, stime, cutime, cstime as fields 14 to 17.
            stat = Path(f"/proc/{member}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
        except FileNotFoundError:
            continue  # it has just ended: its parent now includes its ticks
        ticks += sum(int(value) for value in stat[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def _tree(pid: int) -> Iterator[int]:
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = task.read_text("ascii").split()
        except FileNotFoundError:
            continue
        for child in children:
            yield from _tree(int(child))
