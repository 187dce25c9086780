"""A weight of many steps: the gradient is that of as many products, and made by one."""

from __future__ import annotations

import weakref
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor

from mt.nn.linear import Linear
from mt.nn.loops import StepLinear, loop
from mt.nn.products import multiply

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


class Fails(torch.autograd.Function):
    """Lets values through, and runs out of memory in the backward pass while it is told to."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, switch: set[str]) -> Tensor:
        ctx.switch = switch
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        if ctx.switch:
            raise MemoryError
        return grad, None


class Switch(set[str]):
    """A set that can be looked for after it is gone."""


def broken_off(layer: StepLinear, x: Tensor, switch: Switch) -> Tensor:
    """A loop whose backward pass has met the failure in its first step, and so has filed the later ones."""
    with loop():
        first = Fails.apply(layer(x[:, 0]), switch)  # type: ignore[no-untyped-call]
        out = layer(layer(first).tanh()).sum()
    switch.add("on")
    with pytest.raises(MemoryError):
        torch.autograd.grad(out, layer.weight, retain_graph=True)
    switch.clear()
    return torch.as_tensor(out)


def test_a_pass_that_was_broken_off_leaves_nothing_in_the_next() -> None:
    """As where memory ran out; or where only the gradient of what was read was asked for."""
    layer, x = given()
    expected = torch.autograd.grad(layer(layer(layer(x[:, 0])).tanh()).sum(), layer.weight)
    out = broken_off(layer, x, Switch())
    torch.autograd.grad(out, x, retain_graph=True)
    torch.testing.assert_close(torch.autograd.grad(out, layer.weight), expected)


def test_nothing_keeps_the_graph_of_a_pass_that_was_broken_off() -> None:
    layer, x = given()
    switch = Switch()
    broken_off(layer, x, switch)
    node = weakref.ref(switch)  # which only the graph has after this
    del switch
    assert node() is None


def test_one_weight_may_have_two_biases() -> None:
    layer, x = given()
    other = StepLinear(D, D)
    other.weight = layer.weight
    with loop():
        torch.testing.assert_close(layer(x) - other(x), (layer.bias - other.bias).expand_as(x))


def test_no_rows() -> None:
    layer, _ = given()
    with loop():
        assert layer(torch.zeros(0, D)).shape == (0, D)
