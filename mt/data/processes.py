"""Processes that work for this one: spawned, since forking one that runs threads, such as torch's, may hang."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import wait
from types import ModuleType

CONTEXT = multiprocessing.get_context("spawn")


@contextmanager
def unguarded() -> Iterator[None]:
    """Processes started in here do not import the calling program, of which they need nothing.

    Python's do: each runs a script anew that does not guard what it does by `if __name__ == "__main__":`.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def serve_parent() -> None:
    """Called first in such a process: it leaves interrupts to its parent, and ends when the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    if parent := multiprocessing.parent_process():
        wait([parent.sentinel])
        os._exit(1)
