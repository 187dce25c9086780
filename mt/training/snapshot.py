"""A running training as a checkpoint, and back: the resumed one goes on bit for bit as if it had never stopped."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from mt.errors import RunError
from mt.training.checkpoint import Checkpoint
from mt.training.ema import PREFIX, Ema
from mt.training.optim import load_optimizer_tensors, optimizer_tensors
from mt.training.parallel import parted
from mt.training.state import TrainingState

_GENERATOR = "generator/"
"""Entries of early checkpoints, from when dropout drew on from update to update."""


def take(
    state: TrainingState, model: nn.Module, optimizer: torch.optim.Optimizer, ema: Ema | None = None
) -> Checkpoint:
    """All that training changes. The tensors are the live ones: save the checkpoint before the next update.

    Weights are those to translate with: the moving averages, where there are any.
    """
    weights: dict[str, Tensor] = model.state_dict()
    trained: dict[str, Tensor] = {}
    if ema is not None:
        weights, trained = ema.tensors(weights)
    return Checkpoint(state, weights, {**optimizer_tensors(optimizer, model), **trained})


def restore(
    checkpoint: Checkpoint, model: nn.Module, optimizer: torch.optim.Optimizer, file: Path, ema: Ema | None = None
) -> TrainingState:
    """Put a checkpoint, whose weights are of `file`, back into a training, on the device that it is on.

    Raises:
        RunError: the checkpoint belongs to another model.
    """
    load_weights(model, checkpoint.weights, file)
    tensors = {name: tensor for name, tensor in checkpoint.optimizer.items() if not name.startswith(_GENERATOR)}
    trained = {name: tensors.pop(name) for name in list(tensors) if name.startswith(PREFIX)}
    if ema is not None:
        ema.restore(trained)
    load_optimizer_tensors(optimizer, model, tensors)
    return checkpoint.state


def load_weights(model: nn.Module, weights: Mapping[str, Tensor], file: Path, assign: bool = False) -> None:
    """Copy `weights`, which are of `file`, into `model`, whose own tying stays as it is; or `assign` them themselves.

    Raises:
        RunError: names or shapes are not the model's; the sentence names the first of them.
    """
    if found := difference(weights, model.state_dict()):
        raise RunError(
            f"{file} does not fit the run's recipe and tokenizer ({found}): put back the recipe.yaml and the "
            "tokenizer that it was trained with."
        )
    put_weights(model, weights, assign)


def put_weights(model: nn.Module, weights: Mapping[str, Tensor], assign: bool = False) -> None:
    """Copy weights of the names and shapes of `model` into it, on each rank the part that it has; or `assign` them."""
    own = model.state_dict()
    model.load_state_dict({name: parted(tensor, own[name]) for name, tensor in weights.items()}, assign=assign)


def difference(weights: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> str:
    """The first difference between the tensors of a file and those of a model; '' where there is none."""
    for name in sorted({*own, *weights}):
        if name not in weights:
            return f"it lacks '{name}'"
        if name not in own:
            return f"the model has no '{name}'"
        saved, wanted = tuple(weights[name].shape), tuple(own[name].shape)
        if saved != wanted:
            return f"'{name}' has shape {saved} in it, but {wanted} in the model"
    return ""
