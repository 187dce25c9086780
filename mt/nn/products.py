"""One large product on a CPU: in which type, by which kernel, and of operands that suit it.

Two things cost a CPU much time or memory, and both are mended where the rows of an input are laid out:

- oneDNN, which multiplies bfloat16, builds a kernel for each number of rows it meets, half a millisecond and half a
  megabyte each, and never forgets one. Batches of sentences have hundreds of sizes, so rows are rounded up (`padded`).
- MKL, which multiplies float32, uses half the width of the vector units of processors that are not Intel's. oneDNN
  uses all of it, and is more than twice as fast there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor


def product_dtype(x: Tensor) -> torch.dtype:
    """What products with `x` are computed in: autocast's type where it is on."""
    device = x.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype


def padded(count: int, sizes: int = 32) -> int:
    """The number of rows that `count` is rounded up to: at most `sizes` between two powers of two; by 32, 3 % more."""
    step = max(1, (1 << count.bit_length()) // (2 * sizes))
    return -(-count // step) * step


def laid_out(x: Tensor, dtype: torch.dtype, total: int) -> Tensor:
    """(..., K) -> (`total`, K) in `dtype`, zeros in the rows that are added; `x` itself where it is so already."""
    return side_by_side((x,), x.shape[:-1], dtype, total)


def side_by_side(parts: Sequence[Tensor], lead: torch.Size, dtype: torch.dtype, total: int | None = None) -> Tensor:
    """`parts`, each (*`lead`, ...), side by side as (`total`, K) in `dtype`, as `laid_out` does with one."""
    count, widths = lead.numel(), [math.prod(part.shape[len(lead) :]) for part in parts]
    total = padded(count) if total is None else total
    if total == count and len(parts) == 1:
        return parts[0].reshape(count, *widths).to(dtype).contiguous()
    rows = parts[0].new_empty(total, sum(widths), dtype=dtype)
    for part, columns in zip(parts, torch.split(rows[:count], widths, 1), strict=True):
        columns.view(part.shape).copy_(part)
    rows[count:].zero_()
    return rows


def multiply(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x (M, K), weight (N, K), bias (N,), of one type -> (M, N), by the fastest kernel."""
    if x.is_cpu and x.numel() and _suits_onednn(x.dtype, bias is not None):
        out: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
        return out
    return F.linear(x, weight, bias)


def _suits_onednn(dtype: torch.dtype, with_bias: bool) -> bool:
    """Whether to call oneDNN at once: torch's own call of it goes over the result a second time to add a bias."""
    return (dtype == torch.float32 and _shuns_mkl()) or (dtype == torch.bfloat16 and with_bias and has_bf16_kernels())


@cache
def has_bf16_kernels() -> bool:
    """Whether torch has oneDNN, and that bfloat16 on this processor."""
    mkldnn = torch.ops.mkldnn
    return hasattr(mkldnn, "_linear_pointwise") and bool(mkldnn._is_mkldnn_bf16_supported())


@cache
def _shuns_mkl() -> bool:
    """Whether torch multiplies float32 by MKL, on a processor that MKL does not use whole, and has oneDNN."""
    if not (torch.backends.mkl.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")):  # type: ignore[no-untyped-call]
        return False
    try:
        return "GenuineIntel" not in Path("/proc/cpuinfo").read_text("utf-8", "replace")
    except OSError:
        return False
