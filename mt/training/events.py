"""What the training loop tells of itself."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from mt.events import Event
from mt.training.state import TrainingState


@dataclass(frozen=True)
class StepDone(Event):
    """One update. The sums stay on the device: reading them waits for it."""

    state: TrainingState
    loss: Tensor
    """Smoothed loss, summed over `tokens`."""
    nll: Tensor
    """Negative log-likelihood in nats, summed over `tokens`."""
    tokens: int
    seconds: float
    """Since the event before."""
    grad_norm: Tensor
    learning_rate: float


@dataclass(frozen=True)
class Validated(Event):
    """The scores of a validation; `is_best` by the recipe's metric."""

    state: TrainingState
    is_best: bool


@dataclass(frozen=True)
class Saved(Event):
    """A checkpoint is whole on disk."""

    state: TrainingState


@dataclass(frozen=True)
class Rewound(Event):
    """Training went back to the checkpoint of `state`, which has a lower learning rate now."""

    state: TrainingState
    reason: str


@dataclass(frozen=True)
class Stopped(Event):
    """Training is over, or was asked to stop (`finished` False)."""

    state: TrainingState
    reason: str
    finished: bool
