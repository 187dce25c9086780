"""Folders that are replaced whole, and the lock that keeps two programs from writing one thing at a time."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from mt.errors import BusyError
from mt.text.files import make_folder, standing_for
from mt.text.locks import take


@contextmanager
def locked(path: Path, work: str) -> Iterator[None]:
    """Hold the lock of a folder or a file, a hidden file beside it, for `work` (such as mt prepare).

    Raises `BusyError` at once where another program holds it. The system lets go of it when its holder dies.
    """
    make_folder(path.parent)
    lock = path.with_name(f".{path.name}.lock")
    with standing_for(path, lock):
        file = lock.open("ab+")
    with file:
        holder = take(file)
        if holder or not _is_still(lock, file):
            raise BusyError(f"another {work} ({holder or 'just ended'}) is writing {path}; wait until it has ended.")
        try:
            yield
        finally:
            with suppress(PermissionError):  # Windows keeps a file that is open; only the lock counts, which is let go
                lock.unlink(missing_ok=True)


def _is_still(path: Path, file: BinaryIO) -> bool:
    """Whether the locked file is the one under that name, and not one that its last holder has just removed."""
    try:
        return path.stat().st_ino == os.fstat(file.fileno()).st_ino
    except FileNotFoundError:
        return False


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
    make_folder(folder.parent)
    try:
        with standing_for(folder, aside):
            aside.mkdir()
            yield aside
            if folder.exists():
                folder.rename(old)
            aside.rename(folder)
    finally:
        for rest in (aside, old):
            shutil.rmtree(rest, ignore_errors=True)
