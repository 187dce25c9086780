"""The layers of the fast Transformer (mt/models/fast_model.py), made of trained ones.

The rows of N = U x W hypotheses are carried as M >= N, which is rounded up: see `mt.nn.packed.Packing`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mt.models.slots import LayerPast
from mt.nn.packed import Packing
from mt.nn.places import Places

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


class Block(NamedTuple):
    """S positions that can be attended to."""

    key: Tensor
    """(U x G, K, S)."""
    value: Tensor
    """(U x G, S, K)."""
    mask: Tensor
    """Added to the scores: see `Rows.mask`."""


@dataclass(frozen=True)
class Rows:
    """M rows of vectors: W positions of each of U sentences, and then some that mean nothing.

    H heads of queries share G of keys and values, as if there were G heads with H / G times as many positions.
    """

    sentences: int
    positions: int
    total: int
    heads: int
    groups: int
    width: int
    """K, of each head."""
    places: Places
    """Where the positions stand, (W,), (1,) or (U, W)."""

    def cut(self, x: Tensor, heads: int) -> Tensor:
        """`x` (M, P x H x K), which is P parts with H `heads` each: (P, U, H, W, K) float32."""
        count = self.sentences * self.positions
        own = x if count == self.total else x[:count]
        return own.float().view(self.sentences, self.positions, -1, heads, self.width).permute(2, 0, 3, 1, 4)

    def mask(self, mask: Tensor) -> Tensor:
        """What is added to the scores of all heads, of `mask` (U, W or 1, S): (U x G, H / G x W or 1, S)."""
        of_groups = mask[:, None].expand(-1, self.groups, -1, -1).flatten(0, 1)
        return of_groups if mask.size(1) == 1 else of_groups.repeat(1, self.heads // self.groups, 1)

    def attend(self, query: Tensor, *blocks: Block) -> tuple[Tensor, Tensor]:
        """Attention of `query` (U, H, W, K) to all of `blocks` together.

        Answers (M, D), with zeros in the rows that mean nothing, and the weights (U, H, W, S) of the first block.
        """
        query = query.reshape(self.sentences * self.groups, -1, query.size(-1))
        scores = [torch.baddbmm(block.mask, query, block.key) for block in blocks]
        weights = (torch.cat(scores, -1) if len(blocks) > 1 else scores[0]).softmax(-1)
        parts = torch.split(weights, [score.size(-1) for score in scores], -1) if len(blocks) > 1 else (weights,)
        answers = torch.bmm(parts[0], blocks[0].value)
        for part, block in zip(parts[1:], blocks[1:], strict=True):
            answers.baddbmm_(part, block.value)
        return self._laid_out(self._by_head(answers).transpose(1, 2)), self._by_head(parts[0])

    def _by_head(self, x: Tensor) -> Tensor:
        """(U x G, H / G x W, ...) -> (U, H, W, ...)."""
        return x.view(self.sentences, self.heads, self.positions, -1)

    def _laid_out(self, answers: Tensor) -> Tensor:
        """(U, W, H, K) -> (M, D)."""
        count = self.sentences * self.positions
        if count == self.total:
            return answers.reshape(count, -1)
        padded = answers.new_zeros(self.total, self.heads * answers.size(3))
        padded[:count].view(answers.shape).copy_(answers)
        return padded


def _scaled_query(attention: Any) -> tuple[Tensor, Tensor | None]:
    """The weight and the bias of an attention's queries, with the scale of its scores."""
    query, scale = attention.query, 1 / math.sqrt(attention.head_dim)
    return query.weight * scale, None if query.bias is None else query.bias * scale


class _SelfAttention:
    """Query, key and value as one product."""

    def __init__(self, attention: Any, residual: Any, packing: Packing) -> None:
        (weight, bias), rest = _scaled_query(attention), attention.key_value
        both = None if bias is None else torch.cat((bias, rest.bias))
        self.query_key_value = packing(torch.cat((weight, rest.weight)), both)
        self.dim = len(weight)
        self.rotate = attention.positions.rotate
        self.out = packing(attention.out.weight, attention.out.bias)
        self.residual = _Residual(residual)

    def project(self, x: Tensor, rows: Rows) -> tuple[Tensor, Tensor, Tensor]:
        """Of `x` (M, D) queries (U, H, W, K), and keys and values (U, G, W, K)."""
        projected = self.query_key_value(self.residual.before(x))
        (query,) = rows.cut(projected[:, : self.dim], rows.heads)
        key, value = rows.cut(projected[:, self.dim :], rows.groups)
        return self.rotate(query, rows.places), self.rotate(key, rows.places), value

    def add(self, x: Tensor, answers: Tensor) -> Tensor:
        """`x` (M, D) with what was attended to."""
        return self.residual.after(x, self.out(answers))

    def go_on(self, x: Tensor, rows: Rows, past: LayerPast, mask: Tensor, *before: Block) -> tuple[Tensor, Tensor]:
        """`x` (M, D) -> (M, D), after the new position is written into `past`, and the weights of the first block.

        What comes `before` the past is the first block, if there is any.
        """
        new, keys, values = past
        query, *found = self.project(x, rows)
        for slots, projected in zip(new, found, strict=True):
            slots.copy_(projected)
        answers, weights = rows.attend(query, *before, Block(keys, values, mask))
        return self.add(x, answers), weights


class FastEncoderLayer:
    """Self-attention and feed-forward: of an encoder, or of a language model, which goes on after its source."""

    def __init__(self, layer: Any, packing: Packing) -> None:
        self.attention = _SelfAttention(layer.attention, layer.attention_residual, packing)
        self.feed_forward = _FeedForward(layer.feed_forward, layer.feed_forward_residual, packing)

    def over(self, x: Tensor, rows: Rows, mask: Tensor) -> tuple[Tensor, Block]:
        """Of `x` (M, D), the source's positions, by `mask`: (M, D), and what was attended to."""
        query, key, value = self.attention.project(x, rows)
        block = Block(key.flatten(0, 1).transpose(1, 2), value.flatten(0, 1), mask)
        answers, _ = rows.attend(query, block)
        return self.feed_forward(self.attention.add(x, answers)), block

    def step(self, x: Tensor, rows: Rows, past: LayerPast, mask: Tensor, source: Block) -> tuple[Tensor, Tensor]:
        """As that of a decoder's layer."""
        x, weights = self.attention.go_on(x, rows, past, mask, source)
        return self.feed_forward(x), weights


class FastDecoderLayer:
    """Attention to the past and to the source, and feed-forward."""

    def __init__(self, layer: Any, packing: Packing) -> None:
        self.attention = _SelfAttention(layer.self_attention, layer.self_residual, packing)
        source = layer.source_attention
        self.query = packing(*_scaled_query(source))
        self.key_value = packing(source.key_value.weight, source.key_value.bias)
        self.out = packing(source.out.weight, source.out.bias)
        self.residual = _Residual(layer.source_residual)
        self.feed_forward = _FeedForward(layer.feed_forward, layer.feed_forward_residual, packing)

    def project(self, memory: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
        """Of `memory` (M, D), whose positions are those of the source, keys (U x G, K, S) and values (U x G, S, K)."""
        keys, values = rows.cut(self.key_value(memory), rows.groups)
        return keys.transpose(2, 3).flatten(0, 1), values.flatten(0, 1)

    def step(self, x: Tensor, rows: Rows, past: LayerPast, mask: Tensor, source: Block) -> tuple[Tensor, Tensor]:
        """`x` (M, D) -> (M, D), and the weights (U, H, W, S) on `source`.

        Attends by `mask` to `past`, into which it writes the new position, and to `source`.
        """
        x, _ = self.attention.go_on(x, rows, past, mask)
        (query,) = rows.cut(self.query(self.residual.before(x)), rows.heads)
        answers, weights = rows.attend(query, source)
        return self.feed_forward(self.residual.after(x, self.out(answers))), weights
