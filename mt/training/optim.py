"""Optimisers, and their state as flat named tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from mt.errors import RunError

if TYPE_CHECKING:
    from mt.training.config import OptimizerConfig


def adam(parameters: Iterable[nn.Parameter], config: OptimizerConfig) -> torch.optim.Optimizer:
    """Adam (Kingma and Ba 2015), all parameters in one fused pass."""
    betas = (config.beta1, config.beta2)
    return torch.optim.Adam(parameters, lr=0.0, betas=betas, eps=config.eps, fused=True)


OPTIMIZERS: dict[str, Callable[[Iterable[nn.Parameter], OptimizerConfig], torch.optim.Optimizer]] = {"adam": adam}


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Make `rate` the learning rate of the next update."""
    for group in optimizer.param_groups:
        group["lr"] = rate


def optimizer_tensors(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """The optimiser's state as tensors named `<parameter>/<entry>`; parameters without state yet are left out."""
    return {
        f"{name}/{entry}": value
        for name, parameter in model.named_parameters()
        for entry, value in sorted(optimizer.state.get(parameter, {}).items())
    }


def load_optimizer_tensors(optimizer: torch.optim.Optimizer, model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Put tensors of `optimizer_tensors` back. Learning rate, betas and the like stay those of the recipe in effect.

    Raises:
        RunError: the tensors belong to another model.
    """
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    entries: dict[str, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        name, _, entry = key.rpartition("/")
        entries.setdefault(name, {})[entry] = value
    if unknown := sorted(entries.keys() - names.values()):
        raise RunError(f"The optimiser's state has an entry for '{unknown[0]}', which is no parameter of the model.")
    parameters = [names[id(parameter)] for group in optimizer.param_groups for parameter in group["params"]]
    state = {number: entries[name] for number, name in enumerate(parameters) if name in entries}
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
