"""How one model lies on the ranks that train it, and how their gradients become one.

A rank's gradient is that of its own micro-batches; torch takes the mean over the ranks while the backward pass runs.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from inspect import signature
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from mt.data.batching import Batch
from mt.errors import ConfigError
from mt.objectives.cross_entropy import Loss
from mt.training.distributed import Group

Model = TypeVar("Model", bound=nn.Module)
LossOf = Callable[[Batch], Loss]


NOTHING = Batch(*(torch.full((1, 1), value) for value in (0, True, 0, 0, True)))
"""What a rank without a micro-batch computes with the others, who need its gradient; it counts as nothing."""


class Layout(Generic[Model]):
    """The loss of a model that lies on all ranks, which call this together; this class: on the one process there is."""

    def __init__(self, model: Model, loss: LossOf) -> None:
        self.validated = model
        """What is validated: the model with all its weights on this rank, as of the last `refresh`."""
        self._loss = loss

    committed = False
    """Whether other ranks use what this one computes in this pass, so that it cannot be computed anew."""

    def __call__(self, batch: Batch) -> Loss:
        """The loss on a micro-batch of this rank."""
        return self._loss(batch)

    def apart(self) -> AbstractContextManager[None]:
        """Inside, gradients are added up on this rank, where its memory allows that, and not shared yet."""
        return nullcontext()

    def refresh(self) -> None:
        """Bring the weights of `validated` up to date."""


class _Objective(nn.Module):
    """An objective of a model as a module, which torch can wrap."""

    def __init__(self, model: nn.Module, loss: LossOf) -> None:
        super().__init__()
        self.model = model
        self.loss = loss

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor, int]:
        """The parts of the loss on `batch`."""
        loss = self.loss(batch)
        return loss.total, loss.nll, loss.tokens


# Buffers are tables that grow with the lengths a rank has met: they are its own. Torch has renamed the option.
_BUFFERS = next(
    name
    for name in ("forward_sync_buffers", "broadcast_buffers")
    if name in signature(DistributedDataParallel).parameters
)


class Replicated(Layout[Model]):
    """Each rank has the whole model (torch's DistributedDataParallel)."""

    def __init__(self, model: Model, loss: LossOf) -> None:
        super().__init__(model, loss)
        options: dict[str, Any] = {_BUFFERS: False, "gradient_as_bucket_view": True}
        options["find_unused_parameters"] = _drops_layers(model)
        self._module = DistributedDataParallel(_Objective(model, loss), **options)

    def __call__(self, batch: Batch) -> Loss:
        self.committed = False
        found = Loss(*self._module(batch))
        self.committed = bool(self._module.require_backward_grad_sync)
        return found

    def apart(self) -> AbstractContextManager[None]:
        context: AbstractContextManager[None] = self._module.no_sync()
        return context


class Sharded(Layout[Model]):
    """Each rank has a part of each weight, gradient and moment (torch's FSDP2), and fetches a layer when it needs it.

    Gradients are shared after each micro-batch: to hold them whole until the last takes the memory that this saves.
    """

    committed = True

    def __init__(self, model: Model, loss: LossOf) -> None:
        from torch.distributed.fsdp import fully_shard

        if _drops_layers(model):
            raise ConfigError(
                "train.sharding full needs the same layers on all processes in each step, but model.layer_drop leaves "
                "out others on each: set it to 0, or train.sharding to none."
            )
        super().__init__(deepcopy(model).eval(), loss)
        self._model = model
        self._module = _Objective(model, loss)
        for layer in _units(model, loss):
            fully_shard(layer)
        fully_shard(self._module)

    def __call__(self, batch: Batch) -> Loss:
        return Loss(*self._module(batch))

    def refresh(self) -> None:
        own = self.validated.state_dict()
        with torch.no_grad():
            for name, tensor in self._model.state_dict().items():
                own[name].copy_(whole(tensor))


def _drops_layers(model: nn.Module) -> bool:
    """Whether a rank may leave out a layer that another does not."""
    return any(getattr(module, "layer_drop", 0) > 0 for module in model.modules())


class _Watch:
    """How a layer is used: as a module, which FSDP2 sees, or by its parts, which it does not."""

    def __init__(self, layer: nn.Module) -> None:
        self.running = self.called = self.used_otherwise = False
        self.hooks = [layer.register_forward_pre_hook(self._enter), layer.register_forward_hook(self._leave)]
        self.hooks += [part.register_forward_pre_hook(self._touch) for part in layer.modules() if part is not layer]

    def _enter(self, *_: object) -> None:
        self.running = self.called = True

    def _leave(self, *_: object) -> None:
        self.running = False

    def _touch(self, *_: object) -> None:
        self.used_otherwise |= not self.running


def _units(model: nn.Module, loss: LossOf) -> list[nn.Module]:
    """The layers of the model's stacks that its loss uses as modules alone, as a look at one batch shows."""
    layers = [layer for stack in model.modules() if isinstance(stack, nn.ModuleList) for layer in stack]
    watches = {layer: _Watch(layer) for layer in layers}
    model.eval()
    with torch.no_grad():
        loss(NOTHING.to(next(model.parameters()).device))
    model.train()
    for hook in [hook for watch in watches.values() for hook in watch.hooks]:
        hook.remove()
    return [layer for layer, watch in watches.items() if watch.called and not watch.used_otherwise]


LAYOUTS: dict[str, Callable[[Any, LossOf], Layout[Any]]] = {"none": Replicated, "full": Sharded}


def spread(model: Model, loss: LossOf, group: Group, sharding: str) -> Layout[Model]:
    """Lay `model`, which is the same on all ranks of `group`, on them; `loss` is that of the model on a batch.

    The optimiser is built after this, which may replace the parameters.
    """
    return Layout(model, loss) if group.size == 1 else LAYOUTS[sharding](model, loss)


def whole(tensor: Tensor) -> Tensor:
    """All of a tensor of which the ranks may have a part each; all call it together."""
    found: Tensor = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
    return found


def local(tensor: Tensor) -> Tensor:
    """The part of a tensor that this rank has."""
    found: Tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return found


def parted(tensor: Tensor, like: Tensor) -> Tensor:
    """The part of `tensor` that this rank has of `like`, where that lies in parts."""
    if not hasattr(like, "placements"):
        return tensor
    from torch.distributed.tensor import DTensor, distribute_tensor

    assert isinstance(like, DTensor)
    return distribute_tensor(tensor.to(like.device), like.device_mesh, like.placements, src_data_rank=None)
