"""Batches of token ids: which examples share one (`TokenBatches`), and how they become one (`collate`).

Special tokens are added here and nowhere else: source = pieces + eos; decoder input = bos + pieces; expected output =
pieces + eos.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Ints: TypeAlias = npt.NDArray[np.integer[Any]]
Ids: TypeAlias = "Ints | Sequence[int]"

POOL_SIZE = 2**17
"""Examples that are sorted by length together: enough for batches of like lengths, few enough to hold in memory."""


@dataclass(frozen=True)
class Batch:
    """Padded sentence pairs. Masks are True at real tokens, the end mark included."""

    src: Tensor
    """(B, S) int64: pieces, eos, padding."""
    src_mask: Tensor
    """(B, S) bool."""
    tgt_in: Tensor
    """(B, T) int64: bos, pieces, padding."""
    tgt_out: Tensor
    """(B, T) int64: pieces, eos, padding."""
    tgt_mask: Tensor
    """(B, T) bool."""

    @property
    def pairs(self) -> int:
        """B."""
        return self.src.size(0)

    @property
    def tokens(self) -> int:
        """Target tokens, end marks included, padding not."""
        return int(self.tgt_mask.sum())

    def to(self, device: torch.device | str) -> Batch:
        """The same batch on `device`."""
        return Batch(*(getattr(self, name).to(device, non_blocking=True) for name in self.__dataclass_fields__))


def collate(sources: Sequence[Ids], targets: Sequence[Ids], pad: int, bos: int, eos: int) -> Batch:
    """Make a batch of B pairs of id sequences without specials; `sources[i]` belongs to `targets[i]`."""
    src, src_mask = collate_source(sources, pad, eos)
    pieces, lengths = _concatenate(targets)
    tgt_in, tgt_mask = _padded(pieces, lengths, pad, first=bos)
    tgt_out, _ = _padded(pieces, lengths, pad, last=eos)
    return Batch(src, src_mask, torch.from_numpy(tgt_in), torch.from_numpy(tgt_out), torch.from_numpy(tgt_mask))


def collate_source(sources: Sequence[Ids], pad: int, eos: int) -> tuple[Tensor, Tensor]:
    """Make `src` (B, S) int64 and `src_mask` (B, S) bool of B id sequences without specials."""
    rows, mask = _padded(*_concatenate(sources), pad, last=eos)
    return torch.from_numpy(rows), torch.from_numpy(mask)


def _concatenate(sequences: Sequence[Ids]) -> tuple[Ints, Ints]:
    lengths = np.fromiter(map(len, sequences), np.int64, len(sequences))
    pieces = np.concatenate([np.asarray(sequence, np.int64) for sequence in sequences])
    return pieces, lengths


def _padded(
    pieces: Ints, lengths: Ints, pad: int, *, first: int | None = None, last: int | None = None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Lay concatenated pieces out in rows with one special token before (`first`) or after (`last`) each of them."""
    rows = np.full((len(lengths), int(lengths.max()) + 1), pad, np.int64)
    columns = np.arange(rows.shape[1])
    # A boolean scatter fills row after row, which is the order of the concatenated pieces.
    if first is not None:
        rows[:, 1:][columns[:-1] < lengths[:, None]] = pieces
        rows[:, 0] = first
    if last is not None:
        rows[columns < lengths[:, None]] = pieces
        rows[np.arange(len(lengths)), lengths] = last
    return rows, columns <= lengths[:, None]


def longest_sides(src_lengths: Ints, tgt_lengths: Ints) -> npt.NDArray[np.int64]:
    """Tokens of the longer side of each pair, its special token included."""
    return np.maximum(src_lengths, tgt_lengths).astype(np.int64) + 1


def cut(longest: Ints, budget: int) -> list[tuple[int, int]]:
    """Cut a row of examples, in their order, into [start, stop) stretches of which rows x longest <= `budget`.

    A stretch is as long as it can be. An example that is over the budget by itself gets its own stretch.
    """
    stretches, start = [], 0
    while start < len(longest):
        window = np.maximum.accumulate(longest[start : start + max(1, budget // int(longest[start]))])
        costs = window * np.arange(1, len(window) + 1)
        rows = max(1, int(np.searchsorted(costs, budget, side="right")))
        stretches.append((start, start + rows))
        start += rows
    return stretches


def by_length(src_lengths: Ints, tgt_lengths: Ints, budget: int) -> list[Ints]:
    """Sort examples by length and cut them into batches: lists of positions, the shortest first.

    The order is by target length, then by source length, rising and falling in turn, so that a batch on the border of
    two target lengths still has like sources. Ties stay in the order given.
    """
    turning = np.where(np.asarray(tgt_lengths) % 2 == 0, src_lengths, -np.asarray(src_lengths, np.int64))
    order = np.lexsort((turning, tgt_lengths))
    longest = longest_sides(src_lengths, tgt_lengths)[order]
    return [order[start:stop] for start, stop in cut(longest, budget)]


@dataclass(frozen=True)
class TokenBatches:
    """Which of `size` examples share a batch: a pure function of (`seed`, epoch) and the examples' lengths.

    An epoch is a permutation of all examples, taken in pools of `pool_size`. A pool is sorted by length and cut into
    batches of rows x longest side <= `budget` tokens, and its batches are shuffled; examples of equal lengths meet in
    another order each epoch. So each example comes exactly once an epoch, and only one pool's lengths are needed at a
    time.
    """

    size: int
    budget: int
    seed: int
    pool_size: int = POOL_SIZE

    def pools(self, epoch: int) -> Iterator[Ints]:
        """The pools of `epoch` (the first is 0): arrays of indexes of examples."""
        order = np.arange(self.size, dtype=np.uint32 if self.size <= 2**32 else np.uint64)
        np.random.default_rng([self.seed, epoch]).shuffle(order)
        return (order[start : start + self.pool_size] for start in range(0, self.size, self.pool_size))

    def batches(self, src_lengths: Ints, tgt_lengths: Ints, epoch: int, pool: int) -> list[Ints]:
        """The batches of pool number `pool`, whose examples have these lengths: arrays of positions in the pool."""
        batches = by_length(src_lengths, tgt_lengths, self.budget)
        order = np.random.default_rng([self.seed, epoch, pool]).permutation(len(batches))
        return [batches[number] for number in order]
