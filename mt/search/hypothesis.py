"""What a search is told of the target vocabulary, and what it finds."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Symbols:
    """The ids that mean something to a search; they come from the vocabulary, never from constants."""

    bos: int
    """What every target begins with; never generated."""
    eos: int
    """The end mark; generating it finishes a hypothesis."""
    pad: int
    """Never generated."""
    size: int
    """Entries of the vocabulary; rows of the output layer from here on are never generated."""

    def forbid_marks(self, log_probs: Tensor) -> None:
        """Write -inf for bos and pad into `log_probs` (N, V): a step's answer is the search's own."""
        for token in (self.bos, self.pad):
            log_probs[:, token] = -math.inf

    def possible(self, log_probs: Tensor) -> Tensor:
        """(N, size) of `log_probs` (N, V), written in place: -inf for marks, as above, and where they are NaN."""
        self.forbid_marks(log_probs)
        return log_probs[:, : self.size].nan_to_num_(-math.inf, math.inf, -math.inf)


@dataclass(frozen=True)
class Hypothesis:
    """A target sequence that a search found."""

    tokens: tuple[int, ...]
    """Ids without bos and eos."""
    score: float
    """`log_prob` divided by the length penalty; what hypotheses are ranked by."""
    log_prob: float
    """Sum of the natural log-probabilities of `tokens` and of the end mark."""
    truncated: bool = False
    """It has no end mark: the length limit came first, or no token had any probability left."""
    token_log_probs: tuple[float, ...] = ()
    """Natural log-probability of each of `tokens`, and of the end mark unless `truncated`."""
    count: int = 1
    """How often it was drawn, by a search that samples."""
