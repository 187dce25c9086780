"""The C library's allocator, told to keep what a training step frees for the next step."""

from __future__ import annotations

import ctypes
import os
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h of glibc
_LARGE = 1 << 30


def keep_freed_memory() -> bool:
    """Have glibc reuse freed memory rather than give it back to the system; whether it was done.

    A step frees tensors of megabytes and soon asks for the like. By default each goes back to the system, which hands
    out zeroed pages again at the first touch: 5 to 10 % of a small model's step on a CPU. A setting of the user's own
    in the environment (MALLOC_MMAP_THRESHOLD_ or MALLOC_TRIM_THRESHOLD_) stands.
    """
    own = {"MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"} & os.environ.keys()
    if own or not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries have none
    if mallopt is None:
        return False
    return all([mallopt(_M_MMAP_THRESHOLD, _LARGE), mallopt(_M_TRIM_THRESHOLD, _LARGE)])
