"""Temporary directories that the next start removes where a process was killed before it could."""

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_UNLOCKED = ".new-"


@contextmanager
def temporary_directory(parent: Path, prefix: str) -> Iterator[Path]:
    """An empty directory `parent/prefix...` that exists during the block.  Raises OSError.

    Its process holds a lock on it, flock(2), which ends with the process.
    """
    # It gets its name when it is locked, or another process could take it for an abandoned one.
    created = Path(tempfile.mkdtemp(prefix=_UNLOCKED + prefix, dir=parent))
    directory = created.with_name(created.name.removeprefix(_UNLOCKED))
    lock = _lock(created)
    try:
        created.rename(directory)
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def remove_abandoned(parent: Path, prefix: str) -> None:
    """Removes such directories of this user whose process was killed: a prepared voice takes 90 to 270 MB."""
    with contextlib.suppress(OSError):
        for directory in parent.glob(f"{prefix}*"):
            lock = _lock(directory)
            if lock is not None:
                shutil.rmtree(directory, ignore_errors=True)
                os.close(lock)


def _lock(directory: Path) -> int | None:
    """An open file that holds the lock.  None if another process has it, or the file system knows no locks."""
    if sys.platform == "win32":
        return None
    import fcntl

    try:
        opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:  # of another user, not a directory, or removed meanwhile
        return None
    try:
        if os.fstat(opened).st_uid == os.getuid():
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return opened
    except OSError:
        pass
    os.close(opened)
    return None
