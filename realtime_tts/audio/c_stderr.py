"""Messages of C libraries on standard error, discarded while a client's recording is decoded.

libmpg123, which libsndfile uses without its option `MPG123_QUIET`, prints several lines for each damaged frame of an
mp3: any client could fill the operator's terminal or disk, past the log and its rules.
"""

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class CStderr:
    """The variable `stderr` of the C library, which all of this process shares: one instance for each process.

    Not the file descriptor: the log, Python's fault handler and the last words of glibc go there, and are not lost.
    """

    def __init__(self) -> None:
        self._variable = _stderr_variable()
        self._lock = threading.Lock()
        self._discarding = 0
        """Blocks of `discarded` that run now, in all threads."""
        self._shown: int | None = None
        self._nowhere: int | None = None

    @contextmanager
    def discarded(self) -> Iterator[None]:
        """In this block what C code prints with `fprintf(stderr, ...)` is lost, in all threads."""
        self._change(1)
        try:
            yield
        finally:
            self._change(-1)

    def _change(self, by: int) -> None:
        with self._lock:
            self._discarding += by
            if self._variable is None:
                return
            if self._discarding == by == 1:
                self._nowhere = self._nowhere or _open_nowhere()
                self._shown, self._variable.value = self._variable.value, self._nowhere
            elif self._discarding == 0:
                self._variable.value = self._shown


def _stderr_variable() -> ctypes.c_void_p | None:
    """None with a C library other than glibc: in musl it is a constant."""
    try:
        if not (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc"):
            return None
        return ctypes.c_void_p.in_dll(ctypes.CDLL(None), "stderr")
    except (AttributeError, OSError, ValueError, TypeError):  # not POSIX, or another library
        return None


def _open_nowhere() -> int:
    library = ctypes.CDLL(None)
    library.fopen.restype = ctypes.c_void_p
    opened = library.fopen(os.devnull.encode(), b"w")
    if opened is None:
        raise OSError(f"{os.devnull} cannot be opened")
    return int(opened)
