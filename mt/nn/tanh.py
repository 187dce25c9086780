"""tanh x = 2 sigmoid(2 x) - 1, which differs from torch's by 1e-7, and on a CPU takes a quarter of its time."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def tanh(x: Tensor) -> Tensor:
    """As torch's."""
    if not _by_sigmoid(x):
        return x.tanh()
    out: Tensor = _Tanh.apply(x)  # type: ignore[no-untyped-call]
    return out


def tanh_(x: Tensor) -> Tensor:
    """In place and without a derivative."""
    return x.mul_(2).sigmoid_().mul_(2).sub_(1) if _by_sigmoid(x) else x.tanh_()


def _by_sigmoid(x: Tensor) -> bool:
    return x.is_cpu and x.dtype == torch.float32


class _Tanh(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        out = (x * 2).sigmoid_().mul_(2).sub_(1)
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (out,) = ctx.saved_tensors
        of_x: Tensor = grad * (1 - out * out)
        return of_x
