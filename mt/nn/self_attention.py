"""What a layer of a Transformer does with its own sequence: over all positions at once, or one more of them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mt.nn.attention import KeysValues, Projections, attend, attention_weights
from mt.nn.masks import window_mask
from mt.nn.places import Places, Positions


class SelfAttention(Projections):
    """Attention of a sequence to itself, which knows of positions, and may reach only `window` of them each way."""

    def __init__(
        self,
        dim: int,
        heads: int,
        dropout: float = 0.0,
        kv_heads: int | None = None,
        bias: bool = True,
        positions: Positions | None = None,
        window: int | None = None,
    ) -> None:
        super().__init__(dim, heads, dropout, kv_heads, bias)
        self.positions = positions or Positions()
        self.window = window

    def forward(self, x: Tensor, places: Places, mask: Tensor) -> tuple[Tensor, KeysValues]:
        """Of `x` (B, T, D) at `places`, by `mask`: the output (B, T, D), and what later positions attend to."""
        memory = self._placed(x, places)
        return self._attend(x, places, memory, places, mask), memory

    def step(
        self, x: Tensor, past: KeysValues | None, places: Places, keys: Places, mask: Tensor | None = None
    ) -> tuple[Tensor, KeysValues]:
        """One position `x` (N, 1, D) at `places` after `past`; `keys` are the places of both, and `mask` theirs."""
        now = self._placed(x, places)
        memory = now if past is None else past.append(now)
        return self._attend(x, places, memory, keys, mask), memory

    def looked(self, x: Tensor, memory: KeysValues, places: Places, keys: Places, mask: Tensor | None) -> Tensor:
        """The weights (N, H, T, S) float32 with which `x` (N, T, D) at `places` attends to `memory` at `keys`."""
        query, mask, bias = self._asked(x, places, keys, mask)
        weights = attention_weights(query, memory.key, mask, bias)
        return weights if mask is None else weights * mask

    def _placed(self, x: Tensor, places: Places) -> KeysValues:
        memory = self.keys_values(x)
        return KeysValues(self.positions.rotate(memory.key, places), memory.value)

    def _attend(self, x: Tensor, places: Places, memory: KeysValues, keys: Places, mask: Tensor | None) -> Tensor:
        query, mask, bias = self._asked(x, places, keys, mask)
        return self._merge(attend(query, memory.key, memory.value, mask, self.dropout, self.training, bias))

    def _asked(
        self, x: Tensor, places: Places, keys: Places, mask: Tensor | None
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Queries (B, H, T, K) of `x` (B, T, D), the mask with the window in it, and the bias of scores."""
        query = self.positions.rotate(self._split(self.query(x)), places)
        if self.window is not None:
            near = window_mask(places, keys, self.window)
            mask = near if mask is None else mask & near
        return query, mask, self.positions.bias(query, places, keys)


@dataclass(frozen=True)
class Cell:
    """The state (N, D) of a recurrent unit."""

    value: Tensor

    def select(self, rows: Tensor) -> Cell:
        """Keep `rows`, in that order."""
        return Cell(self.value.index_select(0, rows))


class SimpleRecurrence(nn.Module):
    """SSRU in the place of self-attention (Kim et al. 2019, "From Research to Production and Back", section 3.2).

    c_t = f_t c_(t-1) + (1 - f_t) W x_t with f_t = sigmoid(W_f x_t + b_f); the output is ReLU(c_t). A step costs the
    same however much was read. It only looks back, so it needs neither positions nor masks.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.input = nn.Linear(dim, dim, bias=False)
        self.forget = nn.Linear(dim, dim)
        nn.init.xavier_uniform_(self.input.weight)
        nn.init.xavier_uniform_(self.forget.weight)
        nn.init.zeros_(self.forget.bias)

    def forward(self, x: Tensor, places: Places, mask: Tensor) -> tuple[Tensor, Cell]:  # noqa: ARG002
        """Of `x` (B, T, D): the output (B, T, D), and the last state."""
        forget = self.forget(x).sigmoid()
        fresh = (1 - forget) * self.input(x)
        cell, cells = torch.zeros_like(fresh[:, 0]), []
        for kept, new in zip(forget.unbind(1), fresh.unbind(1), strict=True):
            cell = kept * cell + new
            cells.append(cell)
        return torch.stack(cells, 1).relu(), Cell(cell)

    def step(self, x: Tensor, past: Cell | None, *_: object) -> tuple[Tensor, Cell]:
        """One position `x` (N, 1, D) after `past`: the output (N, 1, D), and the state after it."""
        x = x.squeeze(1)
        forget = self.forget(x).sigmoid()
        fresh = (1 - forget) * self.input(x)
        cell = fresh if past is None else forget * past.value + fresh
        return cell.relu().unsqueeze(1), Cell(cell)
