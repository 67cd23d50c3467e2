"""Terminal: lines for a person, the event loop of a command, and what the machine has run out of."""

import asyncio
import errno
import sys
from collections.abc import Coroutine
from typing import Any

NO_MEMORY = (
    "this machine has too little memory, or this process may use too little: see `ulimit -v`, `ulimit -u` and the"
    " limits of its container"
)
EXHAUSTED = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "this user's share of the disk is used up",
    errno.EROFS: "the file system is read-only",
    errno.EMFILE: "this process may not open more files: raise `ulimit -n`",
    errno.ENFILE: "this machine may not open more files",
    errno.ENOMEM: NO_MEMORY,
}
NO_MEMORY_MESSAGES = ("bad_alloc", "can't start new thread", "not enough memory")
"""Of C++, of Python and of torch, which raise `RuntimeError` for it."""
MAX_CAUSES = 10


def exhausted_resource(error: BaseException) -> str | None:
    """What an operator must provide more of, if the error or one of its causes says that there is too little."""
    seen: BaseException | None = error
    for _ in range(MAX_CAUSES):
        if seen is None:
            return None
        if isinstance(seen, OSError) and seen.errno in EXHAUSTED:
            place = "" if seen.filename is None else f" ({seen.filename})"
            return f"{EXHAUSTED[seen.errno]}{place}"
        if isinstance(seen, MemoryError) or any(text in str(seen) for text in NO_MEMORY_MESSAGES):
            return NO_MEMORY
        seen = seen.__cause__ or seen.__context__
    return None


def print_status(line: str) -> None:
    """Prints a line for a person.  Standard output is for data."""
    print(line, file=sys.stderr, flush=True)  # noqa: T201


def run(work: Coroutine[Any, Any, None]) -> None:
    """Runs a command on uvloop, where it is available."""
    if sys.platform == "win32":
        asyncio.run(work)
    else:
        import uvloop

        uvloop.run(work)
