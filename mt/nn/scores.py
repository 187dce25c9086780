"""How well a decoder's state and a source position fit: the scores of attention before Transformers.

`keys` projects the source once for all target positions; `forward` compares queries (..., T, D) with keys (..., S, D),
leading dimensions alike, and gives scores (..., H, T, S). Each of H heads compares D / H of the numbers.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from mt.nn.linear import Linear
from mt.nn.loops import StepLinear
from mt.nn.small_products import product_of_any_size, widened
from mt.nn.tanh import tanh


def by_head(x: Tensor, heads: int) -> Tensor:
    """(..., S, D) -> (..., H, S, D / H)."""
    return x.view(*x.shape[:-1], heads, -1).transpose(-2, -3)


class Dot(nn.Module):
    """q . k (Luong et al. 2015, equation 8)."""

    def __init__(self, dim: int, heads: int = 1) -> None:  # noqa: ARG002 (the sign of SCORES)
        super().__init__()
        self.heads = heads

    def keys(self, memory: Tensor) -> Tensor:
        """The encoder's states (..., S, D)."""
        return widened(memory)

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """Compare `query` (..., T, D) with `keys` (..., S, D): (..., H, T, S)."""
        query, keys = by_head(query, self.heads), by_head(keys, self.heads)
        return product_of_any_size(query, keys.transpose(-2, -1))


class General(Dot):
    """q . W k (Luong et al. 2015, equation 8)."""

    def __init__(self, dim: int, heads: int = 1) -> None:
        super().__init__(dim, heads)
        self.key = Linear(dim, dim, bias=False)
        nn.init.xavier_uniform_(self.key.weight)

    def keys(self, memory: Tensor) -> Tensor:
        """The encoder's states (..., S, D), projected."""
        return widened(self.key(memory))


class Additive(nn.Module):
    """v . tanh(W q + U k) (Bahdanau et al. 2014, appendix A.1.2).

    Luong et al.'s `concat`, v . tanh(W [q; k]) (2015, equation 8), is the same function: their W is [W U].
    """

    def __init__(self, dim: int, heads: int = 1) -> None:
        super().__init__()
        self.heads = heads
        self.query = StepLinear(dim, dim, bias=False)
        self.key = Linear(dim, dim, bias=False)
        self.score = nn.Parameter(torch.empty(dim))
        nn.init.xavier_uniform_(self.query.weight)
        nn.init.xavier_uniform_(self.key.weight)
        nn.init.normal_(self.score, std=1 / math.sqrt(dim // heads))

    def keys(self, memory: Tensor) -> Tensor:
        """The encoder's states (..., S, D), projected."""
        return widened(self.key(memory))

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """Compare `query` (..., T, D) with `keys` (..., S, D): (..., H, T, S)."""
        compared = tanh(widened(self.query(query)).unsqueeze(-2) + keys.unsqueeze(-3))  # (..., T, S, D)
        if self.heads == 1:
            return product_of_any_size(compared, self.score).unsqueeze(-3)
        each: Tensor = torch.block_diag(*self.score.view(self.heads, 1, -1))  # type: ignore[no-untyped-call]
        return torch.movedim(product_of_any_size(compared, each.t()), -1, -3)  # (H, D): each row has one head's numbers


SCORES: dict[str, type[Dot] | type[Additive]] = {
    "additive": Additive,
    "dot": Dot,
    "general": General,
    "concat": Additive,
}
