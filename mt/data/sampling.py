"""A bounded sample of lines, spread evenly over a text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mt.text.files import read_blocks

_SEED = 1
"""Fixed: two runs that differ in their seed share a vocabulary."""


def evenly(total: int, most: int) -> NDArray[np.int64]:
    """Sorted numbers of the lines to take: all, or one drawn from each of `most` stretches of equal length."""
    if total <= most:
        return np.arange(total, dtype=np.int64)
    ends = np.arange(most + 1, dtype=np.int64) * total // most
    return np.random.default_rng(_SEED).integers(ends[:-1], ends[1:])


def sample_lines(paths: Sequence[Path], total: int, most: int) -> Iterator[str]:
    """Read at most `most` of the `total` lines of the files; lines that are not UTF-8 are passed over.

    Whether such lines are an error has been decided before.
    """
    wanted = evenly(total, most)
    start = 0
    for path in paths:
        for block in read_blocks(path):
            end = start + len(block)
            picked = wanted[np.searchsorted(wanted, start) : np.searchsorted(wanted, end)] - start
            if len(picked):
                lines = block.lines_or_none()
                yield from (line for index in picked.tolist() if (line := lines[index]) is not None)
            start = end
