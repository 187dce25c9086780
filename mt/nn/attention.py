"""Attention of several heads (Vaswani et al. 2017, section 3.2.2): its projections, and what they keep of a source."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mt.nn.attend import attend, attention_weights
from mt.nn.linear import Linear, into_heads, of_heads


@dataclass(frozen=True)
class KeysValues:
    """Projected keys and values, each (B, G, S, K)."""

    key: Tensor
    value: Tensor

    def append(self, later: KeysValues) -> KeysValues:
        """Add positions at the end."""
        return KeysValues(torch.cat((self.key, later.key), 2), torch.cat((self.value, later.value), 2))

    def select(self, rows: Tensor) -> KeysValues:
        """Keep `rows` of the first dimension, in that order."""
        return KeysValues(self.key.index_select(0, rows), self.value.index_select(0, rows))


class Projections(nn.Module):
    """Attention with H heads of width K = D / H: queries, keys and values, cut into heads, and the output.

    With `kv_heads` G below H, H / G heads of queries share one of keys and values (Ainslie et al. 2023, section 2.2).
    """

    def __init__(
        self, dim: int, heads: int, dropout: float = 0.0, kv_heads: int | None = None, bias: bool = True
    ) -> None:
        super().__init__()
        self.heads = heads
        self.kv_heads = kv_heads or heads
        self.head_dim = dim // heads
        self.dropout = dropout
        self.query = Linear(dim, dim, bias=bias)
        self.key_value = Linear(dim, 2 * self.head_dim * self.kv_heads, bias=bias)
        self.out = Linear(dim, dim, bias=bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Glorot and Bengio 2010; biases 0.

        Queries, keys and values begin as one D x 3D matrix would, a square root of 2 smaller than each by itself (as
        in torch.nn.MultiheadAttention): attention that begins flatter learns sooner where to look, and with post-norm
        learns it at all.
        """
        key, value = self.key_value.weight.chunk(2)
        for weight in (self.query.weight, key, value):
            nn.init.xavier_uniform_(weight, gain=2**-0.5)
        nn.init.xavier_uniform_(self.out.weight)
        for linear in (self.query, self.key_value, self.out):
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)

    def queries(self, x: Tensor) -> Tensor:
        """Of `x` (B, T, D): (B, H, T, K)."""
        (query,) = into_heads(x, self.query.weight, self.query.bias, self.heads)
        return query

    def keys_values(self, x: Tensor) -> KeysValues:
        """Project `x` (B, S, D) once, for any number of queries."""
        return KeysValues(*into_heads(x, self.key_value.weight, self.key_value.bias, self.kv_heads, self.kv_heads))

    def everything(self, x: Tensor) -> tuple[Tensor, KeysValues]:
        """The queries, and the keys and values, of `x` (B, T, D), in one product."""
        layers = self.query, self.key_value
        weight = torch.cat([layer.weight for layer in layers])
        bias = None if self.query.bias is None else torch.cat([layer.bias for layer in layers])
        query, key, value = into_heads(x, weight, bias, self.heads, self.kv_heads, self.kv_heads)
        return query, KeysValues(key, value)

    def merge(self, x: Tensor) -> Tensor:
        """What heads found, (B, H, T, K) -> (B, T, D)."""
        return of_heads(x, self.out.weight, self.out.bias)


class MultiHeadAttention(Projections):
    """Attention to another sequence."""

    def forward(self, x: Tensor, memory: KeysValues, mask: Tensor | None) -> Tensor:
        """Attend from `x` (B, T, D) to `memory`; (B, T, D)."""
        query = self.queries(x)
        return self.merge(attend(query, memory.key, memory.value, mask, self.dropout, self.training))

    def weights(self, x: Tensor, memory: KeysValues, mask: Tensor | None) -> Tensor:
        """The weights (B, H, T, S) float32 with which `forward` attends in eval mode; 0 where `mask` is False."""
        weights = attention_weights(self.queries(x), memory.key, mask, None)
        return weights if mask is None else weights * mask
