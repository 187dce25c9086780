"""Norms by their formulas."""

from __future__ import annotations

import torch
from torch import nn

from mt.nn.norms import NORMS


def test_rms_norm_is_its_formula() -> None:
    """Zhang and Sennrich 2019, equation 4; no mean is taken off, and there is no bias."""
    torch.manual_seed(0)
    norm, x = NORMS["rms"](6, True), torch.randn(2, 6) + 3
    (gain,) = norm.parameters()
    nn.init.normal_(gain)
    torch.testing.assert_close(norm(x), gain * x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt())


def test_layer_norm_is_torchs_with_or_without_bias() -> None:
    assert [len(list(NORMS["layer"](6, bias).parameters())) for bias in (True, False)] == [2, 1]
    x = torch.randn(2, 6)
    torch.testing.assert_close(NORMS["layer"](6, False)(x), nn.functional.layer_norm(x, (6,)))
