"""Feed-forward layers against their formulas."""

from __future__ import annotations

import math

import pytest
import torch

from mt.nn.feed_forward import ACTIVATIONS, FeedForward


def by_formula(layer: FeedForward, x: list[float], activation: str) -> list[float]:
    """One position, number by number in Python's float64."""
    (inner_weight, inner_bias), (outer_weight, outer_bias) = (
        (linear.weight.tolist(), linear.bias.tolist()) for linear in (layer.inner, layer.outer)
    )
    inner = [
        math.fsum(w * v for w, v in zip(row, x, strict=True)) + b
        for row, b in zip(inner_weight, inner_bias, strict=True)
    ]
    half = len(inner) // 2
    hidden = {
        "relu": lambda: [max(0.0, v) for v in inner],
        "gelu": lambda: [v * 0.5 * (1 + math.erf(v / math.sqrt(2))) for v in inner],
        "geglu": lambda: [
            g * 0.5 * (1 + math.erf(g / math.sqrt(2))) * v for g, v in zip(inner[:half], inner[half:], strict=True)
        ],
        "swiglu": lambda: [g / (1 + math.exp(-g)) * v for g, v in zip(inner[:half], inner[half:], strict=True)],
    }[activation]()
    return [
        math.fsum(w * v for w, v in zip(row, hidden, strict=True)) + b
        for row, b in zip(outer_weight, outer_bias, strict=True)
    ]


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_it_is_its_formula(activation: str) -> None:
    torch.manual_seed(0)
    layer = FeedForward(5, 7, activation)
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter)
    x = torch.randn(2, 3, 5)
    found = layer(x)
    for row, column in ((0, 0), (1, 2)):
        expected = by_formula(layer, x[row, column].tolist(), activation)
        assert found[row, column].tolist() == pytest.approx(expected, abs=1e-5)


def test_gelu_is_the_exact_one() -> None:
    """Fault 112: 0.8413447461, not the tanh approximation's 0.8411919906."""
    assert float(ACTIVATIONS["gelu"][0](torch.tensor(1.0))) == pytest.approx(0.8413447461, abs=1e-7)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_weights_begin_as_glorot_and_bengio_say(activation: str) -> None:
    """A gated layer's two matrices each by itself: not as if they were one of twice the width."""
    torch.manual_seed(0)
    layer = FeedForward(64, 192, activation)
    parts = layer.inner.weight.chunk(2 if layer.gated else 1)
    for weight in (*parts, layer.outer.weight):
        assert float(weight.detach().var()) == pytest.approx(2 / (64 + 192), rel=0.05)
    assert not layer.inner.bias.any()
    assert not layer.outer.bias.any()


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_dropout_falls_on_the_inner_layer(activation: str) -> None:
    torch.manual_seed(0)
    layer = FeedForward(4, 2048, activation, dropout=0.5)
    x = torch.ones(64, 1, 4)
    expected = layer.eval()(x)
    assert torch.equal(expected, layer(x))
    dropped = layer.train()(x)
    assert not torch.equal(dropped[0], dropped[1])
    error = (dropped.mean(0) - expected[0]).abs()
    assert bool((error < 5 * dropped.std(0) / 64**0.5).all())
