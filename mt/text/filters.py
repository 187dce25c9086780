"""What is left out of the training text, and why.

A filter looks at a chunk of pairs at once and says which of them it drops. Another one is a function and a line in
`FILTERS`. The first filter of the table that drops a pair is the one that counts it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from mt.text.config import Filters

Dropped: TypeAlias = "NDArray[np.bool_]"


@dataclass(frozen=True)
class Chunk:
    """Pairs that filters look at: the text as read, and how many pieces (specials not counted) it has."""

    sources: Sequence[str]
    targets: Sequence[str]
    src_lengths: NDArray[np.int64]
    tgt_lengths: NDArray[np.int64]


def empty_source(_config: Filters, chunk: Chunk) -> Dropped:
    """Nothing to translate: no pieces, or white space of any kind, even where that has pieces."""
    return _blank(chunk.sources, chunk.src_lengths)


def empty_target(_config: Filters, chunk: Chunk) -> Dropped:
    return _blank(chunk.targets, chunk.tgt_lengths)


def _blank(lines: Sequence[str], lengths: NDArray[np.int64]) -> Dropped:
    return np.equal(lengths, 0) | np.fromiter(map(str.isspace, lines), np.bool_, len(lines))


def too_long(config: Filters, chunk: Chunk) -> Dropped:
    if config.max_length is None:
        return _none(chunk)
    return np.maximum(chunk.src_lengths, chunk.tgt_lengths) > config.max_length


def ratio(config: Filters, chunk: Chunk) -> Dropped:
    if config.max_ratio is None:
        return _none(chunk)
    longer = np.maximum(chunk.src_lengths, chunk.tgt_lengths)
    return longer > config.max_ratio * np.minimum(chunk.src_lengths, chunk.tgt_lengths)


def identical(config: Filters, chunk: Chunk) -> Dropped:
    if not config.identical:
        return _none(chunk)
    return np.fromiter(map(str.__eq__, chunk.sources, chunk.targets), np.bool_, len(chunk.sources))


def non_text(config: Filters, chunk: Chunk) -> Dropped:
    if not config.non_text:
        return _none(chunk)
    return ~(_has_letter(chunk.sources) & _has_letter(chunk.targets))


def _has_letter(lines: Sequence[str]) -> Dropped:
    return np.fromiter((any(map(str.isalpha, line)) for line in lines), np.bool_, len(lines))


def _none(chunk: Chunk) -> Dropped:
    return np.zeros(len(chunk.sources), np.bool_)


# The reason, as reports word it -> the filter.
FILTERS: dict[str, Callable[[Filters, Chunk], Dropped]] = {
    "source empty": empty_source,
    "target empty": empty_target,
    "identical sides": identical,
    "no letters": non_text,
    "too long": too_long,
    "lengths too unlike": ratio,
}


def apply(config: Filters, chunk: Chunk) -> tuple[Dropped, dict[str, int]]:
    """Which pairs stay, and how many were dropped for each reason that occurred."""
    keep = np.ones(len(chunk.sources), np.bool_)
    counts: dict[str, int] = {}
    for reason, drops in FILTERS.items():
        dropped = drops(config, chunk) & keep
        if count := int(dropped.sum()):
            counts[reason] = count
            keep &= ~dropped
    return keep, counts
