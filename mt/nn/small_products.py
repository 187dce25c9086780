"""Many small products at once, as attention has them: queries with keys, and weights with values, for each head.

In bfloat16 they take a third of their time in float32. But oneDNN, which multiplies bfloat16, builds a kernel for each
size that it meets, half a millisecond and half a megabyte each, and never forgets one: so lengths are rounded up, and
it is always a power of two of matrices that are multiplied at a time. Where that does not pay, as in attention that
goes step by step, the products are in float32 (`product_of_any_size`).
"""

from __future__ import annotations

import torch
from torch import Tensor

from mt.nn.products import has_bf16_kernels, padded

SHORT = 16
"""Positions below which rounding costs more than bfloat16 gains."""
_TOGETHER = 512
"""Matrices at a time, at most."""


def operand_dtype(query: Tensor, key: Tensor) -> torch.dtype:
    """What `query` (B, H, T, K) and `key` (B, G, S, K) are best multiplied in on a CPU."""
    long = min(query.size(2), key.size(2)) >= SHORT
    return torch.bfloat16 if long and query.dtype == torch.bfloat16 and has_bf16_kernels() else torch.float32


def length_for(length: int, dtype: torch.dtype) -> int:
    """Positions of operands of `length` in `dtype`: at most four lengths between two powers of two."""
    return length if dtype == torch.float32 else padded(length, sizes=4)


def heads_laid_out(x: Tensor, dtype: torch.dtype) -> Tensor:
    """`x` (B, H, T, K) in `dtype` as (B, H, T', K), contiguous, with zeros at the positions that are added."""
    *shape, length, width = x.shape
    total = length_for(length, dtype)
    if total == length:
        return x.to(dtype, memory_format=torch.contiguous_format).contiguous()
    rows = x.new_empty(*shape, total, width, dtype=dtype)
    rows[:, :, :length] = x
    rows[:, :, length:] = 0
    return rows


def multiply_heads(x: Tensor, y: Tensor) -> Tensor:
    """`x` (B, H, T, K) and `y` (B, H, K, S) -> (B, H, T, S)."""
    if x.dtype == torch.float32:
        return x @ y
    left, right = x.flatten(0, 1), y.flatten(0, 1)
    out = left.new_empty(len(left), left.size(1), right.size(2))
    size = max(1, min(_TOGETHER, 1 << len(left).bit_length() >> 1))
    for start in range(0, len(left), size):
        some = slice(min(start, len(left) - size), min(start + size, len(left)))  # the last may repeat a part
        torch.bmm(left[some], right[some], out=out[some])
    return out.view(*x.shape[:2], *out.shape[1:])


def product_of_any_size(x: Tensor, y: Tensor) -> Tensor:
    """`x` @ `y`, on a CPU not in the narrower type that autocast asks for, which needs a kernel for each size."""
    x, y = widened(x), widened(y)
    with torch.autocast("cpu", enabled=False):
        return x @ y


def widened(x: Tensor) -> Tensor:
    """`x` as `product_of_any_size` takes it, which spares many products of it their conversions."""
    return x.float() if x.is_cpu and torch.is_autocast_enabled("cpu") else x
