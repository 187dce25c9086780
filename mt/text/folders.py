"""Folders that are replaced whole, and the lock that keeps two programs from writing one at a time."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mt.errors import RunError
from mt.text.files import make_folder


@contextmanager
def locked(folder: Path, work: str) -> Iterator[None]:
    """Hold the lock of `folder`, a hidden file beside it, for `work` (such as mt prepare).

    Raises `RunError` at once where another program holds it. The system lets go of it when its holder dies.
    """
    make_folder(folder.parent)
    path = folder.with_name(f".{folder.name}.lock")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if not _lock(descriptor) or not _is_still(path, descriptor):
            raise RunError(f"another {work} is writing {folder}; wait until it has ended.")
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_still(path: Path, descriptor: int) -> bool:
    """Whether the locked file is the one under that name, and not one that its last holder has just removed."""
    return path.exists() and path.stat().st_ino == os.fstat(descriptor).st_ino


@contextmanager
def write_folder_aside(folder: Path) -> Iterator[Path]:
    """Make an empty folder beside `folder`, and put it in `folder`'s place, as a whole, when all went well.

    On an error `folder` stays as it was. The caller holds the lock: what an interrupted run left is removed.
    """
    aside, old = folder.with_name(f".{folder.name}.tmp"), folder.with_name(f".{folder.name}.old")
    if old.exists() and not folder.exists():
        old.rename(folder)
    for stale in (aside, old):
        shutil.rmtree(stale, ignore_errors=True)
    make_folder(aside)
    try:
        yield aside
        if folder.exists():
            folder.rename(old)
        aside.rename(folder)
    finally:
        for rest in (aside, old):
            shutil.rmtree(rest, ignore_errors=True)
