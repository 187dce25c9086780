"""Multi-head scaled dot-product attention (Vaswani et al. 2017, section 3.2).

Masks are boolean, True = may attend, and broadcast to (B, H, T, S).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mt.nn.dropout import dropout


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, p: float, training: bool) -> Tensor:
    """softmax(Q K^T / sqrt(K)) V: query (B, H, T, K), key and value (B, H, S, K) -> (B, H, T, K).

    A row that may attend nowhere gets zeros, and no gradient. `p` is the dropout on the attention weights.
    """
    kernel = _attend_plainly if query.is_cpu else _attend_fused
    return kernel(query, key, value, mask, p if training else 0.0)


def _attend_fused(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, p: float) -> Tensor:
    if mask is None:
        return F.scaled_dot_product_attention(query, key, value, dropout_p=p)
    # torch's kernels disagree about rows that may attend nowhere: let these attend everywhere, and drop what they get.
    rows = mask.any(dim=-1, keepdim=True)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask | ~rows, dropout_p=p) * rows


def _attend_plainly(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, p: float) -> Tensor:
    # On a CPU at a sentence's lengths the plain products are several times faster, forward and backward, than torch's
    # fused kernel, and float32 beats bfloat16: the matrices are too small for its units.
    with torch.autocast("cpu", enabled=False):
        scores = (query.float() * (1 / math.sqrt(query.size(-1)))) @ key.float().transpose(-2, -1)
        if mask is not None:
            scores += mask_bias(mask)
        weights = scores.softmax(dim=-1)
        if mask is not None:
            weights = _zero_empty_rows(weights, mask)
        return (dropout(weights, p, training=True) @ value.float()).to(query.dtype)


def mask_bias(mask: Tensor) -> Tensor:
    """What is added to scores: 0 where `mask` is True, else the least finite float, so that no row can become NaN."""
    least = torch.finfo(torch.float32).min
    return torch.zeros(mask.shape, device=mask.device).masked_fill_(~mask, least)


def _zero_empty_rows(weights: Tensor, mask: Tensor) -> Tensor:
    rows = mask.any(dim=-1, keepdim=True)
    return weights if bool(rows.all()) else weights * rows


def causal_mask(length: int, device: torch.device) -> Tensor:
    """(T, T) mask by which each position may attend to itself and to earlier ones."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()


@dataclass(frozen=True)
class KeysValues:
    """Projected keys and values, each (B, H, S, K)."""

    key: Tensor
    value: Tensor

    def append(self, later: KeysValues) -> KeysValues:
        """Add positions at the end."""
        return KeysValues(torch.cat((self.key, later.key), 2), torch.cat((self.value, later.value), 2))

    def select(self, rows: Tensor) -> KeysValues:
        """Keep `rows` of the first dimension, in that order."""
        return KeysValues(self.key.index_select(0, rows), self.value.index_select(0, rows))


class MultiHeadAttention(nn.Module):
    """Attention with H heads of width K = D / H; query, key and value are projected from D to D and cut into heads."""

    def __init__(self, dim: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.query = nn.Linear(dim, dim)
        self.key_value = nn.Linear(dim, 2 * dim)
        self.out = nn.Linear(dim, dim)
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
            nn.init.zeros_(linear.bias)

    def keys_values(self, x: Tensor) -> KeysValues:
        """Project `x` (B, S, D) once, for any number of queries."""
        key, value = self.key_value(x).chunk(2, dim=-1)
        return KeysValues(self._split(key), self._split(value))

    def forward(self, x: Tensor, memory: KeysValues, mask: Tensor | None) -> Tensor:
        """Attend from `x` (B, T, D) to `memory`; (B, T, D)."""
        query = self._split(self.query(x))
        return self._merge(attend(query, memory.key, memory.value, mask, self.dropout, self.training))

    def weights(self, x: Tensor, memory: KeysValues, mask: Tensor | None) -> Tensor:
        """The weights (B, H, T, S) float32 with which `forward` attends in eval mode; 0 where `mask` is False."""
        query = self._split(self.query(x)).float()
        scores = query @ memory.key.float().transpose(-2, -1) / math.sqrt(query.size(-1))
        if mask is None:
            return scores.softmax(dim=-1)
        return (scores + mask_bias(mask)).softmax(dim=-1) * mask

    def _split(self, x: Tensor) -> Tensor:
        batch, length, dim = x.size()
        return x.view(batch, length, self.heads, dim // self.heads).transpose(1, 2)  # (B, T, D) -> (B, H, T, K)

    def _merge(self, x: Tensor) -> Tensor:
        out: Tensor = self.out(x.transpose(1, 2).flatten(2))  # (B, H, T, K) -> (B, T, D)
        return out
