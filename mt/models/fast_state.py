"""What decoding remembers of sources and hypotheses, in the layout of the fast Transformer (mt/models/fast.py)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mt.models.slots import Past


@dataclass(frozen=True)
class FastSource:
    """The sources of U sentences, their length padded to `WIDE` at least, and to a multiple of 4."""

    keys: tuple[Tensor, ...]
    """For each layer (U x H, K, S)."""
    values: tuple[Tensor, ...]
    """For each layer (U x H, S, K)."""
    mask: Tensor
    """(U, 1, S): 0 at real tokens, `NEVER` at padding."""
    length: int
    """S before it was padded."""

    def select(self, sentences: Tensor) -> FastSource:
        """Keep `sentences` (U',)."""
        count = len(self.mask)
        keys, values = (
            tuple(x.view(count, -1, *x.shape[1:]).index_select(0, sentences).flatten(0, 1) for x in layers)
            for layers in (self.keys, self.values)
        )
        return FastSource(keys, values, self.mask.index_select(0, sentences), self.length)


@dataclass(frozen=True)
class FastState:
    """What decoding remembers of N = U x W rows, those of a sentence one after another."""

    position: int
    past: Past
    source: FastSource
    attention: Tensor | None = None
    """(N, S): see `mt.seq2seq.Attentive`."""

    def select(self, rows: Tensor) -> FastState:
        """Keep `rows` (N',), in that order."""
        attention = None if self.attention is None else self.attention.index_select(0, rows)
        sentences = self._moved(rows)
        source = self.source if sentences is None else self.source.select(sentences)
        return FastState(self.position, self.past.select(rows, sentences), source, attention)

    def _moved(self, rows: Tensor) -> Tensor | None:
        """The sentences (U',) of `rows`, each once where all have as many rows, else one a row; None: as they are."""
        count, width, _ = self.past.mask.shape
        if count == 1 and len(rows):
            return None
        owners = rows // width
        kept, counts = torch.unique_consecutive(owners, return_counts=True)
        if not bool((counts == counts[:1]).all()):
            return owners
        return None if len(kept) == count and bool((kept[1:] > kept[:-1]).all()) else kept
