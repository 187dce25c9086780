"""Parallel text: two files of which line k of one translates line k of the other."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from mt.errors import DataError, plural
from mt.text.files import BLOCK_LINES, Block, read_blocks


class Pair(NamedTuple):
    """A sentence and its translation, without line ends."""

    source: str
    target: str


def read_pairs(src: Path, tgt: Path) -> Iterator[Pair]:
    """Read the pairs of two files; `DataError` with both counts where the numbers of lines differ."""
    for source, target in read_pair_blocks(src, tgt):
        yield from map(Pair, source.lines(), target.lines())


def read_pair_blocks(src: Path, tgt: Path, lines: int = BLOCK_LINES) -> Iterator[tuple[Block, Block]]:
    """Read two files side by side in blocks of `lines` lines; `DataError` with both counts where they differ."""
    counts = [0, 0]
    uneven = False
    for blocks in zip_longest(read_blocks(src, lines), read_blocks(tgt, lines)):
        sizes = [len(block) if block else 0 for block in blocks]
        counts = [count + size for count, size in zip(counts, sizes, strict=True)]
        uneven = uneven or sizes[0] != sizes[1]
        if not uneven and blocks[0] and blocks[1]:
            yield blocks[0], blocks[1]
    if uneven:
        raise DataError(
            f"{src} has {counts[0]} {plural(counts[0], 'line')} and {tgt} has {counts[1]}; line k of one must "
            "translate line k of the other, so the numbers must be equal."
        )
