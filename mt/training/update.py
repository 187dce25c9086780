"""One update: micro-batches -> gradient -> clipping -> optimiser."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mt.data.batching import Batch
from mt.objectives.cross_entropy import Loss
from mt.training.noise import Noise
from mt.training.optim import set_learning_rate
from mt.training.precision import Precision
from mt.training.state import TrainingState


@dataclass(frozen=True)
class Update:
    """What one update did. The sums stay on the device: reading them waits for it."""

    loss: Tensor
    """Smoothed loss, summed over `tokens`."""
    nll: Tensor
    """Negative log-likelihood in nats, summed over `tokens`."""
    tokens: int
    pairs: int
    grad_norm: Tensor
    """L2 norm of the gradient, before clipping."""
    skipped: bool
    """Whether the gradient was no number, so that no weight was changed."""


@dataclass
class Updater:
    """Changes `model` by one update at a time: gradient, unscaling, clipping, step, in this order.

    The gradient is that of the loss summed over all micro-batches, divided once by their target tokens: it does not
    depend on how the pairs of an update are cut into micro-batches.
    """

    model: nn.Module
    loss: Callable[[Batch], Loss]
    """The objective of `model` on a batch."""
    optimizer: torch.optim.Optimizer
    precision: Precision
    noise: Noise
    clip_norm: float | None
    """Largest L2 norm of the gradient; None: any."""

    def __call__(self, batches: Sequence[Batch], rate: float, before: TrainingState) -> Update:
        """Make an update from the micro-batches that follow on `before`, with learning rate `rate`.

        No gradient is left behind.
        """
        tokens, losses = self._tokens(batches), []
        scale = before.loss_scale.value if self.precision.needs_loss_scale else 1.0
        for number, batch in enumerate(batches, before.batch):
            self.noise.begin(before.epoch, number)
            losses.append(self._backward(batch, tokens / scale))
        self._unscale(scale)
        norm = self._clip()
        applied = self._step(norm, rate)
        self.optimizer.zero_grad()
        total, nll = (torch.stack(sums).sum() for sums in zip(*losses, strict=True))
        pairs = sum(batch.src.size(0) for batch in batches)
        return Update(total, nll, tokens, pairs, norm, skipped=not applied)

    def _tokens(self, batches: Sequence[Batch]) -> int:
        """Target tokens of the whole update: what its loss is divided by."""
        return sum(int(batch.tgt_mask.sum()) for batch in batches)

    def _backward(self, batch: Batch, divisor: float) -> tuple[Tensor, Tensor]:
        """Add the gradient of one micro-batch's loss / `divisor`; return its sums of loss and log-likelihood."""
        batch = batch.to(self.precision.device)
        with self.precision.autocast():
            loss = self.loss(batch)
        torch.autograd.backward(loss.total / divisor)
        return loss.total.detach(), loss.nll

    def _unscale(self, scale: float) -> None:
        if scale != 1:
            for parameter in self.model.parameters():
                if parameter.grad is not None:
                    parameter.grad.div_(scale)

    def _clip(self) -> Tensor:
        """Scale the gradient down to `clip_norm`; return the norm that it had."""
        return nn.utils.clip_grad_norm_(self.model.parameters(), self.clip_norm or float("inf"), foreach=True)

    def _step(self, norm: Tensor, rate: float) -> bool:
        """Apply the gradient where its norm is finite; whether it was."""
        if not bool(torch.isfinite(norm)):
            return False
        set_learning_rate(self.optimizer, rate)
        self.optimizer.step()
        return True
