"""Where the norm stands."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from mt.nn.residual import Residual


def normed(x: Tensor) -> Tensor:
    """Layer norm by its formula (Ba et al. 2016), with torch's epsilon, before gain and bias."""
    return (x - x.mean(-1, keepdim=True)) / (x.var(-1, unbiased=False, keepdim=True) + 1e-5).sqrt()


def test_post_norms_the_sum_and_pre_norms_the_input() -> None:
    """Fault 112."""
    torch.manual_seed(0)
    part, x = nn.Linear(6, 6), torch.randn(2, 3, 6)
    torch.testing.assert_close(Residual(nn.LayerNorm(6), 0.0, "post")(x, part), normed(x + part(x)))
    torch.testing.assert_close(Residual(nn.LayerNorm(6), 0.0, "pre")(x, part), x + part(normed(x)))


def test_dropout_falls_on_what_the_part_gives_and_never_on_the_input() -> None:
    torch.manual_seed(0)
    x = torch.randn(1, 1, 1000)
    pre, post = (Residual(nn.LayerNorm(1000), 0.5, position) for position in ("pre", "post"))
    torch.manual_seed(1)
    out = pre(x, lambda x: torch.full_like(x, 8.0))
    dropped = out == x
    assert torch.equal(out, torch.where(dropped, x, x + 16))
    assert float(dropped.double().mean()) == pytest.approx(0.5, abs=5 * 0.5 / 1000**0.5)
    torch.manual_seed(1)
    torch.testing.assert_close(post(x, lambda x: torch.full_like(x, 8.0)), normed(out))
    assert torch.equal(pre.eval()(x, lambda x: torch.full_like(x, 8.0)), x + 8)
