from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from mt.errors import ConfigError, RunError
from mt.training.checkpoint import Checkpoints
from mt.training.config import OptimizerConfig
from mt.training.optim import OPTIMIZERS, load_optimizer_tensors, optimizer_tensors, set_learning_rate
from mt.training.snapshot import restore, take
from mt.training.state import TrainingState


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


def test_adamw_decays_matrices_and_no_vectors() -> None:
    """Loshchilov and Hutter 2019, algorithm 2: the decay has no part in the moments."""
    models = [nn.Linear(3, 2), nn.Linear(3, 2)]
    models[1].load_state_dict(models[0].state_dict())
    before = models[0].weight.detach().clone()
    update(models[0], OptimizerConfig(name="adamw", weight_decay=0.5).build(models[0].parameters()), 1)
    update(models[1], OptimizerConfig(name="adam").build(models[1].parameters()), 1)
    torch.testing.assert_close(models[0].weight, models[1].weight - 0.01 * 0.5 * before)
    assert torch.equal(models[0].bias, models[1].bias)


def test_adafactor_is_the_formula() -> None:
    """Shazeer and Stern 2018, algorithms 4 to 6, at the first update: beta2 is 0 there."""
    model = nn.Linear(3, 2)
    before = model.weight.detach().clone()
    optimizer = OptimizerConfig(name="adafactor").build(model.parameters())
    update(model, optimizer, 1)
    squares = torch.randn(2, 3, generator=torch.Generator().manual_seed(1)) ** 2
    rows, columns = squares.mean(1, keepdim=True), squares.mean(0, keepdim=True)
    assert model.weight.grad is not None
    direction = model.weight.grad / (rows @ columns / rows.mean()).sqrt()
    direction /= max(1.0, float(direction.square().mean().sqrt()))
    torch.testing.assert_close(model.weight.detach(), before - 0.01 * before.square().mean().sqrt() * direction)


def descend(name: str, updates: int) -> float:
    """The mean square of a matrix and a vector, from 1 on, after so many updates with its gradient."""
    model = nn.Linear(4, 4)
    for parameter in model.parameters():
        nn.init.ones_(parameter)
    optimizer = OptimizerConfig(name=name).build(model.parameters())
    for _ in range(updates):
        for parameter in model.parameters():
            parameter.grad = parameter.detach().clone()
        set_learning_rate(optimizer, 0.1)
        optimizer.step()
    return max(float(parameter.detach().square().mean()) for parameter in model.parameters())


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_updates_go_down(name: str) -> None:
    assert 1 > descend(name, 1) > descend(name, 5) > descend(name, 9)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_learning_rate_of_0_changes_nothing(name: str) -> None:
    """Fault 53: what moves the weights is the rate of the schedule, from the first update on."""
    model = nn.Linear(3, 2)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    optimizer = OptimizerConfig(name=name).build(model.parameters())
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    assert all(map(torch.equal, model.parameters(), before))


class Shapes(nn.Module):
    """Parameters of no, one, two and three dimensions."""

    def __init__(self) -> None:
        super().__init__()
        shapes = ((), (5,), (4, 3), (2, 4, 3))
        self.weights = nn.ParameterList(torch.ones(shape) for shape in shapes)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_size_of_the_state_is_known(name: str) -> None:
    model, config = Shapes(), OptimizerConfig(name=name)
    optimizer = config.build(model.parameters())
    update(model, optimizer, 1)
    for parameter in model.parameters():
        state = {entry: value for entry, value in optimizer.state[parameter].items() if entry != "step"}
        assert sum(value.numel() for value in state.values()) == config.state_size(parameter.shape)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_state_is_the_same_in_a_checkpoint_of_a_moved_run(name: str, tmp_path: Path) -> None:
    """Names, types and every bit; Adafactor keeps other tensors for matrices than for vectors."""
    models = [Shapes(), Shapes()]
    optimizers = [OptimizerConfig(name=name).build(model.parameters()) for model in models]
    for number in range(3):
        update(models[0], optimizers[0], number)
    Checkpoints(tmp_path / "one").save(take(TrainingState(), models[0], optimizers[0]))
    (tmp_path / "one").rename(tmp_path / "two")
    restore(Checkpoints(tmp_path / "two").load(0), models[1], optimizers[1], tmp_path)
    for number in range(3, 6):
        for model, optimizer in zip(models, optimizers, strict=True):
            update(model, optimizer, number)
    assert all(map(torch.equal, models[0].parameters(), models[1].parameters()))
    states = [optimizer_tensors(optimizer, model) for model, optimizer in zip(models, optimizers, strict=True)]
    assert states[0].keys() == states[1].keys()
    for key, value in states[0].items():
        assert torch.equal(value, states[1][key])
        assert value.dtype == states[1][key].dtype


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
    before = OptimizerConfig(name="adamw", beta1=0.9).build(model.parameters())
    update(model, before, 1)
    after = OptimizerConfig(name="adamw", beta1=0.5, weight_decay=0.2).build(model.parameters())
    set_learning_rate(after, 1e-5)
    load_optimizer_tensors(after, model, optimizer_tensors(before, model))
    assert after.param_groups[0]["betas"] == (0.5, 0.98)
    assert after.param_groups[0]["lr"] == 1e-5
    assert [group["weight_decay"] for group in after.param_groups] == [0.2, 0.0]


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


def test_a_key_that_the_optimiser_does_not_read_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        OptimizerConfig(weight_decay=0.1)
    assert str(caught.value) == (
        "train.optimizer.weight_decay 0.1 belongs to train.optimizer.name adamw, but that is adam: change "
        "train.optimizer.name, or leave train.optimizer.weight_decay out."
    )
