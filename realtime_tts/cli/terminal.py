"""Terminal: lines for a person, and the event loop of a command."""

import asyncio
import sys
from collections.abc import Coroutine
from typing import Any


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
