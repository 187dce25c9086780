"""Linear layers whose products suit the CPU they run on (mt/nn/products.py); on other devices they are torch's."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from mt.nn.products import laid_out, multiply, padded, product_dtype, side_by_side

_FEW = 256
"""Rows of float32 below which starting oneDNN costs more than it gains."""


Product: TypeAlias = Callable[[Tensor, nn.Parameter, "Tensor | None"], Tensor]
"""x (..., K), weight (N, K), bias (N,) -> (..., N)."""

_product: ContextVar[Product | None] = ContextVar("_product", default=None)


@contextmanager
def products_by(product: Product) -> Iterator[None]:
    """Let `product` do what linear layers do with a parameter, as decoding has weights in forms of its own."""
    token = _product.set(product)
    try:
        yield
    finally:
        _product.reset(token)


class Linear(nn.Linear):
    """x W^T + b, as torch's, and with its names."""

    def forward(self, input: Tensor) -> Tensor:
        """(..., K) -> (..., N)."""
        return linear(input, self.weight, self.bias)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x (..., K), weight (N, K), bias (N,) -> (..., N), in the type that autocast asks for."""
    if (product := _whole_product(x, weight)) is not None:
        return product(x, weight, bias)
    (out,) = _Linear.apply(x, x.shape[:-1], weight, bias, product_dtype(x), ((len(weight),),))  # type: ignore[no-untyped-call]
    return cast("Tensor", out)


def into_heads(x: Tensor, weight: Tensor, bias: Tensor | None, *heads: int) -> tuple[Tensor, ...]:
    """x (B, T, D), weight (N, D), bias (N,) -> (B, H, T, K) for each H of `heads`, whose sum times K is N."""
    width = len(weight) // sum(heads)
    if (product := _whole_product(x, weight)) is not None:
        out = torch.split(product(x, weight, bias).view(*x.shape[:-1], sum(heads), width), list(heads), -2)
    else:
        parts = tuple((count, width) for count in heads)
        out = _Linear.apply(x, x.shape[:-1], weight, bias, product_dtype(x), parts)  # type: ignore[no-untyped-call]
    return tuple(part.transpose(1, 2) for part in out)


def of_heads(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x (B, H, T, K), weight (N, H x K), bias (N,) -> (B, T, N)."""
    x = x.transpose(1, 2)
    if (product := _whole_product(x, weight)) is not None:
        return product(x.flatten(2), weight, bias)
    (out,) = _Linear.apply(x, x.shape[:2], weight, bias, product_dtype(x), ((len(weight),),))  # type: ignore[no-untyped-call]
    return cast("Tensor", out)


def _whole_product(x: Tensor, weight: Tensor) -> Callable[..., Tensor] | None:
    """What multiplies `x` by `weight` (N, K): what `products_by` says, or torch where that is best; else `_Linear`."""
    own = _product.get()
    if own is not None and isinstance(weight, nn.Parameter):
        return own
    is_torchs = not x.is_cpu or (product_dtype(x) == torch.float32 and x.numel() < _FEW * weight.size(1))
    return F.linear if is_torchs else None


def rows_of(x: Tensor) -> Tensor:
    """(..., K) -> (M', K): what several linear layers in a row work on, its rows laid out once; see `shaped`."""
    if not x.is_cpu:
        return x
    rows: Tensor = _Rows.apply(x, product_dtype(x))  # type: ignore[no-untyped-call]
    return rows


def shaped(rows: Tensor, like: Tensor) -> Tensor:
    """Undo `rows_of(like)`: (M', N) -> (..., N)."""
    return rows if not like.is_cpu else _cut(rows, like.shape)


class _Linear(torch.autograd.Function):
    """x (*`lead`, ...), whose last sizes make up K -> (*`lead`, *part) for each of `parts`, which make up N.

    So what heads read and write, and their gradients, are copied once, to where products read them.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        lead: torch.Size,
        weight: Tensor,
        bias: Tensor | None,
        dtype: torch.dtype,
        parts: tuple[tuple[int, ...], ...],
    ) -> tuple[Tensor, ...]:
        rows, low = side_by_side((x,), lead, dtype), weight.to(dtype)
        ctx.save_for_backward(rows if rows.dtype != x.dtype or x.dim() > len(lead) + 1 else x, low)
        ctx.lead, ctx.shape, ctx.bias_dtype = lead, x.shape, None if bias is None else bias.dtype
        out = multiply(rows, low, None if bias is None else bias.to(dtype))[: lead.numel()]
        columns = torch.split(out, [math.prod(part) for part in parts], 1)
        return tuple(own.view(*lead, *part) for own, part in zip(columns, parts, strict=True))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, low = ctx.saved_tensors
        rows = side_by_side(grads, ctx.lead, low.dtype)
        grad_x = multiply(rows, low.t())[: ctx.lead.numel()].view(ctx.shape) if ctx.needs_input_grad[0] else None
        grad_weight = _weight_gradient(rows, x.flatten(0, -2)) if ctx.needs_input_grad[2] else None
        return grad_x, None, grad_weight, rows.sum(0).to(ctx.bias_dtype) if ctx.bias_dtype else None, None, None


class _Rows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, dtype: torch.dtype) -> Tensor:
        ctx.shape, ctx.dtype = x.shape, x.dtype
        return laid_out(x, dtype, padded(x.shape[:-1].numel()))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return _cut(grad, ctx.shape).to(ctx.dtype), None


def _cut(rows: Tensor, shape: torch.Size) -> Tensor:
    """(M', N) -> (..., N), with all but the last size of `shape`."""
    return rows[: shape[:-1].numel()].view(*shape[:-1], rows.size(1))


def _weight_gradient(grad: Tensor, x: Tensor) -> Tensor:
    """grad (M', N) and x (M or M', K) -> (N, K): where both have M' rows of float32 at least, else of their type."""
    if len(x) == len(grad):
        return multiply(grad.t(), x.t()).to(torch.promote_types(x.dtype, torch.float32))
    whole = len(x) // 64 * 64
    total = multiply(grad[:whole].t(), x[:whole].t())
    return total.addmm_(grad[whole : len(x)].t(), x[whole:])
