"""Positions: how a model without recurrence learns the order of its input."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class SinusoidalPositions(nn.Module):
    """Fixed sines and cosines (Vaswani et al. 2017, section 3.5), interleaved: sine at even, cosine at odd places.

    Place 2k of position t holds sin(t / base^(2k/D)), place 2k + 1 the cosine. An odd D ends with a sine. The table
    grows as longer inputs come, so there is no greatest length.
    """

    table: Tensor

    def __init__(self, dim: int, base: float = 10_000.0) -> None:
        super().__init__()
        self.dim = dim
        self.base = base
        self.register_buffer("table", sinusoids(256, dim, base), persistent=False)

    def embed(self, x: Tensor, offset: int = 0) -> Tensor:
        """Add positions `offset`, `offset + 1`, ... to embeddings `x` (B, T, D)."""
        end = offset + x.size(1)
        if end > self.table.size(0):
            self.table = sinusoids(2 ** math.ceil(math.log2(end)), self.dim, self.base).to(self.table)
        return x + self.table[offset:end].to(x.dtype)


def sinusoids(length: int, dim: int, base: float = 10_000.0) -> Tensor:
    """The table (length, dim) of the class above, computed in float64 and rounded once."""
    position = torch.arange(length, dtype=torch.float64).unsqueeze(1)
    frequency = base ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    angle = position * frequency  # (length, ceil(dim / 2))
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1)[:, :dim].float()


POSITIONS = {"sinusoidal": SinusoidalPositions}
