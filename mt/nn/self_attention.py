"""What a layer of a Transformer does with its own sequence: over all positions at once, or one more of them."""

from __future__ import annotations

from torch import Tensor

from mt.nn.attend import attend, attention_weights
from mt.nn.attention import KeysValues, Projections
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
        query, memory = self.everything(x)
        memory = self._placed(memory, places)
        return self._attend(query, places, memory, places, mask), memory

    def step(
        self, x: Tensor, past: KeysValues | None, places: Places, keys: Places, mask: Tensor | None = None
    ) -> tuple[Tensor, KeysValues]:
        """One position `x` (N, 1, D) at `places` after `past`; `keys` are the places of both, and `mask` theirs."""
        now = self._placed(self.keys_values(x), places)
        memory = now if past is None else past.append(now)
        return self._attend(self.queries(x), places, memory, keys, mask), memory

    def looked(self, x: Tensor, memory: KeysValues, places: Places, keys: Places, mask: Tensor | None) -> Tensor:
        """The weights (N, H, T, S) float32 with which `x` (N, T, D) at `places` attends to `memory` at `keys`."""
        query, mask, bias = self._asked(self.queries(x), places, keys, mask)
        weights = attention_weights(query, memory.key, mask, bias)
        return weights if mask is None else weights * mask

    def _placed(self, memory: KeysValues, places: Places) -> KeysValues:
        return KeysValues(self.positions.rotate(memory.key, places), memory.value)

    def _attend(self, query: Tensor, places: Places, memory: KeysValues, keys: Places, mask: Tensor | None) -> Tensor:
        query, mask, bias = self._asked(query, places, keys, mask)
        return self.merge(attend(query, memory.key, memory.value, mask, self.dropout, self.training, bias))

    def _asked(
        self, query: Tensor, places: Places, keys: Places, mask: Tensor | None
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """`query` (B, H, T, K) at `places`, the mask with the window in it, and the bias of scores."""
        query = self.positions.rotate(query, places)
        if self.window is not None:
            near = window_mask(places, keys, self.window)
            mask = near if mask is None else mask & near
        return query, mask, self.positions.bias(query, places, keys)
