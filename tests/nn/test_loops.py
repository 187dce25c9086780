"""A weight of many steps: the gradient is that of as many products, and made by one."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import pytest
import torch
from torch import Tensor

from mt.nn.linear import Linear, multiply
from mt.nn.loops import StepLinear, loop

STEPS, ROWS, D = 5, 3, 4


def unrolled(layer: torch.nn.Module, x: Tensor, within: AbstractContextManager[None]) -> Tensor:
    """A little recurrence: each step reads what the one before gave."""
    state, states = torch.zeros(ROWS, D), []
    with within:
        for now in x.unbind(1):
            state = layer(now + state).tanh()
            states.append(state)
    return torch.stack(states, 1)


def gradients(layer: torch.nn.Module, x: Tensor, out: Tensor) -> tuple[Tensor, ...]:
    torch.manual_seed(1)
    return torch.autograd.grad((out * torch.randn(out.shape)).sum(), (x, *layer.parameters()))


def given(bias: bool = True) -> tuple[StepLinear, Tensor]:
    torch.manual_seed(0)
    return StepLinear(D, D, bias=bias), torch.randn(ROWS, STEPS, D, requires_grad=True)


@pytest.mark.parametrize("bias", [True, False])
def test_the_loop_changes_neither_values_nor_gradients(bias: bool) -> None:
    layer, x = given(bias)
    within, without = unrolled(layer, x, loop()), unrolled(layer, x, nullcontext())
    torch.testing.assert_close(within, without)
    torch.testing.assert_close(gradients(layer, x, within), gradients(layer, x, without))


def test_in_bfloat16_gradients_are_those_of_float32_nearly() -> None:
    layer, x = given()
    exact = unrolled(layer, x, nullcontext())
    with torch.autocast("cpu", torch.bfloat16):
        low = unrolled(layer, x, loop())
    torch.testing.assert_close(low.float(), exact, rtol=0.05, atol=0.05)
    for ours, theirs in zip(gradients(layer, x, low), gradients(layer, x, exact), strict=True):
        assert ours.dtype == torch.float32
        assert float((ours - theirs).norm() / theirs.norm()) < 0.05


def test_each_weight_has_one_product_for_all_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, x = given()
    out, products = unrolled(layer, x, loop()), []

    def counted(left: Tensor, right: Tensor) -> Tensor:
        products.append(left.shape)
        return multiply(left, right)

    monkeypatch.setattr("mt.nn.loops.multiply", counted)
    gradients(layer, x, out)
    assert len(products) == STEPS + 1


def test_a_weight_may_be_used_in_two_loops_and_outside() -> None:
    layer, x = given()
    out = unrolled(layer, x, loop()) + unrolled(layer, x + 1, loop()) + layer(x)
    expected = unrolled(layer, x, nullcontext()) + unrolled(layer, x + 1, nullcontext()) + layer(x)
    torch.testing.assert_close(gradients(layer, x, out), gradients(layer, x, expected))


def test_what_is_not_asked_for_has_no_gradient() -> None:
    """Only one of two weights has a part in what is differentiated."""
    layer, x = given()
    other = StepLinear(D, D)
    with loop():
        out = layer(x[:, 0])
        other(x[:, 0])
    of_layer, of_other = torch.autograd.grad(out.sum(), (layer.weight, other.weight), allow_unused=True)
    assert of_layer is not None
    assert of_other is None


def test_without_gradients_it_is_the_linear_layer() -> None:
    layer, x = given()
    plain = Linear(D, D)
    plain.load_state_dict(layer.state_dict())
    with torch.no_grad(), loop():
        torch.testing.assert_close(layer(x), plain(x), rtol=0, atol=0)


def test_backward_twice_gives_the_same() -> None:
    layer, x = given()
    out = unrolled(layer, x, loop()).sum()
    first, second = (torch.autograd.grad(out, tuple(layer.parameters()), retain_graph=True) for _ in range(2))
    torch.testing.assert_close(first, second, rtol=0, atol=0)
