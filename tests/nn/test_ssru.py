"""The simpler simple recurrent unit, at once and step by step."""

from __future__ import annotations

import torch
from torch import nn

from mt.nn.masks import causal_mask
from mt.nn.places import Places
from mt.nn.ssru import SSRU

B, T, D = 2, 7, 24
CPU = torch.device("cpu")


def test_it_is_its_formula() -> None:
    """Kim et al. 2019, section 3.2."""
    torch.manual_seed(0)
    unit, x = SSRU(D), torch.randn(B, T, D)
    nn.init.normal_(unit.forget.bias)
    places = Places.following(0, T, CPU)
    found, last = unit(x, places, causal_mask(T, CPU))
    cell, past = torch.zeros(B, D), None
    for t in range(T):
        forget = torch.sigmoid(x[:, t] @ unit.forget.weight.T + unit.forget.bias)
        cell = forget * cell + (1 - forget) * (x[:, t] @ unit.input.weight.T)
        torch.testing.assert_close(found[:, t], cell.clamp(min=0))
        stepped, past = unit.step(x[:, [t]], past, places, places)
        torch.testing.assert_close(stepped[:, 0], found[:, t])
    torch.testing.assert_close(last.value, cell)
    assert past is not None
    assert torch.equal(past.select(torch.tensor([1, 1])).value, past.value[[1, 1]])
