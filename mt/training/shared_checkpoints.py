"""The checkpoints of a run folder as all ranks of a training use them: rank 0 writes, and what it finds holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from torch import Tensor

from mt.training.checkpoint import Checkpoint, Checkpoints
from mt.training.distributed import Group
from mt.training.parallel import local, whole
from mt.training.state import TrainingState


@dataclass(frozen=True)
class SharedCheckpoints(Checkpoints):
    """All ranks of `group` call the same methods in the same order, and get the same."""

    group: Group

    @property
    def _own(self) -> Checkpoints:
        return Checkpoints(self.run)

    def updates(self) -> list[int]:
        found: list[int] = self.group.gather(self._own.updates() if self.group.leads else None)[0]
        return found

    def save(self, checkpoint: Checkpoint) -> Path:
        """As of one process; a tensor that lies in parts on the ranks is written whole, as any other training does."""
        leads = self.group.leads
        weights, optimizer = (_whole(each, keep=leads) for each in (checkpoint.weights, checkpoint.optimizer))
        if leads:
            self._own.save(replace(checkpoint, weights=weights, optimizer=optimizer))
        self.group.wait()
        return self.path(checkpoint.state.update)

    def newest(self, accept: Callable[[TrainingState], bool] = lambda _: True) -> tuple[Checkpoint | None, list[str]]:
        found, damaged = self._own.newest(accept) if self.group.leads else (None, [])
        update, damaged = self.group.gather((found and found.state.update, damaged))[0]
        return found if self.group.leads or update is None else self.load(update), damaged

    def is_among_best(self, state: TrainingState, count: int) -> bool:
        return bool(self.group.lead(self.group.leads and self._own.is_among_best(state, count)))

    def prune(self, keep_last: int, keep_best: int, keep_good: int = 1) -> list[int]:
        dropped = self._own.prune(keep_last, keep_best, keep_good) if self.group.leads else []
        return list(self.group.gather(dropped)[0])


def _whole(tensors: Mapping[str, Tensor], *, keep: bool) -> dict[str, Tensor]:
    """Each tensor whole, and on the CPU where it lay in parts; tied ones are still one. Empty unless `keep`."""
    found: dict[str, Tensor] = {}
    ties: dict[object, Tensor] = {}
    for name, tensor in tensors.items():
        gathered = whole(tensor)  # by all ranks, tensor by tensor: none has to hold more than one of them
        if keep and gathered is not tensor:
            place = (local(tensor).data_ptr(), tensor.shape)
            gathered = ties.setdefault(place, gathered.cpu())
        if keep:
            found[name] = gathered
    return found
