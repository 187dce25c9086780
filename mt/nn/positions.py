"""Positions: how a model without recurrence learns the order of its input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from mt.errors import DataError
from mt.nn.places import Places, Positions
from mt.nn.relative_positions import AlibiPositions, BucketPositions, RelativePositions, RotaryPositions
from mt.nn.sinusoids import Sinusoids


class SinusoidalPositions(Positions):
    """Fixed sines and cosines (Vaswani et al. 2017, section 3.5), interleaved: sine at even, cosine at odd places."""

    def __init__(self, dim: int, base: float = 10_000.0) -> None:
        super().__init__()
        self.table = Sinusoids(dim, base)

    def embed(self, x: Tensor, places: Places) -> Tensor:
        """Add the positions to embeddings `x` (B, T, D)."""
        table: Tensor = self.table(places)
        return x + table.to(x.dtype)


class LearnedPositions(Positions):
    """A learned vector for each position (Gehring et al. 2017, section 3.1), of which there are `count`."""

    def __init__(self, dim: int, count: int) -> None:
        super().__init__()
        self.vectors = nn.Parameter(torch.empty(count, dim))
        nn.init.normal_(self.vectors, std=dim**-0.5)

    def embed(self, x: Tensor, places: Places) -> Tensor:
        """Add the positions to embeddings `x` (B, T, D).

        Raises:
            DataError: a position has no vector.
        """
        count = self.vectors.size(0)
        # Of a batch of sources of several lengths the longest row may have left already: only then the device is asked.
        if places.end > count and (places.at.dim() == 1 or int(places.at.max()) >= count):
            raise DataError(
                f"A sentence of {places.end} positions is longer than model.max_positions ({count}): filter or split "
                "such sentences, limit decode.max_source_length and decode.max_length, or train with more positions."
            )
        return x + self.vectors[places.at].to(x.dtype)


@dataclass(frozen=True)
class Sizes:
    """What positions are made from."""

    dim: int
    heads: int
    base: float
    """Wavelengths of sinusoids and of rotations run from 2 pi to 2 pi `base`."""
    count: int
    """Learned positions."""
    bidirectional: bool
    """Whether what comes later is seen too: an encoder."""


class Kind(NamedTuple):
    """The part of a kind of positions that works on embeddings, and that which works inside each layer's attention."""

    on_embeddings: Callable[[Sizes], Positions]
    in_attention: Callable[[Sizes], Positions]


def _nowhere(sizes: Sizes) -> Positions:  # noqa: ARG001
    return Positions()


POSITIONS: dict[str, Kind] = {
    "sinusoidal": Kind(lambda sizes: SinusoidalPositions(sizes.dim, sizes.base), _nowhere),
    "learned": Kind(lambda sizes: LearnedPositions(sizes.dim, sizes.count), _nowhere),
    "rotary": Kind(_nowhere, lambda sizes: RotaryPositions(sizes.dim // sizes.heads, sizes.base)),
    "alibi": Kind(_nowhere, lambda sizes: AlibiPositions(sizes.heads)),
    "relative": Kind(_nowhere, lambda sizes: RelativePositions(sizes.dim // sizes.heads)),
    "buckets": Kind(_nowhere, lambda sizes: BucketPositions(sizes.heads, sizes.bidirectional)),
    "none": Kind(_nowhere, _nowhere),
}
