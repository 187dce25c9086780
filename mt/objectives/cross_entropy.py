"""Label-smoothed cross-entropy, fused with the output layer so that the logits never exist whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from mt.data.batching import Batch
from mt.nn.products import laid_out, multiply, product_dtype
from mt.seq2seq import Seq2Seq, StateT
from mt.training.config import TrainConfig

CHUNK = 512
"""Rows of logits at a time on a CPU."""
BLOCK = 64
"""Their number is a multiple of this, because a CPU's products keep something for each number of rows they meet; and so
many at a time become gradients, because they are float32 on the way, and that fits into its cache."""
_TRACE = 1e-30
"""A probability whose logarithm float32 still gives whole: of targets at least as likely, it spares passes over all."""


@dataclass(frozen=True)
class Loss:
    """Sums over a batch's target tokens: add them over micro-batches and ranks, and divide once."""

    total: Tensor
    """Smoothed loss, a scalar with a gradient."""
    nll: Tensor
    """Negative log-likelihood in nats, without smoothing: what perplexity is taken from. No gradient."""
    tokens: int


class TextModel(Seq2Seq[StateT], Protocol[StateT]):
    """A model that predicts its source too."""

    def hidden_of_both(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """States of the source (B, S, D) and of the target (B, T, D) before the output layer."""
        ...


class Objective(Protocol):
    """What training minimises; `mt.checks` sees to it that the model is one that it can be asked of."""

    def __call__(self, model: TextModel[Any], batch: Batch) -> Loss:
        """The loss of `model` on `batch`."""
        ...


@dataclass(frozen=True)
class CrossEntropy:
    """Cross-entropy against (1 - e) one-hot + e / V (Szegedy et al. 2016, section 7), as torch defines it."""

    label_smoothing: float

    def __call__(self, model: Seq2Seq[Any], batch: Batch) -> Loss:
        """The loss of `model` on `batch`; padding positions do not reach the output layer."""
        return self.of(model.output, model.hidden(batch), batch.tgt_out, batch.tgt_mask)

    def of(self, output: nn.Linear, hidden: Tensor, targets: Tensor, mask: Tensor) -> Loss:
        """The loss of `targets` (B, T) where `mask` (B, T) is True, from `hidden` (B, T, D) through `output`."""
        places = mask.flatten().nonzero().squeeze(1)
        hidden = hidden.flatten(0, 1).index_select(0, places)  # a mask's own gradient is added number by number
        targets = targets.flatten()[places]
        weight = output.weight if torch.is_grad_enabled() else output.weight.detach()  # which asks for no gradient
        total, nll = _FusedCrossEntropy.apply(hidden, weight, targets, self.label_smoothing)  # type: ignore[no-untyped-call]
        return Loss(total, nll, targets.numel())


@dataclass(frozen=True)
class LanguageModelCrossEntropy:
    """The loss of a language model on all of its text: the target's, and that of the source after its first token.

    What perplexity is taken from, and what losses are divided by, is the target alone.
    """

    loss: CrossEntropy

    def __call__(self, model: TextModel[Any], batch: Batch) -> Loss:
        """The loss of `model` on `batch`."""
        source, target = model.hidden_of_both(batch)
        of_target = self.loss.of(model.output, target, batch.tgt_out, batch.tgt_mask)
        of_source = self.loss.of(model.output, source[:, :-1], batch.src[:, 1:], batch.src_mask[:, 1:])
        return replace(of_target, total=of_target.total + of_source.total)


@dataclass(frozen=True)
class _Goal:
    """What the probabilities of `targets` (M,) should be: (1 - e) one-hot + e / V, with e the `smoothing`."""

    targets: Tensor
    smoothing: float
    dtype: torch.dtype
    """Of the products."""

    @property
    def share(self) -> float:
        """1 - e, as the products' type holds it."""
        share = 1 - self.smoothing
        return float(torch.tensor(share, dtype=self.dtype)) if self.dtype.itemsize < 4 else share

    @property
    def rest(self) -> float:
        """What it does not: bfloat16 has 0.17 % less than 0.9, and the gradients of all targets would lack it alike."""
        return 1 - self.smoothing - self.share


class _FusedCrossEntropy(torch.autograd.Function):
    """Loss and gradients, chunk by chunk: hidden (M, D), weight (V, D), targets (M,) -> the two sums of `Loss`.

    What smoothing adds, e / V for every entry, is a product with the mean row of `weight`: it needs no logits.
    """

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
        goal, size = _Goal(targets, smoothing, product_dtype(weight)), chunk_size(hidden.device, len(weight))
        with torch.autocast(hidden.device.type, enabled=False):
            rows, low = laid_out(hidden, goal.dtype, -(-len(targets) // BLOCK) * BLOCK), weight.to(goal.dtype)
            gradients = _Gradients.begun(rows, low) if any(ctx.needs_input_grad) else None
            nll, mass = hidden.new_zeros(2, dtype=torch.float32)
            for start in range(0, len(targets), size):
                chunk = slice(start, start + size)
                grad, log_mass, chosen = _gradient(rows[chunk], low, targets[chunk], goal.share)
                nll += (log_mass - chosen).sum()
                mass += log_mass.sum()
                if gradients is not None:
                    gradients.add(rows, chunk, low, grad)
            mean = weight.mean(0, dtype=torch.float32)
            total = (1 - smoothing) * nll + smoothing * (mass - hidden.sum(0, dtype=torch.float32) @ mean)
            if gradients is not None:
                ctx.save_for_backward(*gradients.whole(hidden, weight, mean, goal))
        ctx.mark_non_differentiable(nll)
        return total, nll

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_total: Tensor, _: Tensor) -> tuple[Tensor, Tensor, None, None]:
        grad_hidden, grad_weight = ctx.saved_tensors
        # In float32: a loss scale of 65,536 is infinite in float16.
        return grad_hidden * grad_total, grad_weight * grad_total, None, None


@dataclass(frozen=True)
class _Gradients:
    """Of the sum of negative log-likelihoods, a chunk after another."""

    hidden: Tensor
    """(M', D), of the products' type."""
    weight: Tensor
    """(D, V) float32: transposed, its products are faster."""

    @classmethod
    def begun(cls, rows: Tensor, weight: Tensor) -> _Gradients:
        """For `rows` (M', D) and `weight` (V, D), before the first chunk."""
        return cls(torch.empty_like(rows), rows.new_zeros(weight.shape[::-1], dtype=torch.float32))

    def add(self, rows: Tensor, chunk: slice, weight: Tensor, grad: Tensor) -> None:
        """Add those of a chunk from its logits' `grad` (m', V)."""
        self.hidden[chunk] = multiply(grad, weight.t())
        self.weight.add_(multiply(rows[chunk].t(), grad.t()))

    def whole(self, hidden: Tensor, weight: Tensor, mean: Tensor, goal: _Goal) -> tuple[Tensor, Tensor]:
        """(M, D) and (V, D) float32, of `goal` with nothing left out; `mean` (D,) is that of the rows of `weight`."""
        states = hidden.sum(0, dtype=torch.float32).unsqueeze(1)
        of_weight = self.weight.sub_(states, alpha=goal.smoothing / len(weight)).t().contiguous()
        of_hidden = self.hidden[: len(hidden)].float().sub_(mean, alpha=goal.smoothing)
        if goal.rest:
            of_hidden.sub_(weight[goal.targets], alpha=goal.rest)
            # On a CPU it adds in one order, whatever the threads; index_put_ does not.
            of_weight.index_add_(0, goal.targets, hidden.float() * -goal.rest)
        return of_hidden, of_weight


def _gradient(rows: Tensor, weight: Tensor, targets: Tensor, share: float) -> tuple[Tensor, Tensor, Tensor]:
    """That of the logits (m', V) of `rows` (m', D) with `targets` (m,): p - `share` one-hot, and 0 in rows without one.

    Also the log of the normaliser and the targets' logits, (m,) float32.
    """
    logits = multiply(rows, weight)
    chosen = _picked(logits[: len(targets)], targets).float()
    log_mass = None if logits.is_cpu else _log_mass(logits, targets)
    size = BLOCK if logits.is_cpu else len(logits)
    blocks = zip(torch.split(logits, size), torch.split(targets, size), strict=True)
    likelihood = torch.cat([_become_gradient(block, own, share) for block, own in blocks])
    if log_mass is None:
        spared = bool((likelihood > _TRACE).all())
        log_mass = chosen - likelihood.log() if spared else _log_mass(multiply(rows, weight), targets)
    return logits, log_mass, chosen


def _log_mass(logits: Tensor, targets: Tensor) -> Tensor:
    return logits[: len(targets)].float().logsumexp(-1)


def _become_gradient(logits: Tensor, targets: Tensor, share: float) -> Tensor:
    """Write that of `_gradient` over `logits` (m', V); the targets' probabilities (m,)."""
    probabilities = logits[: len(targets)].float().softmax(-1)
    likelihood = _picked(probabilities, targets)
    probabilities.scatter_(1, targets.unsqueeze(1), (likelihood - share).unsqueeze(1))
    logits[: len(targets)] = probabilities
    logits[len(targets) :] = 0
    return likelihood


def _picked(x: Tensor, targets: Tensor) -> Tensor:
    """Of `x` (m, V) the entries of `targets` (m,): (m,)."""
    return x.gather(1, targets.unsqueeze(1)).squeeze(1)


def chunk_size(device: torch.device, vocab: int) -> int:
    """Rows of logits at a time: what stays in a CPU's cache and fills its matrix units; on a GPU, 256 MB."""
    return CHUNK if device.type == "cpu" else max(CHUNK, 2**26 // vocab // BLOCK * BLOCK)


OBJECTIVES: dict[str, Callable[[TrainConfig], Objective]] = {
    "cross_entropy": lambda config: CrossEntropy(config.label_smoothing),
    "language_model": lambda config: LanguageModelCrossEntropy(CrossEntropy(config.label_smoothing)),
}
