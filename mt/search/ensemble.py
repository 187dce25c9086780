"""Ensembles: several models with one vocabulary as one step and one state, so that every search works on them.

The next token's probability is the mean of the models' probabilities, not of their logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mt.seq2seq import Step


@dataclass(frozen=True)
class EnsembleState:
    """The states of the models, whose rows move together."""

    states: tuple[Any, ...]

    def select(self, rows: Tensor) -> EnsembleState:
        """Keep `rows` (N',), in that order."""
        return EnsembleState(tuple(state.select(rows) for state in self.states))

    @property
    def attention(self) -> Tensor | None:
        """(N, S): the mean of the models' attention; None where one has none. See `mt.seq2seq.Attentive`."""
        looked = [getattr(state, "attention", None) for state in self.states]
        found = [attention for attention in looked if attention is not None]
        return torch.stack(found).mean(0) if len(found) == len(looked) else None


def ensemble(steps: Sequence[Step[Any]]) -> Step[EnsembleState]:
    """The step of models with these `steps`, for a state of their states in the same order."""

    def step(tokens: Tensor, state: EnsembleState) -> tuple[Tensor, EnsembleState]:
        results = [step(tokens, each) for step, each in zip(steps, state.states, strict=True)]
        log_probs, states = zip(*results, strict=True)
        return log_mean(torch.stack(log_probs)), EnsembleState(tuple(states))

    return step


def log_mean(log_probs: Tensor) -> Tensor:
    """log of the mean of the probabilities of M models: (M, N, V) -> (N, V); of equal ones exactly themselves."""
    greatest = log_probs.amax(0)
    finite = greatest.masked_fill(greatest == -math.inf, 0)
    return finite + (log_probs - finite).exp().mean(0).log()
