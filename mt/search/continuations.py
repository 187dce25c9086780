"""The best continuations of a sentence's hypotheses, found without looking at each of them twice.

`torch.topk` promises nothing about equals, which would make results depend on the machine: here the lower hypothesis
comes first, then the lower token.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

BLOCKS = (64, 100, 40, 80, 50, 32)
"""Neighbouring entries of the vocabulary of which the largest is found first: maxima are several times faster than a
top-k over all. The first number that divides the vocabulary saves a copy of it."""


def best_continuations(log_probs: Tensor, sums: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The `count` best of each sentence's hypotheses continued by each token, best first; fewer where fewer exist.

    Args:
        log_probs: (B x W, V) of the next token; NaN counts as -inf.
        sums: (B, W) of each hypothesis so far.

    Returns:
        sums, hypotheses (0 to W - 1) and tokens, each (B, C).
    """
    sentences, width = sums.shape
    vocab = log_probs.size(1)
    size = next((size for size in BLOCKS if vocab % size == 0), BLOCKS[0])
    if vocab % size:
        log_probs = F.pad(log_probs, (0, -vocab % size), value=-math.inf)
    blocks = log_probs.reshape(sentences, -1, size)  # (B, W x blocks of a row, block)
    chosen = _best_blocks(blocks, sums, count + 1)
    best, order = _sums_in(blocks, sums, chosen).topk(min(count + 1, chosen.size(1) * size))
    places = chosen.gather(1, order // size) * size + order % size  # into W x padded V
    tied = (best[:, 1:] == best[:, :-1]) & best[:, 1:].isfinite()
    best, places = best[:, : min(count, width * vocab)], places[:, : min(count, width * vocab)]
    if bool(tied.any()):
        rows = tied.any(1)
        best[rows], places[rows] = _by_sorting(blocks[rows], sums[rows], best.size(1))
    padded = log_probs.size(1)
    return best, places // padded, (places % padded).clamp_(max=vocab - 1)  # in the padding the sum is -inf


def _by_sorting(blocks: Tensor, sums: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` best sums and their places (B, count), of equals the first."""
    every = torch.arange(blocks.size(1), device=sums.device).expand(len(sums), -1)
    best, places = _sums_in(blocks, sums, every).sort(dim=1, descending=True, stable=True)
    return best[:, :count], places[:, :count]


def _best_blocks(blocks: Tensor, sums: Tensor, count: int) -> Tensor:
    """The blocks (B, C) of each sentence that hold its `count` best."""
    sentences, width = sums.shape
    maxima = _maxima(blocks).view(sentences, width, -1) + sums[:, :, None]
    return maxima.flatten(1).topk(min(count, blocks.size(1)), sorted=False).indices


def _maxima(blocks: Tensor) -> Tensor:
    """The largest (B, C) of each of `blocks` (B, C, block); NaN, which torch puts first, comes last."""
    maxima = blocks.amax(2)
    if bool(maxima.isnan().any()):
        return blocks.nan_to_num(-math.inf, math.inf, -math.inf).amax(2)
    return maxima


def _sums_in(blocks: Tensor, sums: Tensor, chosen: Tensor) -> Tensor:
    """The sums (B, C x block) in the blocks `chosen` (B, C)."""
    sentences, count, size = blocks.shape
    first = torch.arange(0, sentences * count, count, device=sums.device)[:, None]
    inside = blocks.view(-1, size).index_select(0, (chosen + first).view(-1)).view(sentences, -1, size)
    so_far = sums.gather(1, chosen // (count // sums.size(1)))
    return inside.add_(so_far[:, :, None]).nan_to_num_(-math.inf, None, -math.inf).flatten(1)


def largest(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The `k` largest of each row of `values` (N, V), of equals the first, in the order of their places; and these."""
    k = min(k, values.size(1))
    among = _contenders(values, k + 1)
    found, order = values.gather(1, among).topk(min(k + 1, among.size(1)))
    places = among.gather(1, order[:, :k])
    if order.size(1) > k and bool(((found[:, k - 1] == found[:, k]) & found[:, k].isfinite()).any()):
        places = values.sort(dim=1, descending=True, stable=True).indices[:, :k]
    places = places.sort(dim=1).values
    return values.gather(1, places), places


def _contenders(values: Tensor, k: int) -> Tensor:
    """Places (N, M) that hold the `k` largest of each row of `values` (N, V).

    Of a wide row these are the blocks with the `k` largest maxima, and what is left beside whole blocks: finding maxima
    is several times faster than a top-k over V.
    """
    count, width = values.shape
    rest = torch.arange(width - width % BLOCKS[0], width, device=values.device)
    if width <= 2 * k * BLOCKS[0]:
        return torch.arange(width, device=values.device).expand(count, width)
    maxima = values[:, : width - len(rest)].reshape(count, -1, BLOCKS[0]).amax(2)
    blocks = maxima.topk(k, sorted=False).indices
    inside = blocks[:, :, None] * BLOCKS[0] + torch.arange(BLOCKS[0], device=values.device)
    return torch.cat((inside.flatten(1), rest.expand(count, -1)), 1)
