from __future__ import annotations

import pytest
import torch

from mt.nn.tanh import tanh, tanh_

POINTS = torch.cat((torch.linspace(-12, 12, 1001), torch.tensor([-1e4, -1e-4, 0.0, 1e-4, 1e4])))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_it_is_torchs_and_so_is_its_derivative(dtype: torch.dtype) -> None:
    ours, theirs = (POINTS.to(dtype, copy=True).requires_grad_() for _ in range(2))
    found, expected = tanh(ours), theirs.tanh()
    torch.testing.assert_close(found, expected, rtol=0.0, atol=2e-7)
    derivatives = (torch.autograd.grad(out.sum(), x)[0] for out, x in ((found, ours), (expected, theirs)))
    torch.testing.assert_close(*derivatives, rtol=0.0, atol=5e-7)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_in_place_also_of_a_part(dtype: torch.dtype) -> None:
    x = POINTS.to(dtype).repeat(2, 1)
    expected = x.clone()
    expected[:, 100:200].tanh_()
    tanh_(x[:, 100:200])
    torch.testing.assert_close(x, expected, rtol=0.0, atol=2e-7)
