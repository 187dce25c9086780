"""Exponential moving average of the weights: what is validated, kept and shipped where the recipe wants it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from mt.training.parallel import parted

PREFIX = "trained/"
"""Before the names of the trained weights, where those of their average take their place."""


class Ema:
    """The average of `model`'s weights over its updates, in float32 (Polyak and Juditsky 1992; here it forgets).

    average <- d average + (1 - d) weight, with d = min(decay, (1 + t) / (10 + t)) at update t, so that the random
    weights of the beginning are soon forgotten. Buffers are the model's own.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self._parameters = dict(model.named_parameters())
        names = {parameter: name for name, parameter in self._parameters.items()}
        self._names = {name: names[each] for name, each in model.named_parameters(remove_duplicate=False)}
        self._averages = {name: weight.detach().float().clone() for name, weight in self._parameters.items()}

    def add(self, update: int) -> None:
        """Take in the weights after update number `update`."""
        decay = min(self.decay, (1 + update) / (10 + update))
        weights = [weight.detach().float() for weight in self._parameters.values()]
        take_in = get_ema_multi_avg_fn(decay)  # type: ignore[no-untyped-call]
        take_in(list(self._averages.values()), weights, update)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The averages in the model; afterwards the trained weights again, bit for bit, whatever happens in between."""
        trained = {name: weight.detach().clone() for name, weight in self._parameters.items()}
        try:
            self._put(self._averages)
            yield
        finally:
            self._put(trained)

    @torch.no_grad()
    def _put(self, weights: Mapping[str, Tensor]) -> None:
        for name, parameter in self._parameters.items():
            parameter.copy_(parted(weights[name], parameter))

    def tensors(self, state: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """`state` of the model with the averages in it, and the trained weights by `PREFIX` and their names."""
        shown = {name: self._averages.get(self._names.get(name, ""), tensor) for name, tensor in state.items()}
        return shown, {PREFIX + name: parameter.detach() for name, parameter in self._parameters.items()}

    @torch.no_grad()
    def restore(self, trained: Mapping[str, Tensor]) -> None:
        """Take the averages out of the model, where a checkpoint's weights were loaded to, and put `trained` there."""
        for name, parameter in self._parameters.items():
            self._averages[name].copy_(parameter)
        self._put({name.removeprefix(PREFIX): tensor for name, tensor in trained.items()})
