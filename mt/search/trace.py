"""The memory of a search: each step's tokens and back-pointers, and where hypotheses ended.

Following back-pointers once, at the end, is cheaper than moving the tokens of all hypotheses at every step.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import torch
from torch import Tensor

from mt.search.hypothesis import Hypothesis


@dataclass(frozen=True)
class _Ends:
    """Ended hypotheses, one an entry (E,). An entry without a finite log-probability is none."""

    sentences: Tensor
    rows: Tensor
    scores: Tensor
    log_probs: Tensor
    length: int
    truncated: bool


@dataclass
class Trace:
    """Grows by one step at a time; nothing in it is ever moved."""

    tokens: list[Tensor] = field(default_factory=list)
    parents: list[Tensor] = field(default_factory=list)
    log_probs: list[Tensor] = field(default_factory=list)
    ends: list[_Ends] = field(default_factory=list)

    def extend(self, tokens: Tensor, parents: Tensor, log_probs: Tensor) -> None:
        """Append a step: row i continues row `parents[i]` of the step before with `tokens[i]`; both (N,) int64.

        `log_probs` (N,) are the summed log-probabilities, this step's included.
        """
        self.tokens.append(tokens)
        self.parents.append(parents)
        self.log_probs.append(log_probs)

    def end(self, sentences: Tensor, rows: Tensor, scores: Tensor, log_probs: Tensor, *, truncated: bool) -> None:
        """Record that `rows` (E,) of the last step ended; those with log-probability -inf did not."""
        self.ends.append(_Ends(sentences, rows, scores, log_probs, len(self.tokens), truncated))

    def best(self, sentences: int, n: int) -> list[list[Hypothesis]]:
        """The `n` best hypotheses of each sentence: finished before truncated, falling score, the earlier ended."""
        if not self.ends:
            return [[] for _ in range(sentences)]
        ends = self.ends
        sentence = torch.cat([end.sentences for end in ends]).cpu()
        rows = torch.cat([end.rows for end in ends]).cpu()
        scores = torch.cat([end.scores for end in ends]).cpu()
        log_probs = torch.cat([end.log_probs for end in ends]).cpu()
        sizes = torch.tensor([len(end.rows) for end in ends])
        lengths = torch.tensor([end.length for end in ends]).repeat_interleave(sizes)
        truncated = torch.tensor([end.truncated for end in ends]).repeat_interleave(sizes)

        order = log_probs.isfinite().nonzero().squeeze(1)
        for key, falling in ((scores, True), (truncated.int(), False), (sentence, False)):
            order = order[key[order].sort(stable=True, descending=falling).indices]
        counts = torch.bincount(sentence[order], minlength=sentences)
        rank = torch.arange(len(order)) - (counts.cumsum(0) - counts)[sentence[order]]
        order = order[rank < n]

        found: list[list[Hypothesis]] = [[] for _ in range(sentences)]
        tokens, sums = self._follow(rows[order], lengths[order])
        for number, ids, until, length, score, log_prob, cut in zip(
            sentence[order].tolist(),
            tokens.tolist(),
            sums.tolist(),
            lengths[order].tolist(),
            scores[order].tolist(),
            log_probs[order].tolist(),
            truncated[order].tolist(),
            strict=True,
        ):
            totals = [0.0, *until[:length], *[log_prob] * (not cut)]
            each = tuple(after - before for before, after in pairwise(totals))
            found[number].append(Hypothesis(tuple(ids[:length]), score, log_prob, cut, each))
        return found

    def _follow(self, rows: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Tokens of the hypotheses that ended in `rows` (E,) after `lengths` (E,) steps, and their sums until each.

        Both (E, longest).
        """
        tokens = torch.zeros(len(rows), len(self.tokens), dtype=torch.int64)
        sums = torch.zeros(len(rows), len(self.tokens))
        rows = rows.clone()
        for position in reversed(range(len(self.tokens))):
            active = (lengths > position).nonzero().squeeze(1)
            tokens[active, position] = self.tokens[position].cpu()[rows[active]]
            sums[active, position] = self.log_probs[position].cpu()[rows[active]]
            rows[active] = self.parents[position].cpu()[rows[active]]
        return tokens, sums
