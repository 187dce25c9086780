"""Linear layers in a loop over time, where each step must wait for the one before and so is a small product.

Within `loop()` a weight is laid out once however many steps use it, and its gradient is one product for all steps. On
a CPU that halves the time of the steps; elsewhere, and without gradients, nothing differs from `mt.nn.linear`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from mt.nn.linear import Linear, laid_out, linear, multiply, padded, product_dtype


class StepLinear(Linear):
    """x W^T + b, as torch's, and with its names; for use in a loop."""

    def forward(self, input: Tensor) -> Tensor:
        """(..., K) -> (..., N)."""
        return step_linear(input, self.weight, self.bias)


@contextmanager
def loop() -> Iterator[None]:
    """A loop over time: what `step_linear` does in it ends in one gradient of each weight."""
    token = _weights.set({})
    try:
        yield
    finally:
        _weights.reset(token)


def step_linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x (..., K), weight (N, K), bias (N,) -> (..., N), in the type that autocast asks for."""
    weights = _weights.get()
    if weights is None or not x.is_cpu or not torch.is_grad_enabled():
        return linear(x, weight, bias)
    if id(weight) not in weights:
        weights[id(weight)] = _Weight(weight, bias, product_dtype(x))
    out: Tensor = _Step.apply(x, weights[id(weight)].anchor, weights[id(weight)])  # type: ignore[no-untyped-call]
    return out


class _Weight:
    """A weight in the loop, with what its gradient is made of."""

    def __init__(self, weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> None:
        self.weight = weight.detach().to(dtype).contiguous()
        self.bias = None if bias is None else bias.detach().to(dtype)
        self.uses: list[tuple[Tensor, Tensor]] = []  # (x, gradient of the product), of the same rows
        self.owner = weight  # keeps the key of `_weights` from being given to another
        self.anchor: Tensor = _Anchor.apply(weight, bias, self)  # type: ignore[no-untyped-call]


_weights: ContextVar[dict[int, _Weight] | None] = ContextVar("_weights", default=None)


class _Anchor(torch.autograd.Function):
    """What all steps depend on: its turn in the backward pass comes after the last of them."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, bias: Tensor | None, uses: _Weight) -> Tensor:
        ctx.uses, ctx.dtypes = uses.uses, (weight.dtype, None if bias is None else bias.dtype)
        ctx.set_materialize_grads(False)
        return weight.new_empty(0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, _: Tensor | None) -> tuple[Tensor | None, Tensor | None, None]:
        if not ctx.uses:
            return None, None, None
        x, grad = (_under_each_other(parts) for parts in zip(*ctx.uses, strict=True))
        ctx.uses.clear()
        weight_dtype, bias_dtype = ctx.dtypes
        of_bias = None if bias_dtype is None else grad.sum(0, dtype=bias_dtype)
        return multiply(grad.t(), x.t()).to(weight_dtype), of_bias, None


class _Step(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, anchor: Tensor, weight: _Weight) -> Tensor:  # noqa: ARG004
        count = x.shape[:-1].numel()
        rows = laid_out(x, weight.weight.dtype, padded(count))
        ctx.save_for_backward(rows)
        ctx.weight, ctx.shape, ctx.dtype = weight, x.shape, x.dtype
        return multiply(rows, weight.weight, weight.bias)[:count].view(*x.shape[:-1], -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (rows,), weight, count = ctx.saved_tensors, ctx.weight, ctx.shape[:-1].numel()
        grad = laid_out(grad, rows.dtype, len(rows))
        weight.uses.append((rows, grad))
        return multiply(grad, weight.weight.t())[:count].view(ctx.shape).to(ctx.dtype), None, None


def _under_each_other(parts: tuple[Tensor, ...]) -> Tensor:
    """Rows of all parts, and zeros up to a number of rows that kernels are made for; see `padded`."""
    count = sum(map(len, parts))
    return torch.cat((*parts, parts[0].new_zeros(padded(count) - count, parts[0].size(1))))
