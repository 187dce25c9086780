"""Which pairs have occurred before, in little memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray


def digests(sources: Iterable[str], targets: Iterable[str]) -> NDArray[np.uint64]:
    """(pairs,) uint64: a hash of each pair.

    Two different pairs among n have the same one with probability n^2 / 2^65: 3e-8 for a million, 3e-4 for 100 million.
    """
    both = (f"{source}\n{target}".encode() for source, target in zip(sources, targets, strict=True))
    return np.frombuffer(b"".join(hashlib.blake2b(pair, digest_size=8).digest() for pair in both), np.uint64)


class Seen:
    """A set of hashes that takes 8 bytes each, and 24 for a moment while it grows.

    Sorted runs, each at least twice as long as the next: a run is merged with the one before it when it is not.
    """

    def __init__(self) -> None:
        self._runs: list[NDArray[np.uint64]] = []

    def add(self, keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """(keys,) bool: True where a key occurs for the first time; it is remembered."""
        unique, first = np.unique(keys, return_index=True)
        new = np.ones(len(unique), np.bool_)
        for run in self._runs:
            places = np.minimum(np.searchsorted(run, unique), len(run) - 1)
            new &= run[places] != unique
        fresh = np.zeros(len(keys), np.bool_)
        fresh[first[new]] = True
        self._insert(unique[new])
        return fresh

    def _insert(self, run: NDArray[np.uint64]) -> None:
        while self._runs and len(self._runs[-1]) < 2 * len(run):
            run = np.sort(np.concatenate([self._runs.pop(), run]))
        if len(run):
            self._runs.append(run)
