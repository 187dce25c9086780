"""Norms of a vector of width D, each with a learned gain."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn


def layer_norm(dim: int, bias: bool = True) -> nn.Module:
    """(x - mean) / deviation (Ba et al. 2016), epsilon 1e-5."""
    return nn.LayerNorm(dim, bias=bias)


def rms_norm(dim: int, bias: bool = True) -> nn.Module:  # noqa: ARG001 (it has none)
    """x / root mean square (Zhang and Sennrich 2019, section 3, equation 4), epsilon 1e-6; no bias."""
    return nn.RMSNorm(dim, eps=1e-6)


NORMS: dict[str, Callable[[int, bool], nn.Module]] = {"layer": layer_norm, "rms": rms_norm}
