"""The table of sines and cosines, which grows as longer inputs come."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from mt.nn.places import Places


class Sinusoids(nn.Module):
    """Rows of `sinusoids`; it is computed, never saved, and there is no greatest length."""

    table: Tensor

    def __init__(self, dim: int, base: float = 10_000.0) -> None:
        super().__init__()
        self.dim = dim
        self.base = base
        self.register_buffer("table", sinusoids(256, dim, base), persistent=False)

    def forward(self, places: Places) -> Tensor:
        """The rows at `places`: (T, dim) or (B, T, dim) float32."""
        if places.end > self.table.size(0):
            self.table = sinusoids(2 ** math.ceil(math.log2(places.end)), self.dim, self.base).to(self.table)
        return self.table[places.at].float()


def sinusoids(length: int, dim: int, base: float = 10_000.0) -> Tensor:
    """The table (length, dim), computed in float64 and rounded once (Vaswani et al. 2017, section 3.5).

    Place 2k of position t holds sin(t / base^(2k/dim)), place 2k + 1 the cosine. An odd `dim` ends with a sine.
    """
    position = torch.arange(length, dtype=torch.float64).unsqueeze(1)
    frequency = base ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    angle = position * frequency  # (length, ceil(dim / 2))
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1)[:, :dim].float()
