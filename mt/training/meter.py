"""What a person is told of the updates between two log lines: means over their target tokens."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from mt.events import Event
from mt.training.config import TrainConfig
from mt.training.events import StepDone
from mt.training.state import TrainingState


@dataclass(frozen=True)
class Trained(Event):
    """The updates since the last event of this kind."""

    update: int
    epoch: float
    tokens: int
    """Target tokens since training began."""
    seconds: float
    loss: float
    """Smoothed loss a target token."""
    nll: float
    """Negative log-likelihood a target token, in nats: perplexity is its exponential."""
    learning_rate: float
    grad_norm: float
    """L2 norm of the last gradient, before clipping."""
    tokens_per_second: float
    """Target tokens, end marks included, padding not; validation and saving are not in the time."""
    skipped: int
    cuts: int
    """Cuts through micro-batches that did not fit into memory, since training began."""


class Meter:
    """Adds updates up. It reads the device only when asked for the means."""

    def __init__(self) -> None:
        self._steps: list[StepDone] = []

    def add(self, step: StepDone) -> None:
        """Count an update."""
        self._steps.append(step)

    def means(self) -> Trained:
        """The means over what was added since the last call; at least one update."""
        steps, self._steps = self._steps, []
        state, last = steps[-1].state, steps[-1]
        tokens = sum(step.tokens for step in steps)
        # Without any token neither is a number.
        loss = float(torch.stack([step.loss for step in steps]).sum()) / (tokens or math.nan)
        nll = float(torch.stack([step.nll for step in steps]).sum()) / (tokens or math.nan)
        return Trained(
            update=state.update,
            epoch=state.elapsed("epochs"),
            tokens=state.tokens,
            seconds=state.seconds,
            loss=loss,
            nll=nll,
            learning_rate=last.learning_rate,
            grad_norm=float(last.grad_norm),
            tokens_per_second=tokens / max(sum(step.seconds for step in steps), 1e-9),
            skipped=state.skipped,
            cuts=state.cuts,
        )


def expected_updates(state: TrainingState, config: TrainConfig) -> int | None:
    """Updates at which the first of the limits will be met, at the pace so far; None where only patience ends it."""
    shares = [
        state.update / config.max_steps if config.max_steps else 0.0,
        state.elapsed("epochs") / config.max_epochs if config.max_epochs else 0.0,
        state.seconds / config.max_time.value if config.max_time else 0.0,
    ]
    return math.ceil(state.update / max(shares) - 1e-9) if max(shares) > 0 else None
