"""The past of a beam search without reorders: each position that any hypothesis read keeps its slot.

The W hypotheses of a sentence share the sentence's slots; which of them a hypothesis descends from is a mask. So a
reorder moves a row of the mask where it would have moved all keys and values, and a sentence's hypotheses attend in one
product. Slots that no living hypothesis descends from are left out whenever the rest has to be copied anyway.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from mt.nn.attend import WIDE

NEVER = -1e9
"""Added to a score that must not count: its weight becomes exactly 0."""

ROOM = 10
"""Free slots after each copy, at least: two positions of a beam of 5; or more where a step takes more."""


LayerPast = tuple[Tensor, Tensor, Tensor]
"""Of a layer: the slots that a step writes (2, U, G, W, K), then keys (U x G, K, C) and values (U x G, C, K)."""


class Slots:
    """Keys and values of L layers, U sentences and G heads in C slots, written in place; each holds some numbers."""

    def __init__(self, data: Tensor, filled: int) -> None:
        """`data` (L, 2, U, G, C, K), of which the first `filled` slots mean something."""
        self.data = data
        self.capacity = data.size(4)
        self.filled = filled

    def copy(self, sentences: Tensor, places: Tensor, room: int) -> Slots:
        """New slots with those at `places` (U', A) of `sentences` (U',), and `room` more."""
        layers, both, _, groups, capacity, width = self.data.shape
        wanted = F.pad(places, (0, room))[:, None]
        rows = (sentences[:, None, None] * groups + torch.arange(groups)[:, None]) * capacity + wanted
        # In three dimensions torch copies whole vectors; in more, which says the same, a third as fast.
        kept = self.data.view(layers * both, -1, width).index_select(1, rows.view(-1))
        return Slots(kept.view(layers, both, *rows.shape, width), places.size(1))


@dataclass(frozen=True)
class Past:
    """What the rows of a state descend from: the first `used` of C slots, as the mask says.

    All C are attended to: products read what lies together faster than less that does not.
    """

    slots: Slots
    used: int
    mask: Tensor
    """(U, W, C): 0 at a row's own past, `NEVER` elsewhere."""

    @classmethod
    def start(cls, layers: int, sentences: int, groups: int, width: int) -> Past:
        """Of a row a sentence that has read nothing."""
        data = torch.zeros(layers, 2, sentences, groups, WIDE, width)
        return cls(Slots(data, 0), 0, torch.full((sentences, 1, WIDE), NEVER))

    @property
    def width(self) -> int:
        """W."""
        return self.mask.size(1)

    @property
    def has_room(self) -> bool:
        """Whether there are slots for one more position of each row that nobody else writes."""
        return self.slots.filled == self.used and self.used + self.width <= self.slots.capacity

    def copied(self) -> Past:
        """The same past in slots of its own, with room."""
        return self._copied(torch.arange(len(self.mask)))

    def grown(self) -> Past:
        """With the slots of a position more, which each row sees of itself alone; they are to be written."""
        mask = self.mask.clone()
        self.slots.filled += self.width
        mask[:, :, self.used : self.slots.filled].diagonal(0, 1, 2).zero_()
        return Past(self.slots, self.slots.filled, mask)

    def layers(self) -> Iterator[LayerPast]:
        """Views of each layer: the slots of the last position, and all."""
        data = self.slots.data
        new = data[:, :, :, :, self.used - self.width : self.used].unbind(0)
        keys, values = data.flatten(2, 3).unbind(1)
        return zip(new, keys.transpose(2, 3).unbind(0), values.unbind(0), strict=True)

    def select(self, rows: Tensor, sentences: Tensor | None) -> Past:
        """Keep `rows` (N',), as many of each of `sentences` (U',), one after another; None: of all, in their order."""
        count = len(self.mask) if sentences is None else len(sentences)
        mask = self.mask.flatten(0, 1).index_select(0, rows)
        past = Past(self.slots, self.used, mask.view(count, len(rows) // max(count, 1), self.slots.capacity))
        return past if sentences is None else past._copied(sentences)

    def _copied(self, sentences: Tensor) -> Past:
        """`mask` is of `sentences` (U',) already; what none of their rows descends from is left out."""
        alive = (self.mask == 0).any(1)  # (U', C)
        size = int(alive.sum(1).max()) if alive.numel() else 0
        places = alive.int().argsort(dim=1, descending=True, stable=True)[:, :size]
        mask = self.mask.gather(2, places[:, None].expand(-1, self.width, -1))
        room = max(ROOM, self.width)
        room += -(size + room) % 8  # so products are faster
        return Past(self.slots.copy(sentences, places, room), size, F.pad(mask, (0, room), value=NEVER))
