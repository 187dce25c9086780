"""Linear layers packed once for decoding on a CPU, in float32 or less: x W^T + b, with or without a ReLU.

In float32 the products are oneDNN's where PyTorch has it: on processors for which MKL has no kernels of their own they
take half the time. Small ones of few rows stay with MKL, which starts faster.
"""

from __future__ import annotations

import warnings
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from mt.errors import ConfigError
from mt.nn.products import has_bf16_kernels, padded

FEW_ROWS = 32
SMALL_WEIGHT = 2**17
"""Numbers of a weight below which so few rows are MKL's."""
MANY_NUMBERS = 2**16
"""Numbers of all rows from which on one row more takes as long as a kernel costs in a search."""


def few_sizes(count: int, width: int) -> int:
    """What `count` rows of `width` numbers are rounded up to for oneDNN: fewer sizes than in training has a search.

    Where products take long, so that rows for nothing cost more than kernels, there are twice as many.
    """
    return padded(count, sizes=8 if count * width < MANY_NUMBERS else 16)


class Packed(Protocol):
    """A packed layer."""

    def __call__(self, x: Tensor, relu: bool = False) -> Tensor:
        """`x` (N, D) -> (N, F): float32 or, of a packing in less than that, narrower."""
        ...


class Packing(Protocol):
    """Makes packed layers."""

    def __call__(self, weight: Tensor, bias: Tensor | None) -> Packed:
        """Pack `weight` (F, D) and `bias` (F,)."""
        ...

    def rounded(self, count: int, width: int) -> int:
        """The number of rows of `width` numbers that `count` is best rounded up to."""
        ...


class PackedFloat:
    """In float32: the same function as `torch.nn.Linear`."""

    rounded = staticmethod(few_sizes)

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        """Pack `weight` (F, D) and `bias` (F,)."""
        self._bias = None if bias is None else bias.detach()
        self._large = _for_onednn(weight.detach().contiguous())
        small = self._large is None or weight.numel() < SMALL_WEIGHT
        self._small = weight.detach().t().contiguous() if small else None

    def __call__(self, x: Tensor, relu: bool = False) -> Tensor:
        """As `Packed`."""
        if self._small is None or (self._large is not None and x.size(0) >= FEW_ROWS):
            return _fused(x, self._large, self._bias, relu)
        out = x @ self._small if self._bias is None else torch.addmm(self._bias, x, self._small)
        return out.relu_() if relu else out


def _for_onednn(weight: Tensor) -> Tensor | None:
    """`weight` in oneDNN's own layout, which PyTorch itself uses in compiled models only; None where it is not there.

    Few rows gain the most: the product is up to twice as fast where the layout is not to be changed each time.
    """
    try:
        packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight)
    except AttributeError:
        return None
    return packed


def _fused(x: Tensor, packed: Tensor | None, bias: Tensor | None, relu: bool) -> Tensor:
    """The product with what `_for_onednn` packed."""
    out: Tensor = torch.ops.mkldnn._linear_pointwise.default(x, packed, bias, "relu" if relu else "none", [], "")
    return out


class PackedBFloat16:
    """In bfloat16 with sums in float32; its output is bfloat16."""

    rounded = staticmethod(few_sizes)

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        """Pack `weight` (F, D) and `bias` (F,)."""
        self._bias = None if bias is None else bias.detach().bfloat16()
        low = weight.detach().bfloat16()
        self._packed = _for_onednn(low) if has_bf16_kernels() else None
        self._weight = low if self._packed is None else None

    def __call__(self, x: Tensor, relu: bool = False) -> Tensor:
        """As `Packed`."""
        if self._weight is None:
            return _fused(x.bfloat16(), self._packed, self._bias, relu)
        out = F.linear(x.bfloat16(), self._weight, self._bias)
        return out.relu_() if relu else out


class PackedInt8:
    """In 8-bit integers: a scale for each output in the weights, one for all of `x` in each product."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        """Quantise and pack `weight` (F, D) and `bias` (F,).

        Raises:
            ConfigError: this PyTorch has no kernels for it.
        """
        scales = weight.detach().abs().amax(1).clamp(min=1e-12).double() / 127
        with warnings.catch_warnings(), _int8_engine():
            warnings.simplefilter("ignore")  # the call is to move to another package one day
            zeros = torch.zeros(len(weight), dtype=torch.int64)
            quantised = torch.quantize_per_channel(weight.detach(), scales, zeros, 0, torch.qint8)
            self._weight = torch.ops.quantized.linear_prepack(quantised, None if bias is None else bias.detach())

    @staticmethod
    def rounded(count: int, width: int) -> int:
        """As `Packing`: fbgemm's kernels are for any number of rows."""
        return count if _ENGINES[0] in torch.backends.quantized.supported_engines else few_sizes(count, width)

    def __call__(self, x: Tensor, relu: bool = False) -> Tensor:
        """As `Packed`."""
        quantized = torch.ops.quantized
        product = quantized.linear_relu_dynamic.default if relu else quantized.linear_dynamic.default
        out: Tensor = product(x, self._weight)
        return out


_ENGINES = ("fbgemm", "onednn", "qnnpack")
"""Of kernels for 8-bit products, the best first."""


class _int8_engine:  # noqa: N801 - a context manager, read as a verb
    """The kernels for 8-bit products, chosen while weights are packed; fbgemm builds none for each number of rows."""

    def __enter__(self) -> None:
        self._before = torch.backends.quantized.engine
        there = torch.backends.quantized.supported_engines
        names = [name for name in _ENGINES if name in there]
        if not names:
            raise ConfigError(
                "decode.precision int8: this PyTorch has no kernels for it; leave it at fp32, or set bf16."
            )
        torch.backends.quantized.engine = names[0]

    def __exit__(self, *_: object) -> None:
        torch.backends.quantized.engine = self._before


PACKINGS: dict[str, Packing] = {
    "fp32": PackedFloat,
    "bf16": PackedBFloat16,
    "int8": PackedInt8,
}


def output_packing(precision: str) -> Packing:
    """That of an output layer: candidates of bfloat16 are often equal, and equals take long to be put in order."""
    return PACKINGS["fp32" if precision == "bf16" else precision]


class PackedProducts:
    """Products of linear layers (`mt.nn.linear.products_by`) by packed forms, made of each weight once.

    Weights must not change while it is used.
    """

    def __init__(self, packing: Packing) -> None:
        self._packing = packing
        self._packed: dict[int, tuple[Tensor, Packed]] = {}  # a weight is kept, so that its id is not given again

    def __call__(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """x (..., K), weight (N, K), bias (N,) -> (..., N), in the type of `x`."""
        if id(weight) not in self._packed:
            self._packed[id(weight)] = weight, self._packing(weight, bias)
        _, packed = self._packed[id(weight)]
        rows = x.flatten(0, -2)
        count, width = rows.shape
        out = packed(F.pad(rows, (0, 0, 0, self._packing.rounded(count, width) - count)))[:count]
        return out.to(x.dtype).view(*x.shape[:-1], out.size(1))
