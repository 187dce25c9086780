"""Dropout with masks of random bytes."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from mt.nn.dropout import _AddMasked, _mask, add_dropout, dropout

every_dtype = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
SIZE = 300_001  # odd: the last 64-bit draw is not used whole


@pytest.mark.parametrize("p", [0.001, 0.1, 0.3, 0.5, 0.9, 0.999])
def test_the_share_of_zeros_is_p_to_a_256th_and_the_mean_stays(p: float) -> None:
    torch.manual_seed(0)
    x = dropout(torch.ones(SIZE), p, training=True)
    share = min(max(round(p * 256), 1), 255) / 256
    sigma = (share * (1 - share) / SIZE) ** 0.5
    assert float((x == 0).double().mean()) == pytest.approx(share, abs=5 * sigma)
    assert float(x.double().mean()) == pytest.approx(1.0, abs=5 * sigma / (1 - share))
    assert float((x[x != 0] - 1 / (1 - share)).abs().max()) < 1e-3


@every_dtype
def test_any_type_and_any_shape(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    for shape in ((), (1,), (0, 3), (3, 5, 7), (8,), (2, 3, 4, 5)):
        x = torch.ones(shape, dtype=dtype)
        out = dropout(x, 0.5, training=True)
        assert out.shape == x.shape
        assert out.dtype == dtype
        assert set(out.flatten().tolist()) <= {0.0, 2.0}
    mean = dropout(torch.ones(SIZE, dtype=dtype), 0.3, training=True).double().mean()
    assert float(mean) == pytest.approx(1.0, abs=0.01)


def test_each_byte_of_a_draw_is_random() -> None:
    """No place of the eight that share a draw is zeroed more often than another, or together with its neighbour."""
    torch.manual_seed(0)
    kept = _mask(torch.empty(200_000, 8), 0.5)[0].double()
    assert kept.mean(0).tolist() == pytest.approx([0.5] * 8, abs=5 * 0.5 / 200_000**0.5)
    assert kept.T.corrcoef().triu(1).abs().max() < 5 / 200_000**0.5


@pytest.mark.parametrize(("p", "training"), [(0.0, True), (0.5, False), (0.0, False)])
def test_it_is_the_identity_without_p_and_outside_training(p: float, training: bool) -> None:
    x, residual = torch.randn(5), torch.randn(5)
    before = torch.get_rng_state()
    assert dropout(x, p, training) is x
    assert torch.equal(add_dropout(residual, x, p, training), residual + x)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_gradient_has_the_mask_of_the_forward() -> None:
    x, residual = torch.ones(50, requires_grad=True), torch.zeros(50, requires_grad=True)
    for out in (dropout(x, 0.5, True), add_dropout(residual, x, 0.5, True)):
        (grad,) = torch.autograd.grad((out * torch.arange(50.0)).sum(), x)
        assert torch.equal(grad, out.detach() * torch.arange(50.0))


def test_masks_differ_between_calls_and_repeat_with_the_seed() -> None:
    x = torch.ones(100)
    torch.manual_seed(1)
    first, second = dropout(x, 0.5, True), dropout(x, 0.5, True)
    torch.manual_seed(1)
    assert not torch.equal(first, second)
    assert torch.equal(first, dropout(x, 0.5, True))
    torch.manual_seed(1)
    assert torch.equal(first, add_dropout(torch.zeros(100), x, 0.5, True))


def test_adding_has_the_gradients_of_its_formula() -> None:
    torch.manual_seed(0)
    residual, x = (torch.randn(3, 5, dtype=torch.float64, requires_grad=True) for _ in range(2))
    mask, scale = _mask(x, 0.4)

    def added(residual: Tensor, x: Tensor) -> Tensor:
        out: Tensor = _AddMasked.apply(residual, x, mask, scale)  # type: ignore[no-untyped-call]
        return out

    torch.testing.assert_close(added(residual, x), residual + scale * x * mask)
    assert torch.autograd.gradcheck(added, (residual, x))


@pytest.mark.parametrize("residual_dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_adding_mixed_types(residual_dtype: torch.dtype, dtype: torch.dtype) -> None:
    """Under autocast the residual is float32 and what is added bfloat16."""
    residual = torch.ones(64, dtype=residual_dtype, requires_grad=True)
    x = torch.ones(64, dtype=dtype, requires_grad=True)
    out = add_dropout(residual, x, 0.5, True)
    assert out.dtype == (residual + x).dtype
    assert set(out.tolist()) == {1.0, 3.0}
    torch.autograd.backward(out.sum())
    assert residual.grad is not None
    assert x.grad is not None
    assert (residual.grad.dtype, x.grad.dtype) == (residual_dtype, dtype)
    assert torch.equal(x.grad.float(), out.detach().float() - 1)


@pytest.mark.parametrize("p", [0.1, 0.3])
def test_the_scale_is_not_rounded_to_bfloat16(p: float) -> None:
    """In bfloat16 1 / 0.9 is 0.3 % less: every layer would add so much less in training than it does later."""
    x, residual = torch.ones(256, dtype=torch.bfloat16, requires_grad=True), torch.zeros(256)
    kept = sorted(set(add_dropout(residual, x, p, training=True).tolist()))
    assert kept == [0.0, pytest.approx(256 / (256 - round(256 * p)), rel=1e-6)]


def test_what_is_not_contiguous() -> None:
    torch.manual_seed(0)
    x = torch.arange(1.0, 13).view(3, 4).t()
    out = dropout(x, 0.5, True)
    assert bool(((out == 0) | (out == 2 * x)).all())


def test_other_devices_have_their_own_generator() -> None:
    """The meta device stands for all that are not a CPU."""
    x = torch.ones(3, 4, device="meta")
    assert dropout(x, 0.5, True).device == x.device
    assert add_dropout(x, x, 0.5, True).device == x.device
