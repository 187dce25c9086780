from __future__ import annotations

import pytest
import torch
from torch import nn

from mt.errors import RunError
from mt.training.config import OptimizerConfig
from mt.training.optim import OPTIMIZERS, load_optimizer_tensors, optimizer_tensors, set_learning_rate


def update(model: nn.Module, optimizer: torch.optim.Optimizer, number: int) -> None:
    generator = torch.Generator().manual_seed(number)
    for parameter in model.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator)
    set_learning_rate(optimizer, 0.01)
    optimizer.step()


def test_adam_is_the_formula() -> None:
    """Kingma and Ba 2015, algorithm 1."""
    weight = nn.Parameter(torch.tensor([1.0, -2.0]))
    optimizer = OptimizerConfig(beta1=0.9, beta2=0.98, eps=1e-9).build([weight])
    expected, first, second = weight.detach().double().clone(), torch.zeros(2).double(), torch.zeros(2).double()
    for number in range(1, 4):
        gradient = torch.tensor([0.5 * number, -0.1])
        weight.grad = gradient.clone()
        set_learning_rate(optimizer, 0.01 * number)
        optimizer.step()
        first = 0.9 * first + 0.1 * gradient
        second = 0.98 * second + 0.02 * gradient**2
        expected -= 0.01 * number * (first / (1 - 0.9**number)) / ((second / (1 - 0.98**number)).sqrt() + 1e-9)
    torch.testing.assert_close(weight.detach().double(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_state_goes_out_and_in_as_flat_tensors(name: str) -> None:
    models = [nn.Linear(3, 2), nn.Linear(3, 2)]
    models[1].load_state_dict(models[0].state_dict())
    optimizers = [OptimizerConfig(name=name).build(model.parameters()) for model in models]
    for number in range(3):
        update(models[0], optimizers[0], number)
    models[1].load_state_dict(models[0].state_dict())
    tensors = {key: value.clone() for key, value in optimizer_tensors(optimizers[0], models[0]).items()}
    load_optimizer_tensors(optimizers[1], models[1], tensors)
    for model, optimizer in zip(models, optimizers, strict=True):
        update(model, optimizer, 9)
    assert torch.equal(models[0].weight, models[1].weight)
    assert torch.equal(models[0].bias, models[1].bias)


def test_settings_come_from_the_recipe_and_not_from_the_state() -> None:
    """Fault 54."""
    model = nn.Linear(3, 2)
    before = OptimizerConfig(beta1=0.9).build(model.parameters())
    update(model, before, 1)
    after = OptimizerConfig(beta1=0.5).build(model.parameters())
    set_learning_rate(after, 1e-5)
    load_optimizer_tensors(after, model, optimizer_tensors(before, model))
    assert after.param_groups[0]["betas"] == (0.5, 0.98)
    assert after.param_groups[0]["lr"] == 1e-5


def test_a_fresh_optimiser_has_no_state() -> None:
    model = nn.Linear(3, 2)
    optimizer = OptimizerConfig().build(model.parameters())
    assert optimizer_tensors(optimizer, model) == {}
    load_optimizer_tensors(optimizer, model, {})


def test_state_of_another_model_is_refused() -> None:
    model = nn.Linear(3, 2)
    with pytest.raises(RunError) as caught:
        load_optimizer_tensors(
            OptimizerConfig().build(model.parameters()), model, {"other.weight/exp_avg": torch.ones(1)}
        )
    assert (
        str(caught.value)
        == "The optimiser's state has an entry for 'other.weight', which is no parameter of the model."
    )
