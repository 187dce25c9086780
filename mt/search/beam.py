"""Beam search over a step function, all sentences and hypotheses of a batch at once.

Letters: B sentences still searched, W hypotheses of each (1 at the start, then up to the beam size), N = B x W rows of
the state, C candidates of a sentence at a step, V entries of the vocabulary.

**A step.** Each sentence's candidates are its hypotheses, each continued by each token, in the order of their summed
log-probabilities (equals: the lower hypothesis first, then the lower token). Those of the first `beam_size` that end
finish; the first `beam_size` that do not end go on. With a beam of 1 this is greedy search.

**The end** of a sentence comes when one of these holds:

- `beam_size` hypotheses have finished;
- its length limit is reached, or no token has any probability left: where fewer than `n_best` have finished, those
  that were being continued fill up, after the finished ones and marked `truncated`;
- no hypothesis that goes on can still enter the `n_best`, which changes no result and only saves steps. A score is
  s / p(L), s <= 0 the summed log-probability and p the penalty of length L. Further tokens only lower s, and no p falls
  with L, so that nothing that grows from a hypothesis can score above s / p(limit + 1). For `none`, and for alpha 0,
  this bound is s itself: the search ends when the n-th best finished sum is not below the best one that goes on. For
  `average` it is s / (limit + 1)^alpha, for `wu` s / ((6 + limit) / 6)^alpha: there a longer output could still win,
  and the limit says how long it can get.

A sentence that has ended leaves the state at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from mt.search.config import DecodeConfig
from mt.search.hypothesis import Hypothesis, Symbols
from mt.search.options import LineOptions
from mt.search.penalties import PENALTIES
from mt.search.trace import Trace
from mt.seq2seq import StateT, Step

BLOCK = 64
"""Neighbouring entries of the vocabulary of which the largest is found first."""


def beam_search(
    step: Step[StateT],
    state: StateT,
    limits: Tensor,
    symbols: Symbols,
    config: DecodeConfig,
    lines: Sequence[LineOptions] = (),  # noqa: ARG001 - what they wish is in the step
) -> list[list[Hypothesis]]:
    """Find the `config.n_best` best targets of each sentence; see `mt.search.guide.Search`."""
    beam = _Beam(limits, symbols, config)
    while beam.tokens.numel():
        log_probs, state = step(beam.tokens, state)
        rows = beam.advance(log_probs)
        if rows is not None and len(rows):
            state = state.select(rows)
    return beam.trace.best(len(limits), config.n_best)


def largest(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The `k` largest of each row of `values` (N, V) and their places, in the order of the places; of equals the first.

    `torch.topk` promises nothing about equals, which would make results depend on the machine.
    """
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
    rest = torch.arange(width - width % BLOCK, width, device=values.device)
    if width <= 2 * k * BLOCK:
        return torch.arange(width, device=values.device).expand(count, width)
    maxima = values[:, : width - len(rest)].reshape(count, -1, BLOCK).amax(2)
    blocks = maxima.topk(k, sorted=False).indices
    inside = blocks[:, :, None] * BLOCK + torch.arange(BLOCK, device=values.device)
    return torch.cat((inside.flatten(1), rest.expand(count, -1)), 1)


class _Candidates(NamedTuple):
    """Continuations of each sentence's hypotheses, best first; all (B, C)."""

    sums: Tensor
    rows: Tensor
    tokens: Tensor

    def at(self, places: Tensor) -> _Candidates:
        """Those at `places` (B, C')."""
        return _Candidates(self.sums.gather(1, places), self.rows.gather(1, places), self.tokens.gather(1, places))


class _Beam:
    """The hypotheses of all sentences that are still searched."""

    def __init__(self, limits: Tensor, symbols: Symbols, config: DecodeConfig) -> None:
        self.symbols = symbols
        self.size = config.beam_size
        self.trace = Trace()
        self._penalty = PENALTIES[config.length_penalty.kind]
        self._alpha = config.length_penalty.alpha

        count, device = len(limits), limits.device
        self.tokens = torch.full((count,), symbols.bos, device=device)  # (N,)
        self.sums = torch.zeros(count, 1, device=device)  # (B, W)
        self.sentences = torch.arange(count, device=device)  # (B,)
        self.limits = limits  # (B,)
        longest = [self._penalty(limit + 1, self._alpha) for limit in limits.tolist()]
        self.longest = torch.tensor(longest, dtype=torch.float32, device=device)  # (B,)
        self.finished = torch.zeros_like(limits)  # (B,)
        self.best = torch.full((count, config.n_best), -math.inf, device=device)  # (B, n_best) finished scores

    def advance(self, log_probs: Tensor) -> Tensor | None:
        """Take a step with `log_probs` (N, V); the rows of the state to keep, None where it stays as it is."""
        candidates = self._candidates(log_probs)
        is_end = candidates.tokens == self.symbols.eos
        ends = (is_end & candidates.sums.isfinite())[:, : self.size]
        self._finish(candidates, ends)
        order = candidates.sums.masked_fill(is_end, -math.inf).sort(dim=1, descending=True, stable=True)
        following = candidates.at(order.indices[:, : self.size])._replace(sums=order.values[:, : self.size])
        done = self._done(following.sums[:, 0])
        searched = (~done).nonzero().squeeze(1)  # the step's only wait for the device
        unmoved = len(searched) == len(done) and self.sums.size(1) == following.sums.size(1) == 1
        if len(searched) < len(done):
            self._cut(done & (self.finished < self.best.size(1)), candidates.rows[:, : self.size][ends])
        self._move(searched, following)
        return None if unmoved else self.trace.parents[-1]

    def _candidates(self, log_probs: Tensor) -> _Candidates:
        """The best 2 x beam; at most one of a row's ends, so these hold all that finish and all that go on."""
        never = (self.symbols.bos, self.symbols.pad)
        found, tokens = largest(log_probs[:, : self.symbols.size], self.size + 1 + len(never))  # (N, k)
        impossible = (tokens == never[0]) | (tokens == never[1]) | found.isnan()
        sums = (self.sums.view(-1, 1) + found).masked_fill(impossible, -math.inf)
        count, width = self.sums.shape
        best = sums.view(count, -1).sort(dim=1, descending=True, stable=True)
        places = best.indices[:, : 2 * self.size]
        first = torch.arange(count, device=places.device)[:, None] * width
        rows = first + places // tokens.size(1)
        return _Candidates(best.values[:, : 2 * self.size], rows, tokens.view(count, -1).gather(1, places))

    def _finish(self, candidates: _Candidates, ends: Tensor) -> None:
        """Store the candidates that `ends` (B, <= size) points at; they are among the first `size`."""
        sums = candidates.sums[:, : self.size].masked_fill(~ends, -math.inf)
        scores = sums / self._penalty(len(self.trace.tokens) + 1, self._alpha)
        sentences = self.sentences[:, None].expand_as(sums)
        rows = candidates.rows[:, : self.size]
        self.trace.end(*(x.reshape(-1) for x in (sentences, rows, scores, sums)), truncated=False)
        self.finished = self.finished + ends.sum(1)
        self.best = torch.cat([self.best, scores], 1).topk(self.best.size(1)).values

    def _done(self, following: Tensor) -> Tensor:
        """Which sentences (B,) end with this step; `following` (B,) are the sums of the best that would go on."""
        out_of_room = (self.limits <= len(self.trace.tokens)) | following.isneginf()
        return (self.finished >= self.size) | out_of_room | self._beaten(following)

    def _beaten(self, following: Tensor) -> Tensor:
        """In which sentences (B,) nothing that goes on can still enter the best."""
        return self.best[:, -1] >= following / self.longest

    def _cut(self, short: Tensor, ended: Tensor) -> None:
        """Store what the sentences `short` (B,) bool were continuing, but for the rows `ended` (E,) that finished."""
        sums = self.sums.masked_fill(~short[:, None], -math.inf).view(-1).index_fill(0, ended, -math.inf)
        scores = sums / self._penalty(max(len(self.trace.tokens), 1), self._alpha)
        sentences = self.sentences.repeat_interleave(self.sums.size(1))
        rows = torch.arange(len(sums), device=sums.device)
        self.trace.end(sentences, rows, scores, sums, truncated=True)

    def _move(self, searched: Tensor, following: _Candidates) -> None:
        """Go on with `following` of the sentences `searched` (B',), and forget the others."""
        self.sums = following.sums[searched]
        self.trace.extend(following.tokens[searched].view(-1), following.rows[searched].view(-1), self.sums.view(-1))
        self.tokens = self.trace.tokens[-1]
        if len(searched) < len(self.sentences):
            self.sentences, self.limits, self.longest = (
                x[searched] for x in (self.sentences, self.limits, self.longest)
            )
            self.finished, self.best = self.finished[searched], self.best[searched]
