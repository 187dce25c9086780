"""Where tokens stand, and the three ways in which a model may be told."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Places:
    """Positions of tokens, numbered from 0."""

    at: Tensor
    """(T,) alike in all rows, or (B, T); int64."""
    end: int
    """Greater than all of them; known without asking the device."""

    @classmethod
    def following(cls, offset: int, count: int, device: torch.device) -> Places:
        """`offset`, `offset + 1`, ...: `count` of them."""
        return cls(torch.arange(offset, offset + count, device=device), offset + count)

    def distance(self, keys: Places) -> Tensor:
        """Of `keys` from here: (T, S) or (B, T, S), negative where a key came before."""
        return keys.at.unsqueeze(-2) - self.at.unsqueeze(-1)


class Positions(nn.Module):
    """Three hooks, each of which does nothing unless a kind of positions needs it."""

    def embed(self, x: Tensor, places: Places) -> Tensor:  # noqa: ARG002
        """What the stack reads, of embeddings `x` (B, T, D)."""
        return x

    def rotate(self, x: Tensor, places: Places) -> Tensor:  # noqa: ARG002
        """What attention compares, of queries or keys `x` (B, H, T, K)."""
        return x

    def bias(self, query: Tensor, places: Places, keys: Places) -> Tensor | None:  # noqa: ARG002
        """What is added to the scores of `query` (B, H, T, K) with `keys`, as (B, H, T, S) or (H, T, S); None: 0."""
        return None
