"""Label-smoothed cross-entropy, fused with the output layer so that the logits never exist whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from mt.data.batching import Batch
from mt.seq2seq import Seq2Seq
from mt.training.config import TrainConfig

# Rows of logits at a time: few enough that they stay in a CPU's cache, enough to fill its matrix units.
CHUNK = 256


@dataclass(frozen=True)
class Loss:
    """Sums over a batch's target tokens: add them over micro-batches and ranks, and divide once."""

    total: Tensor
    """Smoothed loss, a scalar with a gradient."""
    nll: Tensor
    """Negative log-likelihood in nats, without smoothing: what perplexity is taken from. No gradient."""
    tokens: int


class Objective(Protocol):
    """What training minimises."""

    def __call__(self, model: Seq2Seq[Any], batch: Batch) -> Loss:
        """The loss of `model` on `batch`."""
        ...


@dataclass(frozen=True)
class CrossEntropy:
    """Cross-entropy against (1 - e) one-hot + e / V (Szegedy et al. 2016, section 7), as torch defines it."""

    label_smoothing: float

    def __call__(self, model: Seq2Seq[Any], batch: Batch) -> Loss:
        """The loss of `model` on `batch`; padding positions do not reach the output layer."""
        total, nll = self._sums(model, model.hidden(batch), batch.tgt_out, batch.tgt_mask)
        return Loss(total, nll, int(batch.tgt_mask.sum()))

    def _sums(self, model: Seq2Seq[Any], hidden: Tensor, targets: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Loss and negative log-likelihood of `targets` (B, T) where `mask` (B, T) is True, from `hidden` (B, T, D)."""
        total, nll = _FusedCrossEntropy.apply(  # type: ignore[no-untyped-call]
            hidden[mask], model.output.weight, targets[mask], self.label_smoothing
        )
        return total, nll


@dataclass(frozen=True)
class LanguageModelCrossEntropy(CrossEntropy):
    """The loss of a language model on all of its text: the target's, and that of the source after its first token.

    What perplexity is taken from, and what losses are divided by, is the target alone.
    """

    def __call__(self, model: Seq2Seq[Any], batch: Batch) -> Loss:
        """The loss of `model` on `batch`."""
        source, target = model.hidden_of_both(batch)
        total, nll = self._sums(model, target, batch.tgt_out, batch.tgt_mask)
        of_source, _ = self._sums(model, source[:, :-1], batch.src[:, 1:], batch.src_mask[:, 1:])
        return Loss(total + of_source, nll, int(batch.tgt_mask.sum()))


class _FusedCrossEntropy(torch.autograd.Function):
    """Loss and gradients, chunk by chunk: hidden (M, D), weight (V, D), targets (M,) -> the two sums of `Loss`."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
        dtype = (
            torch.get_autocast_dtype(hidden.device.type)
            if torch.is_autocast_enabled(hidden.device.type)
            else weight.dtype
        )
        with torch.autocast(hidden.device.type, enabled=False):
            hidden_low, weight_low = hidden.to(dtype), weight.to(dtype)
            needs_grad = ctx.needs_input_grad[0]
            grad_hidden = torch.empty_like(hidden_low) if needs_grad else None
            grad_weight = torch.zeros_like(weight) if needs_grad else None
            total, nll = hidden.new_zeros((), dtype=torch.float32), hidden.new_zeros((), dtype=torch.float32)
            for start in range(0, targets.numel(), CHUNK):
                rows = slice(start, start + CHUNK)
                logits = (hidden_low[rows] @ weight_low.t()).float()
                peak = logits.amax(-1, keepdim=True)
                chosen, mean = logits.gather(1, targets[rows, None]), logits.mean(-1, keepdim=True)
                mass = logits.sub_(peak).exp_().sum(-1, keepdim=True)
                log_mass = peak + mass.log()
                nll += (log_mass - chosen).sum()
                total += (log_mass - (1 - smoothing) * chosen - smoothing * mean).sum()
                if grad_hidden is not None and grad_weight is not None:
                    grad = _logit_gradient(logits.div_(mass), targets[rows], smoothing).to(dtype)
                    torch.mm(grad, weight_low, out=grad_hidden[rows])
                    grad_weight += grad.t() @ hidden_low[rows]
        ctx.save_for_backward(grad_hidden, grad_weight)
        ctx.mark_non_differentiable(nll)
        return total, nll

    @staticmethod
    def backward(ctx: Any, grad_total: Tensor, _: Tensor) -> tuple[Tensor, Tensor, None, None]:
        grad_hidden, grad_weight = ctx.saved_tensors
        # In float32: a loss scale of 65,536 is infinite in float16.
        return grad_hidden.float() * grad_total, grad_weight * grad_total, None, None


def _logit_gradient(probabilities: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """p - (1 - e) one-hot - e / V, written over `probabilities`."""
    grad = probabilities.sub_(smoothing / probabilities.size(1))
    return grad.scatter_add_(1, targets.unsqueeze(1), grad.new_full((targets.numel(), 1), smoothing - 1))


OBJECTIVES: dict[str, Callable[[TrainConfig], Objective]] = {
    "cross_entropy": lambda config: CrossEntropy(config.label_smoothing),
    "language_model": lambda config: LanguageModelCrossEntropy(config.label_smoothing),
}
