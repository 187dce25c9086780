"""Linear layers in a loop over time, where each step must wait for the one before and so is a small product.

Within `loop()` a weight is laid out once however many steps use it, and its gradient is one product for all steps. In
the backward pass each step gives its gradient to what it read, and files both; the weight's own turn comes after them,
because all steps depend on an empty tensor that was made of it (`_Anchor`). On a CPU that takes half the time;
elsewhere, and without gradients, nothing differs from `mt.nn.linear`. There is no second derivative.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from mt.nn.linear import Linear, linear
from mt.nn.products import laid_out, multiply, padded, product_dtype


class StepLinear(Linear):
    """x W^T + b, as torch's, and with its names; for use in a loop."""

    def forward(self, input: Tensor) -> Tensor:
        """(..., K) -> (..., N)."""
        return step_linear(input, self.weight, self.bias)


@contextmanager
def loop() -> Iterator[None]:
    """A loop over time: `step_linear` makes one gradient of each weight, which must not change meanwhile."""
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
    dtype = product_dtype(x)
    shared = weights.get(key := (id(weight), id(bias), dtype))
    if shared is None:
        shared = weights[key] = _Weight(weight, bias, dtype)
    out: Tensor = _Step.apply(x, shared.anchor, shared)  # type: ignore[no-untyped-call]
    return out


class _Weight:
    """A weight in the loop, with what its gradient is made of."""

    def __init__(self, weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> None:
        self.weight = weight.detach().to(dtype).contiguous()
        self.bias = None if bias is None else bias.detach().to(dtype)
        self.uses = _Uses()
        self.owners = weight, bias  # so that nobody else is given their ids while the loop lasts
        self.anchor: Tensor = _Anchor.apply(weight, bias, self.uses)  # type: ignore[no-untyped-call]


_weights: ContextVar[dict[tuple[int, int, torch.dtype], _Weight] | None] = ContextVar("_weights", default=None)


class _Uses:
    """What the steps of one backward pass filed: what each read, and the gradient of what it gave, of the same rows."""

    def __init__(self) -> None:
        self._pass, self._filed = -1, list[tuple[Tensor, Tensor]]()

    def file(self, x: Tensor, grad: Tensor) -> None:
        """Keep both until `take`. What an earlier pass left that was broken off is forgotten."""
        current = torch._C._current_graph_task_id()
        if current != self._pass:
            self._pass, self._filed = current, []
        self._filed.append((x.detach(), grad.detach()))  # without the graph, which leads here

    def take(self) -> list[tuple[Tensor, Tensor]]:
        """What this pass filed."""
        filed = self._filed if self._pass == torch._C._current_graph_task_id() else []
        self._filed = []
        return filed


class _Anchor(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, bias: Tensor | None, uses: _Uses) -> Tensor:
        ctx.uses, ctx.dtypes = uses, (weight.dtype, None if bias is None else bias.dtype)
        ctx.set_materialize_grads(False)
        return weight.new_empty(0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, _: Tensor | None) -> tuple[Tensor | None, Tensor | None, None]:
        filed = ctx.uses.take()
        if not filed:
            return None, None, None
        x, grad = (_under_each_other(parts) for parts in zip(*filed, strict=True))
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
        return multiply(rows, weight.weight, weight.bias)[:count].view(*x.shape[:-1], len(weight.weight))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, None, None]:
        (rows,), weight, count = ctx.saved_tensors, ctx.weight, ctx.shape[:-1].numel()
        grad = laid_out(grad, rows.dtype, len(rows))
        if ctx.needs_input_grad[1]:
            weight.uses.file(rows, grad)
        if not ctx.needs_input_grad[0]:
            return None, None, None
        return multiply(grad, weight.weight.t())[:count].view(ctx.shape).to(ctx.dtype), None, None


def _under_each_other(parts: tuple[Tensor, ...]) -> Tensor:
    """Rows of all parts, and zeros up to a number of rows that kernels are made for; see `padded`."""
    count = sum(map(len, parts))
    return torch.cat((*parts, parts[0].new_zeros(padded(count) - count, parts[0].size(1))))
