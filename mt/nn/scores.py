"""How well a decoder's state and a source position fit: the scores of attention before Transformers.

`keys` projects the source once for all target positions; `forward` compares queries (..., T, D) with keys (..., S, D),
leading dimensions alike, and gives scores (..., T, S).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from mt.nn.linear import Linear
from mt.nn.loops import StepLinear
from mt.nn.tanh import tanh


class Dot(nn.Module):
    """q . k (Luong et al. 2015, equation 8)."""

    def __init__(self, dim: int) -> None:  # noqa: ARG002 (the sign of SCORES)
        super().__init__()

    def keys(self, memory: Tensor) -> Tensor:
        """The encoder's states (..., S, D) as they are."""
        return memory

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """Compare `query` (..., T, D) with `keys` (..., S, D): (..., T, S)."""
        return query @ keys.transpose(-2, -1)


class General(Dot):
    """q . W k (Luong et al. 2015, equation 8)."""

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.key = Linear(dim, dim, bias=False)
        nn.init.xavier_uniform_(self.key.weight)

    def keys(self, memory: Tensor) -> Tensor:
        """The encoder's states (..., S, D), projected."""
        projected: Tensor = self.key(memory)
        return projected


class Additive(nn.Module):
    """v . tanh(W q + U k) (Bahdanau et al. 2014, appendix A.1.2).

    Luong et al.'s `concat`, v . tanh(W [q; k]) (2015, equation 8), is the same function: their W is [W U].
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.query = StepLinear(dim, dim, bias=False)
        self.key = Linear(dim, dim, bias=False)
        self.score = nn.Parameter(torch.empty(dim))
        nn.init.xavier_uniform_(self.query.weight)
        nn.init.xavier_uniform_(self.key.weight)
        nn.init.normal_(self.score, std=1 / math.sqrt(dim))

    def keys(self, memory: Tensor) -> Tensor:
        """The encoder's states (..., S, D), projected."""
        projected: Tensor = self.key(memory)
        return projected

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """Compare `query` (..., T, D) with `keys` (..., S, D): (..., T, S)."""
        summed = self.query(query).unsqueeze(-2) + keys.unsqueeze(-3)  # (..., T, S, D)
        scores: Tensor = tanh(summed) @ self.score.to(summed.dtype)
        return scores


SCORES: dict[str, type[Dot] | type[Additive]] = {
    "additive": Additive,
    "dot": Dot,
    "general": General,
    "concat": Additive,
}
