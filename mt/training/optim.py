"""Optimisers, and their state as flat named tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from mt.errors import RunError
from mt.training.parallel import parted

if TYPE_CHECKING:
    from mt.training.config import OptimizerConfig


def adam(parameters: Iterable[nn.Parameter], config: OptimizerConfig) -> torch.optim.Optimizer:
    """Adam (Kingma and Ba 2015), all parameters in one fused pass."""
    betas = (config.beta1, config.beta2)
    return torch.optim.Adam(parameters, lr=0.0, betas=betas, eps=config.eps, fused=True)


def adamw(parameters: Iterable[nn.Parameter], config: OptimizerConfig) -> torch.optim.Optimizer:
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019, algorithm 2), in one fused pass.

    Matrices decay, embeddings among them; vectors, which are biases and the gains of norms, do not: the groups of the
    code that came with BERT (Devlin et al. 2019).
    """
    everything = list(parameters)
    groups = [
        {"params": [parameter for parameter in everything if parameter.ndim > 1], "weight_decay": config.weight_decay},
        {"params": [parameter for parameter in everything if parameter.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=0.0, betas=(config.beta1, config.beta2), eps=config.eps, fused=True)


def adafactor(parameters: Iterable[nn.Parameter], _: OptimizerConfig) -> torch.optim.Optimizer:
    """Adafactor (Shazeer and Stern 2018, algorithm 6), with the constants of that paper's section 9.

    The learning rate is relative to the root mean square of each weight, and is at most 1 / sqrt(update).
    """
    return torch.optim.Adafactor(parameters, lr=0.0)


def two_moments(shape: Sequence[int]) -> int:
    """Adam's state: a first and a second moment of each number."""
    return 2 * math.prod(shape)


def rows_and_columns(shape: Sequence[int]) -> int:
    """Adafactor's state: of matrices the second moments of rows and of columns, of vectors that of each number."""
    if len(shape) < 2:
        return math.prod(shape)
    *more, rows, columns = shape
    return math.prod(more) * (rows + columns)


@dataclass(frozen=True)
class UpdateRule:
    """How an optimiser is built, and how many numbers it keeps of a parameter of some shape."""

    build: Callable[[Iterable[nn.Parameter], OptimizerConfig], torch.optim.Optimizer]
    state_size: Callable[[Sequence[int]], int]


OPTIMIZERS = {
    "adam": UpdateRule(adam, two_moments),
    "adamw": UpdateRule(adamw, two_moments),
    "adafactor": UpdateRule(adafactor, rows_and_columns),
}


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
    own = dict(model.named_parameters())
    names = {id(parameter): name for name, parameter in own.items()}
    entries: dict[str, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        name, _, entry = key.rpartition("/")
        moment = name in own and value.shape == own[name].shape
        entries.setdefault(name, {})[entry] = parted(value, own[name]) if moment else value
    if unknown := sorted(entries.keys() - names.values()):
        raise RunError(f"The optimiser's state has an entry for '{unknown[0]}', which is no parameter of the model.")
    parameters = [names[id(parameter)] for group in optimizer.param_groups for parameter in group["params"]]
    state = {number: entries[name] for number, name in enumerate(parameters) if name in entries}
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
