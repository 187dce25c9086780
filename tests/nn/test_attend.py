"""Attention against the formula, against torch's own, and with rows that may attend nowhere."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from mt.nn.attend import _attend_fused, _attend_plainly, attend
from mt.nn.dropout import dropout
from mt.nn.masks import causal_mask

Kernel = Callable[..., Tensor]
# The CPU's way and that of all other devices, which a CPU can follow too.
every_kernel = pytest.mark.parametrize("kernel", [_attend_plainly, _attend_fused])
B, H, T, S, K = 2, 3, 4, 5, 6


def projected(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(seed)
    return (
        torch.randn(B, H, T, K, requires_grad=True),
        torch.randn(B, H, S, K, requires_grad=True),
        torch.randn(B, H, S, K, requires_grad=True),
    )


def masks() -> dict[str, Tensor | None]:
    torch.manual_seed(7)
    anywhere = torch.rand(B, 1, T, S) > 0.5
    anywhere[..., 2] = True
    return {"no mask": None, "padding": torch.arange(S) < torch.tensor([3, 5])[:, None, None, None], "any": anywhere}


def by_formula(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """Vaswani et al. 2017, equation 1, number by number in Python's float64."""
    out = torch.zeros(B, H, T, K, dtype=torch.float64)
    allowed = torch.ones(B, H, T, S, dtype=torch.bool) if mask is None else mask.expand(B, H, T, S)
    for b, h, t in torch.cartesian_prod(torch.arange(B), torch.arange(H), torch.arange(T)).tolist():
        places = [s for s in range(S) if allowed[b, h, t, s]]
        dots = [sum(float(q) * float(k) for q, k in zip(query[b, h, t], key[b, h, s], strict=True)) for s in places]
        masses = [math.exp(dot / math.sqrt(K)) for dot in dots]
        for s, mass in zip(places, masses, strict=True):
            out[b, h, t] += mass / math.fsum(masses) * value[b, h, s].double()
    return out


@every_kernel
@pytest.mark.parametrize("name", masks())
def test_attention_is_its_formula(kernel: Kernel, name: str) -> None:
    query, key, value = projected()
    mask = masks()[name]
    with torch.no_grad():
        found, expected = kernel(query, key, value, mask, 0.0), by_formula(query, key, value, mask)
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", masks())
def test_both_kernels_have_the_same_gradients(name: str) -> None:
    gradients = []
    for kernel in (_attend_plainly, _attend_fused):
        inputs = projected()
        out = kernel(*inputs, masks()[name], 0.0)
        gradients.append(torch.autograd.grad((out * torch.arange(K)).sum(), inputs))
    for plain, fused in zip(*gradients, strict=True):
        torch.testing.assert_close(plain, fused, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("batch", [1, 2])
def test_gradients_through_dropout_bias_and_shared_keys(batch: int) -> None:
    """Those that autograd finds of the formula, with the same dropout."""
    torch.manual_seed(0)
    sizes = [(batch, 4, T, K), (batch, 2, S, K), (batch, 2, S, K), (4, T, S)]
    inputs = query, key, value, bias = tuple(torch.randn(size, requires_grad=True) for size in sizes)
    torch.manual_seed(1)
    out = _attend_plainly(query, key, value, None, 0.4, bias)
    torch.manual_seed(1)
    key, value = (x.repeat_interleave(2, dim=1) for x in (key, value))
    weights = (query @ key.transpose(-2, -1) / math.sqrt(K) + bias).softmax(-1)
    expected = dropout(weights, 0.4, training=True) @ value
    torch.testing.assert_close(out, expected)
    ours, theirs = (torch.autograd.grad((x * torch.arange(K)).sum(), inputs) for x in (out, expected))
    for our, their in zip(ours, theirs, strict=True):
        torch.testing.assert_close(our, their, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("p", [0.0, 0.4])
@pytest.mark.parametrize("mask", [None, "causal", "padding"])
def test_long_sequences_in_bfloat16_are_those_in_float32(mask: str | None, p: float) -> None:
    """With keys that heads share, a bias, a source without a word; with rounded lengths, or the same dropout."""
    torch.manual_seed(0)
    length = 24 if p else 21  # of rounded lengths more is drawn
    inputs = [torch.randn(2, heads, length, K).bfloat16().requires_grad_() for heads in (4, 2, 2)]
    bias = torch.randn(4, length, length, requires_grad=True)
    padding = torch.arange(length) < torch.tensor([0, 18])[:, None, None, None]
    allowed = {"causal": causal_mask(length, torch.device("cpu")), "padding": padding}.get(mask or "")
    results = []
    for wide in (False, True):
        query, key, value = (x.float() if wide else x for x in inputs)
        torch.manual_seed(1)
        out = _attend_plainly(query, key, value, allowed, p, bias).float()
        results.append((out.detach(), *torch.autograd.grad((out * torch.arange(K)).sum(), (*inputs, bias))))
    for narrow, plain in zip(*results, strict=True):
        assert float((narrow.float() - plain).norm()) <= 0.01 * float(plain.norm())


def test_there_is_no_second_derivative() -> None:
    """And nobody is given a wrong one."""
    inputs = projected()
    grad, *_ = torch.autograd.grad(_attend_plainly(*inputs, None, 0.0).square().sum(), inputs, create_graph=True)
    with pytest.raises(RuntimeError, match="twice"):
        torch.autograd.backward(grad.sum())


@every_kernel
def test_weights_on_padding_are_exactly_zero(kernel: Kernel) -> None:
    """Fault 71: of a huge key and value behind the mask nothing is seen."""
    query, key, value = projected()
    mask = masks()["padding"]
    huge_key, huge_value = key.detach().clone(), value.detach().clone()
    huge_key[0, :, 3:], huge_value[0, :, 3:] = 1e4, 1e30
    found = kernel(query, huge_key, huge_value, mask, 0.0)
    torch.testing.assert_close(found, kernel(query, key, value, mask, 0.0), rtol=0, atol=1e-6)


@every_kernel
def test_a_row_that_may_attend_nowhere(kernel: Kernel) -> None:
    """Fault 64: zeros, finite gradients, none from the row; the other row as if it were alone."""
    query, key, value = projected()
    mask = torch.tensor([False, True]).view(2, 1, 1, 1).expand(2, 1, 1, S)
    out = kernel(query, key, value, mask, 0.0)
    gradients = torch.autograd.grad(out.square().sum() + out.sum(), (query, key, value))
    assert not out[0].any()
    for gradient in gradients:
        assert gradient.isfinite().all()
        assert not gradient[0].any()
        assert gradient[1].any()
    alone = kernel(query[1:], key[1:], value[1:], None, 0.0)
    torch.testing.assert_close(out[1:], alone, rtol=0, atol=1e-6)


@every_kernel
@pytest.mark.parametrize(("batch", "length"), [(0, 3), (2, 0)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_nobody_asks(kernel: Kernel, batch: int, length: int, dtype: torch.dtype) -> None:
    sizes = ((batch, 4, length, K), *[(batch, 2, 20, K)] * 2)
    query, key, value = (torch.ones(size, dtype=dtype, requires_grad=True) for size in sizes)
    out = kernel(query, key, value, torch.ones(batch, 1, 1, 20, dtype=torch.bool), 0.0)
    assert out.shape == (batch, 4, length, K)
    assert not any(grad.any() for grad in torch.autograd.grad(out.sum(), (query, key, value)))


@every_kernel
def test_large_scores_stay_finite(kernel: Kernel) -> None:
    query, key, value = projected()
    out = kernel(query * 1e4, key * 1e4, value, masks()["padding"], 0.0)
    assert out.isfinite().all()
    assert all(grad.isfinite().all() for grad in torch.autograd.grad(out.sum(), (query, key, value)))


@every_kernel
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_the_result_has_the_type_of_the_query(kernel: Kernel, dtype: torch.dtype) -> None:
    inputs = [x.detach() for x in projected()]
    expected = kernel(inputs[0], inputs[1], inputs[2], masks()["any"], 0.0)
    query, key, value = (x.to(dtype) for x in inputs)
    found = kernel(query, key, value, masks()["any"], 0.0)
    assert found.dtype == dtype
    torch.testing.assert_close(found.float(), expected, rtol=0, atol=0.05 if dtype == torch.bfloat16 else 1e-6)


def test_dropout_falls_on_the_weights_in_training_only() -> None:
    """With all values 1 a query gets the sum of its weights: their number that was kept, scaled."""
    query, key = torch.zeros(64, 4, 8, K), torch.zeros(64, 4, 16, K)
    value = torch.ones(64, 4, 16, K)
    assert torch.equal(attend(query, key, value, None, 0.5, training=False), value[:, :, :8])
    torch.manual_seed(0)
    sums = attend(query, key, value, None, 0.5, training=True)
    kept = sums[..., 0] * 16 * 0.5
    torch.testing.assert_close(kept, kept.round())
    # 64 * 4 * 8 * 16 = 32,768 weights: five standard deviations of the kept share are 0.014.
    assert float(kept.mean()) / 16 == pytest.approx(0.5, abs=0.014)
    assert torch.equal(sums, sums[..., :1].expand_as(sums))
