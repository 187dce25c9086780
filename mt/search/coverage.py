"""Coverage penalty (Wu et al. 2016, section 7, equation 14).

beta x the sum over source positions of log(min(attention of all steps to the position, 1)): 0 where the target has
looked at everything, the lower the more was left out. It is added to the score of a hypothesis, and never above 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from mt.errors import ConfigError
from mt.search.config import DecodeConfig
from mt.search.options import LineOptions
from mt.seq2seq import State

LEAST = 1e-6
"""A position with less attention than this counts as one with this much: its penalty is finite."""


@dataclass(frozen=True)
class Coverage:
    """How much each row of a state has looked at each source position."""

    beta: float
    attention: Tensor
    """(N, S) summed over the steps."""
    there: Tensor
    """(N, S) bool: which positions hold something."""

    @classmethod
    def start(cls, state: State, config: DecodeConfig, lines: Sequence[LineOptions]) -> Coverage | None:
        """Before the first step of `state`, one row a line; None where no coverage is asked for.

        Raises:
            ConfigError: the state does not tell where it looks.
        """
        if config.coverage_penalty == 0:
            return None
        attention = _attention(state)
        lengths = torch.tensor([line.source_length for line in lines], device=attention.device)
        there = torch.arange(attention.size(1), device=attention.device) < lengths[:, None]
        return cls(config.coverage_penalty, torch.zeros_like(attention), there)

    def add(self, state: State) -> Coverage:
        """After a step that led to `state`."""
        return replace(self, attention=self.attention + _attention(state))

    def select(self, rows: Tensor) -> Coverage:
        """Keep `rows` (N',), in that order."""
        return replace(self, attention=self.attention[rows], there=self.there[rows])

    def bonus(self) -> Tensor:
        """(N,): what is added to the score of a hypothesis that ends with this step."""
        logs = self.attention.clamp(LEAST, 1).log().masked_fill(~self.there, 0)
        return self.beta * logs.sum(1)


def _attention(state: State) -> Tensor:
    attention: Tensor | None = getattr(state, "attention", None)
    if attention is None:
        raise ConfigError(
            "decode.coverage_penalty needs a model that tells where it attends to the source, and this one does not: "
            "leave it at 0."
        )
    return attention
