"""A running training as a checkpoint, and back: the resumed one goes on bit for bit as if it had never stopped."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from mt.errors import RunError
from mt.training.checkpoint import Checkpoint
from mt.training.optim import load_optimizer_tensors, optimizer_tensors
from mt.training.state import TrainingState

_GENERATOR = "generator/"


def take(
    state: TrainingState, model: nn.Module, optimizer: torch.optim.Optimizer, generators: Mapping[str, torch.Generator]
) -> Checkpoint:
    """All that training changes. The tensors are the live ones: save the checkpoint before the next update.

    `generators` are those that training draws from, by names that stay the same when it is resumed.
    """
    drawn = {_GENERATOR + name: generator.get_state() for name, generator in generators.items()}
    return Checkpoint(state, model.state_dict(), {**optimizer_tensors(optimizer, model), **drawn})


def restore(
    checkpoint: Checkpoint,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    generators: Mapping[str, torch.Generator],
) -> TrainingState:
    """Put a checkpoint back into a model, its optimiser and the generators, on whatever device they are.

    A generator that the checkpoint does not know, as on another kind of device, is left as it is.

    Raises:
        RunError: the checkpoint belongs to another model.
    """
    load_weights(model, checkpoint.weights)
    tensors = dict(checkpoint.optimizer)
    states = {name: tensors.pop(name) for name in list(tensors) if name.startswith(_GENERATOR)}
    load_optimizer_tensors(optimizer, model, tensors)
    for name, generator in generators.items():
        if _GENERATOR + name in states:
            generator.set_state(states[_GENERATOR + name])
    return checkpoint.state


def load_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Copy `weights` into `model`, whose own tying stays as it is.

    Raises:
        RunError: names or shapes are not the model's; the sentence names the first of them.
    """
    own = model.state_dict()
    for name in sorted({*own, *weights}):
        if name not in weights:
            raise RunError(f"The saved weights lack '{name}': they belong to another model.")
        if name not in own:
            raise RunError(f"The saved weights have '{name}', which the model does not have.")
        if own[name].shape != weights[name].shape:
            saved, wanted = tuple(weights[name].shape), tuple(own[name].shape)
            raise RunError(f"The saved '{name}' has shape {saved}, but the model's has {wanted}: they differ in size.")
    model.load_state_dict(dict(weights))
