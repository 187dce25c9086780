"""What decoding remembers of sources and hypotheses, in the layout of mt/models/fast_model.py."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from mt.models.slots import Past

LEAST_BUSY = 0.7
"""Share of the places below which those that are idle are given up."""


@dataclass(frozen=True)
class FastSource:
    """The sources of U sentences, their length padded to `WIDE` at least, and to a multiple of 4."""

    keys: tuple[Tensor, ...]
    """For each layer (U x G, K, S)."""
    values: tuple[Tensor, ...]
    """For each layer (U x G, S, K)."""
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
    """What decoding remembers of N rows, those of a sentence one after another.

    They lie in U x W places. A sentence that is dropped leaves its places idle: to move all others costs more than to
    carry on with it for a few steps, unless many are idle, or the past is copied anyway.
    """

    position: int
    past: Past
    source: FastSource
    attention: Tensor | None = None
    """(N, S): see `mt.seq2seq.Attentive`."""
    places: Tensor | None = None
    """(N,): where the rows lie, rising; None: everywhere."""

    def spread(self, x: Tensor) -> Tensor:
        """`x` (N,) at the places of its rows, and 0 in idle ones: (U x W,)."""
        if self.places is None:
            return x
        return x.new_zeros(self.past.mask.shape[:2].numel()).index_copy_(0, self.places, x)

    def gathered(self, x: Tensor, total: int) -> Tensor:
        """Of `x` (U x W or more, ...) the rows of this state, and then any to make up `total`, but of all as it is."""
        return x if self.places is None else x[F.pad(self.places, (0, total - len(self.places)))]

    def with_room(self) -> FastState:
        """The same state, with slots for one more position of each row that nobody else writes."""
        if self.past.has_room:
            return self
        if self.places is None:
            return replace(self, past=self.past.copied())
        return self._selected(self.places, torch.unique_consecutive(self.places // self.past.width), self.attention)

    def select(self, rows: Tensor) -> FastState:
        """Keep `rows` (N',), in that order."""
        attention = None if self.attention is None else self.attention.index_select(0, rows)
        places = rows if self.places is None else self.places.index_select(0, rows)
        count, width, _ = self.past.mask.shape
        owners = places // width
        kept, counts = torch.unique_consecutive(owners, return_counts=True)
        if not bool((counts == counts[:1]).all()):
            kept = owners  # each row becomes a sentence of its own
        if torch.equal(kept, torch.arange(count)):
            return self._selected(places, None, attention)
        as_wide = len(rows) == len(kept) * width and bool((kept[1:] > kept[:-1]).all())
        if as_wide and len(kept) >= LEAST_BUSY * count:
            return self._idling(places, kept, attention)
        return self._selected(places, kept, attention)

    def _selected(self, places: Tensor, sentences: Tensor | None, attention: Tensor | None) -> FastState:
        """Rows at `places` (N',) now, of `sentences` (U',), which are copied; None: of all, in their order."""
        source = self.source if sentences is None else self.source.select(sentences)
        return FastState(self.position, self.past.select(places, sentences), source, attention)

    def _idling(self, places: Tensor, kept: Tensor, attention: Tensor | None) -> FastState:
        """Rows at `places` (N',) now, as many of each of the sentences `kept`, which rise, as there were."""
        count, width, _ = self.past.mask.shape
        every = torch.arange(count * width).view(count, width)
        busy = every.index_select(0, kept).view(-1)
        moved = every.index_copy(0, kept, places.view(-1, width)).view(-1)
        return FastState(self.position, self.past.select(moved, None), self.source, attention, busy)
