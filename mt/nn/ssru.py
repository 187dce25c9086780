"""The simpler simple recurrent unit: what a layer of a decoder may do with its own sequence without attending to it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mt.nn.linear import Linear
from mt.nn.places import Places


@dataclass(frozen=True)
class SSRUState:
    """What the unit remembers."""

    value: Tensor
    """c, (N, D)."""

    def select(self, rows: Tensor) -> SSRUState:
        """Keep `rows`, in that order."""
        return SSRUState(self.value.index_select(0, rows))


class SSRU(nn.Module):
    """In the place of self-attention (Kim et al. 2019, "From Research to Production and Back", section 3.2).

    c_t = f_t c_(t-1) + (1 - f_t) W x_t with f_t = sigmoid(W_f x_t + b_f); the output is ReLU(c_t). A step costs the
    same however much was read. It only looks back, so it needs neither positions nor masks.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.input = Linear(dim, dim, bias=False)
        self.forget = Linear(dim, dim)
        nn.init.xavier_uniform_(self.input.weight)
        nn.init.xavier_uniform_(self.forget.weight)
        nn.init.zeros_(self.forget.bias)

    def forward(self, x: Tensor, places: Places, mask: Tensor) -> tuple[Tensor, SSRUState]:  # noqa: ARG002
        """Of `x` (B, T, D): the output (B, T, D), and the last state."""
        forget = self.forget(x).sigmoid()
        fresh = (1 - forget) * self.input(x)
        cell, cells = torch.zeros_like(fresh[:, 0]), []
        for kept, new in zip(forget.unbind(1), fresh.unbind(1), strict=True):
            cell = kept * cell + new
            cells.append(cell)
        return torch.stack(cells, 1).relu(), SSRUState(cell)

    def step(self, x: Tensor, past: SSRUState | None, *_: object) -> tuple[Tensor, SSRUState]:
        """One position `x` (N, 1, D) after `past`: the output (N, 1, D), and the state after it."""
        x = x.squeeze(1)
        forget = self.forget(x).sigmoid()
        fresh = (1 - forget) * self.input(x)
        cell = fresh if past is None else forget * past.value + fresh
        return cell.relu().unsqueeze(1), SSRUState(cell)
