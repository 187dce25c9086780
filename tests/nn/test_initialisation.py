"""How all weights of a model begin."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from mt.nn.initialisation import INITS
from mt.nn.recurrent import RecurrentLayer
from mt.nn.scores import Additive


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.ModuleList([nn.Linear(60, 50), RecurrentLayer("gru", 50, 40), Additive(50)])


def test_parts_leaves_each_as_it_began() -> None:
    begun = model()
    before = {name: parameter.clone() for name, parameter in begun.named_parameters()}
    INITS["parts"](begun, 0.1)
    assert all(torch.equal(parameter, before[name]) for name, parameter in begun.named_parameters())


def test_uniform_is_within_its_scale() -> None:
    """Sutskever et al. 2014, section 3.4, and after them."""
    begun = model()
    INITS["uniform"](begun, 0.08)
    numbers = torch.cat([parameter.detach().flatten() for parameter in begun.parameters()])
    assert float(numbers.abs().max()) <= 0.08
    assert float(numbers.var()) == pytest.approx(0.16**2 / 12, rel=0.05)


def test_normal_is_that_of_bahdanau() -> None:
    """Bahdanau et al. 2014, appendix B.1: 0.01, recurrences orthogonal, W_a and U_a 0.001, v_a and biases 0."""
    begun = model()
    INITS["normal"](begun, 0.01)
    assert isinstance(begun, nn.ModuleList)
    linear, layer, score = begun
    assert isinstance(linear, nn.Linear)
    assert isinstance(layer, RecurrentLayer)
    assert isinstance(score, Additive)
    inputs, recurrence, *biases = (weight.detach() for weight in layer.weights)
    for weight, deviation in [
        (linear.weight, 0.01),
        (inputs, 0.01),
        (score.query.weight, 0.001),
        (score.key.weight, 0.001),
    ]:
        assert float(weight.detach().std()) == pytest.approx(deviation, rel=0.1)
    for gate in recurrence.chunk(3):
        torch.testing.assert_close(gate @ gate.T, torch.eye(40), rtol=0, atol=1e-5)
    assert not any(bias.any() for bias in (*biases, linear.bias, score.score))


@pytest.mark.parametrize(("name", "deviation"), [("uniform", 0.1 / 3**0.5), ("normal", 0.1)])
def test_embeddings_begin_as_in_the_papers_once_they_are_read(name: str, deviation: float) -> None:
    """Models read them times sqrt(D)."""
    table = nn.Embedding(200, 64)
    INITS[name](table, 0.1)
    assert float(table.weight.detach().std()) * 8 == pytest.approx(deviation, rel=0.05)
