"""One update: micro-batches -> gradient -> clipping -> optimiser."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from mt.data.batching import Batch
from mt.data.training_data import Elsewhere
from mt.device import is_out_of_memory
from mt.training.distributed import ALONE, Group
from mt.training.memory import CommittedError, MemoryLimit
from mt.training.noise import Noise
from mt.training.optim import set_learning_rate
from mt.training.parallel import NOTHING, Layout, whole
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
    cuts: int = 0
    """Cuts through micro-batches, since they do not fit into memory."""
    notices: tuple[str, ...] = ()
    """What a person should read of it."""


@dataclass
class Updater:
    """Changes `model` by one update at a time: gradient, unscaling, clipping, step, in this order.

    The gradient is that of the loss summed over all micro-batches, divided once by their target tokens: it does not
    depend on how the pairs of an update are cut into micro-batches, nor on which rank has which. So a micro-batch
    that does not fit into memory is cut in halves, with the same result.
    """

    model: nn.Module
    loss: Layout[Any]
    """The objective of `model` on a batch."""
    optimizer: torch.optim.Optimizer
    precision: Precision
    noise: Noise
    clip_norm: float | None
    """Largest L2 norm of the gradient; None: any."""
    group: Group = ALONE
    memory: MemoryLimit = field(default_factory=MemoryLimit)

    def __call__(
        self,
        batches: Sequence[Batch | Elsewhere],
        rate: float,
        before: TrainingState,
        leave: Callable[[], bool] = lambda: False,
    ) -> Update | None:
        """Make an update from the micro-batches that follow on `before`, with learning rate `rate`.

        `leave` is asked before each micro-batch: True gives the update up, as if it had not begun. No gradient is left
        behind.
        """
        tokens, notices = sum(batch.tokens for batch in batches), list[str]()
        scale = before.loss_scale.value if self.precision.needs_loss_scale else 1.0
        # The ranks' gradients are averaged: that makes the divisor smaller.
        while (found := self._gradient(batches, tokens / scale / self.group.size, before, notices, leave)) is None:
            self._free()
            if leave():
                return None
        sums, cuts = found
        self._unscale(scale)
        norm = self._clip()
        applied = self._step(norm, rate)
        self.optimizer.zero_grad()
        total, nll = self.group.add(sums)
        pairs = sum(batch.pairs for batch in batches)
        return Update(total, nll, tokens, pairs, norm, not applied, cuts, tuple(notices))

    def _gradient(
        self,
        batches: Sequence[Batch | Elsewhere],
        divisor: float,
        before: TrainingState,
        notices: list[str],
        leave: Callable[[], bool],
    ) -> tuple[Tensor, int] | None:
        """Add the gradients of this rank; return its sums and cuts.

        None where it is to be left, or where a notice says what did not fit.
        """
        sums, cuts = torch.zeros(2, device=self.precision.device), 0
        passes = self._passes(batches, before.batch)
        for left, (number, batch) in zip(reversed(range(len(passes))), passes, strict=True):
            if leave():
                return None
            self.noise.begin(before.epoch, number)
            parts = list(self.memory.parts(batch))
            cuts += len(parts) - 1
            for more, part in zip(reversed(range(len(parts))), parts, strict=True):
                try:
                    with self.loss.apart() if left or more else nullcontext():
                        sums += self._backward(part, divisor)
                except (RuntimeError, MemoryError) as error:
                    if not is_out_of_memory(error):
                        raise
                    if self.loss.committed:
                        raise CommittedError(part) from error
                    notices.append(self.memory.exceeded(part))
                    return None
        return sums, cuts

    def _free(self) -> None:
        """Forget what an interrupted backward pass left: a part of a gradient, and memory in pieces."""
        self.optimizer.zero_grad()
        if self.precision.device.type == "cuda":
            torch.cuda.empty_cache()

    def _passes(self, batches: Sequence[Batch | Elsewhere], first: int) -> list[tuple[int, Batch]]:
        """Number in its epoch and batch of each pass of this rank: as many as on any other."""
        own = [(number, batch) for number, batch in enumerate(batches, first) if isinstance(batch, Batch)]
        return own + [(first, NOTHING)] * (math.ceil(len(batches) / self.group.size) - len(own))

    def _backward(self, batch: Batch, divisor: float) -> Tensor:
        """Add the gradient of one micro-batch's loss / `divisor`; return its sums of loss and log-likelihood."""
        counts = batch is not NOTHING
        batch = batch.to(self.precision.device)
        with self.precision.autocast():
            loss = self.loss(batch)
        torch.autograd.backward(loss.total / (divisor if counts else math.inf))
        return torch.stack((loss.total.detach(), loss.nll)) * counts

    def _unscale(self, scale: float) -> None:
        if scale != 1:
            for parameter in self.model.parameters():
                if parameter.grad is not None:
                    parameter.grad.div_(scale)

    def _clip(self) -> Tensor:
        """Scale the gradient down to `clip_norm`; return the norm that it had."""
        return whole(nn.utils.clip_grad_norm_(self.model.parameters(), self.clip_norm or float("inf"), foreach=True))

    def _step(self, norm: Tensor, rate: float) -> bool:
        """Apply the gradient where its norm is finite; whether it was."""
        if not bool(torch.isfinite(norm)):
            return False
        set_learning_rate(self.optimizer, rate)
        self.optimizer.step()
        return True
