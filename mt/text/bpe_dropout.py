"""BPE-dropout (Provilkov et al. 2020, algorithm 1) over the pieces of a SentencePiece model, many words at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mt.text.segmentation import Ints, PairTable, Vocabulary

_NEVER = np.iinfo(np.int32).max
"""Rank of a pair that cannot be merged."""


class BpeDropout:
    """A `Cut` that merges the best pair of neighbours that was not dropped, until none is left.

    As in SentencePiece two neighbours can be merged where both together are a piece; the piece of the highest score
    comes first, and the leftmost of equals. Before each merge every candidate is dropped with the given probability.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        normal = vocabulary.normal
        pairs = {
            (normal[piece[:cut]], normal[piece[cut:]]): index
            for piece, index in normal.items()
            for cut in range(1, len(piece))
            if piece[:cut] in normal and piece[cut:] in normal
        }
        self._pairs = PairTable(pairs, vocabulary.size + 1, vocabulary.size)
        ranks = np.unique(-vocabulary.scores, return_inverse=True)[1]
        self._ranks = np.append(ranks, _NEVER).astype(np.int32)
        self._nothing = vocabulary.size

    def __call__(self, words: Ints, strength: float, draw: np.random.Generator) -> Ints:
        """See `Cut`; `strength` is the probability of dropping a merge.

        `after` and `before` link the pieces that are left in the flattened matrix. A column of V at both its ends lets
        every piece have neighbours.
        """
        framed = np.pad(words, ((0, 0), (1, 1)), constant_values=self._nothing)
        ids = framed.reshape(-1)
        after, before = np.arange(1, ids.size + 1), np.arange(-1, ids.size - 1)
        joined = np.append(self._pairs.find(ids[:-1], ids[1:]), self._nothing)
        flat = self._ranks[joined]
        ranks = flat.reshape(framed.shape)
        rows = np.arange(len(words))
        while len(rows):
            rows, left = _best(ranks, rows, strength, draw)
            right = after[left]
            ids[left], ids[right], flat[right] = joined[left], self._nothing, _NEVER
            after[left] = beyond = after[right]
            before[beyond] = left
            for first, second in ((before[left], left), (left, beyond)):
                joined[first] = self._pairs.find(ids[first], ids[second])
                flat[first] = self._ranks[joined[first]]
        return framed[:, 1:-1]


def _best(ranks: NDArray[np.int32], rows: Ints, dropout: float, draw: np.random.Generator) -> tuple[Ints, Ints]:
    """Those of the rows in which a merge is left, and the place of the best one of each in the flattened matrix."""
    kept = ranks.take(rows, 0)
    if dropout:
        kept[draw.random(kept.shape, np.float32) < dropout] = _NEVER
    best = kept.argmin(1)
    found = np.take_along_axis(kept, best[:, None], 1)[:, 0] < _NEVER
    rows = rows[found]
    return rows, rows * ranks.shape[1] + best[found]
