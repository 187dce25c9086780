"""The beams of all sentences of a batch, a step at a time and all at once; mt/search/beams.py has the searches.

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
from typing import NamedTuple

import torch
from torch import Tensor

from mt.search.config import DecodeConfig
from mt.search.continuations import best_continuations
from mt.search.hypothesis import Symbols
from mt.search.penalties import PENALTIES
from mt.search.trace import Trace


class Candidates(NamedTuple):
    """Continuations of each sentence's hypotheses, best first; all (B, C)."""

    sums: Tensor
    rows: Tensor
    tokens: Tensor

    def at(self, places: Tensor) -> Candidates:
        """Those at `places` (B, C')."""
        return Candidates(self.sums.gather(1, places), self.rows.gather(1, places), self.tokens.gather(1, places))

    def first(self, count: int) -> Candidates:
        """The `count` best."""
        return Candidates(self.sums[:, :count], self.rows[:, :count], self.tokens[:, :count])


class Beam:
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

    def advance(
        self, log_probs: Tensor, discouraged: Tensor | None = None, bonus: Tensor | None = None
    ) -> Tensor | None:
        """Take a step with `log_probs` (N, V); the rows of the state to keep, None where it stays as it is.

        `discouraged` (N, V) is taken from them where they decide what goes on, and from no sum; `bonus` (N,), never
        above 0, is added to the scores of the hypotheses that end.
        """
        ending, following = self.ranked(log_probs, discouraged)
        self._finish(ending, bonus)
        done = self._done(following.sums.amax(1))
        searched = (~done).nonzero().squeeze(1)  # waits for the device, as the look for equals did
        unmoved = len(searched) == len(done) and self.sums.size(1) == following.sums.size(1) == 1
        if len(searched) < len(done):
            self.cut(done & (self.finished < self.best.size(1)), ending.rows[ending.sums.isfinite()], bonus)
        self.move(searched, following)
        return None if unmoved else self.trace.parents[-1]

    def ranked(self, log_probs: Tensor, discouraged: Tensor | None) -> tuple[Candidates, Candidates]:
        """What ends (B, <= size), its sum -inf where nothing does; and what may go on (B, <= size)."""
        return self.split(self._candidates(log_probs, discouraged))

    def split(self, candidates: Candidates) -> tuple[Candidates, Candidates]:
        """Those that end among the first `size` of `candidates` (B, C); and the first `size` that do not end."""
        is_end = candidates.tokens == self.symbols.eos
        ending = candidates.first(self.size)
        ending = ending._replace(sums=ending.sums.masked_fill(~is_end[:, : self.size], -math.inf))
        if is_end.is_cpu and not bool(is_end.any()):  # so it is at most steps of few sentences
            return ending, candidates.first(self.size)
        going = candidates._replace(sums=candidates.sums.masked_fill(is_end, -math.inf))
        return ending, going.at(is_end.byte().sort(dim=1, stable=True).indices[:, : self.size])

    def _candidates(self, log_probs: Tensor, discouraged: Tensor | None) -> Candidates:
        """The best 2 x beam; at most one of a row's ends, so these hold all that finish and all that go on."""
        self.symbols.forbid_marks(log_probs)
        preferred = log_probs if discouraged is None else log_probs - discouraged
        sums, hypotheses, tokens = best_continuations(preferred[:, : self.symbols.size], self.sums, 2 * self.size)
        count, width = self.sums.shape
        rows = hypotheses + torch.arange(0, count * width, width, device=sums.device)[:, None]
        if discouraged is not None:  # not taken off again: beside a large penalty the sums are lost to rounding
            sums = (self.sums.view(-1)[rows] + log_probs[rows, tokens]).masked_fill(sums.isneginf(), -math.inf)
        return Candidates(sums, rows, tokens)

    def _finish(self, ending: Candidates, bonus: Tensor | None) -> None:
        """Store the candidates `ending` (B, <= size), but for those whose sum is -inf."""
        scores = ending.sums / self._penalty(len(self.trace.tokens) + 1, self._alpha)
        if bonus is not None:
            scores = scores + bonus[ending.rows]
        sentences = self.sentences[:, None].expand_as(scores)
        self.trace.end(*(x.reshape(-1) for x in (sentences, ending.rows, scores, ending.sums)), truncated=False)
        self.finished = self.finished + ending.sums.isfinite().sum(1)
        self.best = torch.cat([self.best, scores], 1).topk(self.best.size(1)).values

    def _done(self, following: Tensor) -> Tensor:
        """Which sentences (B,) end with this step; `following` (B,) are the sums of the best that would go on."""
        out_of_room = (self.limits <= len(self.trace.tokens)) | following.isneginf()
        return (self.finished >= self.size) | out_of_room | self._beaten(following)

    def _beaten(self, following: Tensor) -> Tensor:
        """In which sentences (B,) nothing that goes on can still enter the best."""
        return self.best[:, -1] >= following / self.longest

    def cut(self, short: Tensor, ended: Tensor, bonus: Tensor | None) -> None:
        """Store what the sentences `short` (B,) bool were continuing, but for the rows `ended` (E,) that finished."""
        sums = self.sums.masked_fill(~short[:, None], -math.inf).view(-1).index_fill(0, ended, -math.inf)
        scores = sums / self._penalty(max(len(self.trace.tokens), 1), self._alpha)
        if bonus is not None:
            scores = scores + bonus
        sentences = self.sentences.repeat_interleave(self.sums.size(1))
        rows = torch.arange(len(sums), device=sums.device)
        self.trace.end(sentences, rows, scores, sums, truncated=True)

    def move(self, searched: Tensor, following: Candidates) -> None:
        """Go on with `following` of the sentences `searched` (B',), and forget the others."""
        self.sums = following.sums[searched]
        self.trace.extend(following.tokens[searched].view(-1), following.rows[searched].view(-1), self.sums.view(-1))
        self.tokens = self.trace.tokens[-1]
        if len(searched) < len(self.sentences):
            self.sentences, self.limits, self.longest = (
                x[searched] for x in (self.sentences, self.limits, self.longest)
            )
            self.finished, self.best = self.finished[searched], self.best[searched]
