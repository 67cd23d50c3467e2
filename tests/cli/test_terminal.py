"""Terminal: status lines on standard error, an event loop, and one line for a machine that has run out of something."""

import asyncio
import errno

import pytest

from realtime_tts.cli.terminal import NO_MEMORY, exhausted_resource, print_status, run


def test_a_status_line_is_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    print_status("Ready")
    assert capsys.readouterr() == ("", "Ready\n")


def test_a_coroutine_is_run_to_its_end() -> None:
    done = []

    async def work() -> None:
        await asyncio.sleep(0)
        done.append(True)

    run(work())
    assert done == [True]


def test_a_full_disk_and_too_little_memory_are_named_wherever_they_are_in_the_causes() -> None:
    for error, expected in (
        (OSError(errno.ENOSPC, "No space left on device", "/a/b"), "the disk is full (/a/b)"),
        (OSError(errno.EMFILE, "Too many open files"), "this process may not open more files: raise `ulimit -n`"),
        (MemoryError(), NO_MEMORY),
        (RuntimeError("can't start new thread"), NO_MEMORY),
        (RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes."), NO_MEMORY),
        (RuntimeError("something else"), None),
        (FileNotFoundError(errno.ENOENT, "No such file", "/a/b"), None),
    ):
        outer = ValueError("the last one")
        outer.__context__ = KeyError("between")
        outer.__context__.__context__ = error
        assert exhausted_resource(error) == expected
        assert exhausted_resource(outer) == expected
