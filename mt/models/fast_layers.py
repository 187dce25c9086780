"""The layers of the fast Transformer (mt/models/fast.py), made of trained ones.

Rows of N hypotheses are carried as M >= N, which is rounded up: see `mt.nn.packed.rounded`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mt.models.fast_state import FastSource
from mt.models.slots import Past
from mt.nn.packed import Packed

Packing = Callable[[Tensor, "Tensor | None"], Packed]
Norm = Callable[[Tensor], Tensor]


def fast_norm(norm: nn.Module) -> Norm:
    """The function of `norm`, without the cost of calling a module."""
    if isinstance(norm, nn.LayerNorm):
        shape, eps, weight = list(norm.normalized_shape), norm.eps, norm.weight.detach()
        bias = None if norm.bias is None else norm.bias.detach()
        return lambda x: torch.layer_norm(x, shape, weight, bias, eps)
    return (lambda x: x) if isinstance(norm, nn.Identity) else norm


class _Residual:
    """The sum around a part, normed before the part or after the sum."""

    def __init__(self, residual: Any) -> None:
        self.pre: bool = residual.pre
        self.norm = fast_norm(residual.norm)

    def before(self, x: Tensor) -> Tensor:
        return self.norm(x) if self.pre else x

    def after(self, x: Tensor, part: Tensor) -> Tensor:
        return x + part if self.pre else self.norm(x + part)


class _FeedForward:
    """Two products, the first perhaps gated."""

    def __init__(self, feed_forward: Any, residual: Any, packing: Packing) -> None:
        self.inner = packing(feed_forward.inner.weight, feed_forward.inner.bias)
        self.outer = packing(feed_forward.outer.weight, feed_forward.outer.bias)
        self.activation, self.gated = feed_forward.activation, feed_forward.gated
        self.residual = _Residual(residual)

    def __call__(self, x: Tensor) -> Tensor:
        """(N, D) -> (N, D)."""
        return self.residual.after(x, self.outer(self._inner(self.residual.before(x))))

    def _inner(self, x: Tensor) -> Tensor:
        if self.activation is F.relu and not self.gated:
            return self.inner(x, relu=True)
        inner = self.inner(x)
        if not self.gated:
            out: Tensor = self.activation(inner)
            return out
        gate, linear = inner.chunk(2, dim=-1)
        gated: Tensor = self.activation(gate) * linear
        return gated


class _SelfAttention:
    """Query, key and value as one product."""

    def __init__(self, attention: Any, residual: Any, packing: Packing) -> None:
        scale = 1 / math.sqrt(attention.query.in_features // attention.heads)
        query, rest = attention.query, attention.key_value
        bias = None if query.bias is None else torch.cat((query.bias * scale, rest.bias))
        self.query_key_value = packing(torch.cat((query.weight * scale, rest.weight)), bias)
        self.out = packing(attention.out.weight, attention.out.bias)
        self.residual = _Residual(residual)

    def project(self, x: Tensor, rows: int, count: int, heads: int) -> Tensor:
        """Of the first `rows` of `x` (M, D) queries, keys and values (3, U, H, rows / U, K)."""
        projected = self.query_key_value(self.residual.before(x))[:rows].float()
        return projected.view(count, -1, 3, heads, x.size(1) // heads).permute(2, 0, 3, 1, 4)


class FastEncoderLayer:
    """Self-attention and feed-forward."""

    def __init__(self, layer: Any, packing: Packing) -> None:
        self.attention = _SelfAttention(layer.attention, layer.attention_residual, packing)
        self.feed_forward = _FeedForward(layer.feed_forward, layer.feed_forward_residual, packing)

    def __call__(self, x: Tensor, mask: Tensor, heads: int) -> Tensor:
        """`x` (M, D), of which B x S rows count, with `mask` (B, H, 1, S) -> (M, D)."""
        rows = len(mask) * mask.size(-1)
        query, key, value = self.attention.project(x, rows, len(mask), heads).flatten(1, 2).unbind(0)
        answer, _ = _attend(query, key.transpose(1, 2), value, mask, len(x))
        return self.feed_forward(self.attention.residual.after(x, self.attention.out(answer)))


class FastDecoderLayer:
    """Attention to the past and to the source, and feed-forward."""

    def __init__(self, layer: Any, packing: Packing) -> None:
        self.attention = _SelfAttention(layer.self_attention, layer.self_residual, packing)
        source = layer.source_attention
        scale = 1 / math.sqrt(source.query.in_features // source.heads)
        bias = None if source.query.bias is None else source.query.bias * scale
        self.query = packing(source.query.weight * scale, bias)
        self.key_value = packing(source.key_value.weight, source.key_value.bias)
        self.out = packing(source.out.weight, source.out.bias)
        self.residual = _Residual(layer.source_residual)
        self.feed_forward = _FeedForward(layer.feed_forward, layer.feed_forward_residual, packing)

    def project(self, memory: Tensor, rows: int, count: int, heads: int) -> tuple[Tensor, Tensor]:
        """Of the first `rows`, B x S, of `memory` (M, D) keys (B x H, K, S) and values (B x H, S, K)."""
        both = self.key_value(memory)[:rows].float().view(count, -1, 2, heads, memory.size(1) // heads)
        return both[:, :, 0].permute(0, 2, 3, 1).flatten(0, 1), both[:, :, 1].transpose(1, 2).flatten(0, 1)

    def attend_to_past(self, x: Tensor, past: Past, number: int, mask: Tensor) -> Tensor:
        """`x` (M, D) -> (M, D); writes the new position of layer `number` into `past`."""
        both, keys, values = past.slots.layers[number]
        count, heads = both.shape[1:3]
        width, length = past.mask.size(1), mask.size(-1)
        projected = self.attention.project(x, count * width, count, heads)
        both[:, :, :, past.used - width : past.used] = projected[1:]
        query = projected[0].flatten(0, 1)
        answer, _ = _attend(query, keys[:, :length].transpose(1, 2), values[:, :length], mask, len(x))
        return self.attention.residual.after(x, self.attention.out(answer))

    def attend_to_source(self, x: Tensor, rows: int, source: FastSource, number: int) -> tuple[Tensor, Tensor]:
        """`x` (M, D), of which `rows` count, -> (M, D), and the weights (U, H, W, S)."""
        keys, count = source.keys[number], len(source.mask)
        query = self.query(self.residual.before(x))[:rows].float()
        query = query.view(count, -1, len(keys) // count, keys.size(1)).transpose(1, 2).flatten(0, 1)
        answer, weights = _attend(query, keys, source.values[number], source.mask, len(x))
        return self.residual.after(x, self.out(answer)), weights


def _attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    """Attention of U x H heads: `query` (U x H, T, K), `key` (U x H, K, S), `value` (U x H, S, K).

    `mask` (U, H, 1 or T, S) is added to the scores. Answers (M, H x K), with zeros after U x T to `rows`, and weights
    (U, H, T, S).
    """
    (count, heads), (_, length, size) = mask.shape[:2], query.shape
    weights = torch.baddbmm(mask.flatten(0, 1), query, key).softmax(-1)
    answers = torch.bmm(weights, value).view(count, heads, length, size).transpose(1, 2)
    weights = weights.view(count, heads, length, -1)
    if rows == count * length:
        return answers.reshape(rows, -1), weights
    padded = answers.new_zeros(rows, heads * size)
    padded[: count * length].view(answers.shape).copy_(answers)
    return padded, weights
