"""Dropout that does not become the slowest part of a small model's step.

torch draws CPU dropout masks one number an element from a serial generator; at a model width of 128 that takes as long
as the matrix products. Here an element costs one random byte: eight elements share one 64-bit draw.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def dropout(x: Tensor, p: float, training: bool) -> Tensor:
    """Zero elements of `x` with probability `p` and scale the rest to keep the mean.

    On a CPU `p` is rounded to a 256th, but to neither 0 nor 1.
    """
    if not training or p == 0:
        return x
    if not x.is_cpu:
        return F.dropout(x, p)
    mask, scale = _mask(x, p)
    return (x * mask.to(x.dtype)).mul_(scale)


def add_dropout(residual: Tensor, x: Tensor, p: float, training: bool) -> Tensor:
    """`residual + dropout(x)`, in one pass over memory; both of one shape."""
    if not training or p == 0:
        return residual + x
    if not x.is_cpu:
        return residual + F.dropout(x, p)
    added: Tensor = _AddMasked.apply(residual, x, *_mask(x, p))  # type: ignore[no-untyped-call]
    return added


def _mask(x: Tensor, p: float) -> tuple[Tensor, float]:
    """0 or 1 as bytes in `x`'s shape, and 1 / (share kept), with which the mean is exact whatever `p` rounds to.

    Apart, because the scale is no number of bfloat16: for p = 0.1 it would be 0.3 % too small there. Bytes, compared in
    place, because booleans are made 25 times as slowly on a CPU, and become floats eight times as slowly.
    """
    threshold = min(max(round(p * 256), 1), 255)
    words = torch.empty((x.numel() + 7) // 8, dtype=torch.int64).random_(-(2**63), None)
    return words.view(torch.uint8)[: x.numel()].view(x.shape).ge_(threshold), 256 / (256 - threshold)


class _AddMasked(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, residual: Tensor, x: Tensor, mask: Tensor, scale: float) -> Tensor:
        ctx.save_for_backward(mask)
        ctx.scale, ctx.dtype = scale, x.dtype
        wide = torch.promote_types(residual.dtype, x.dtype)
        return torch.addcmul(residual.to(wide), x.to(wide), mask.to(wide), value=scale)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:
        (mask,) = ctx.saved_tensors
        return grad, (grad * mask.to(grad.dtype)).mul_(ctx.scale).to(ctx.dtype), None, None
