"""Locks of files. The system lifts the lock of a process that ends, however it ends."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import BinaryIO


def take(file: BinaryIO) -> str | None:
    """Lock a file, opened with "ab+", until it is closed, and write into it who has it.

    Returns None; or, where somebody else has it, who that is: `process 123`. It never waits.
    """
    if not _lock(file):
        file.seek(0)
        return f"process {file.read().decode() or 'unknown'}"
    with suppress(OSError):  # a full disk: it is locked all the same
        os.ftruncate(file.fileno(), 0)
        os.write(file.fileno(), str(os.getpid()).encode())
    return None


if sys.platform == "win32":
    import msvcrt

    def _lock(file: BinaryIO) -> bool:
        try:
            file.seek(2**30)  # beyond what is read: a locked byte cannot be
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _lock(file: BinaryIO) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return True  # a file system that knows no locks
        return True
