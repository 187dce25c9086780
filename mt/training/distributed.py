"""The processes that work together, behind a small object, so that nobody else knows torch.distributed.

`torchrun` starts one process (a rank) for each device and tells it its place in the environment. Rank 0 leads: it alone
writes and speaks for all. A process that was started without torchrun is alone, and `Group` does nothing for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.rendezvous import rendezvous

from mt.errors import EchoError, RunError
from mt.place import Place
from mt.training.attempt import fresh

_PATIENCE = timedelta(days=30)
"""How long a rank waits for one that prepares a corpus or validates; one that died is noticed at once."""


class Group:
    """The ranks of one training, or of another work; this class is the process that is alone."""

    rank = 0
    size = 1

    @property
    def leads(self) -> bool:
        """Whether this rank writes and speaks for all."""
        return self.rank == 0

    def sum(self, *values: float) -> list[float]:
        """Each value, summed over the ranks; all ranks get the same."""
        return list(values)

    def any(self, flag: bool) -> bool:
        """Whether `flag` is true on any rank."""
        return self.sum(flag)[0] > 0

    def gather(self, value: Any) -> list[Any]:
        """The values of all ranks, in order; what JSON can hold."""
        return [value]

    def lead(self, value: float) -> float:
        """The value of rank 0."""
        return self.sum(value if self.leads else 0.0)[0]

    def wait(self) -> None:
        """Until all ranks are here."""
        self.sum(0.0)

    def add(self, tensor: Tensor) -> Tensor:
        """`tensor` summed over the ranks, on the device that it is on."""
        return tensor


ALONE = Group()


@contextmanager
def joined(place: Place, device: torch.device) -> Iterator[Group]:
    """Inside, this process is one of a group. When one of it fails, all end; only the first of them says why.

    Raises:
        EchoError: another rank failed, and has said why.
        RunError: another rank ended without a word.
    """
    if place.size == 1:
        yield ALONE
        return
    try:
        group = Ranks(place, device)
    except RuntimeError as error:
        raise RunError(
            f'The {place.size} processes cannot reach one another ({error}): see "When something goes wrong" in '
            "docs/distributed.md."
        ) from error
    try:
        yield group
        group.close()
    except Exception as error:
        raise group.blame(error) from error


class Ranks(Group):
    """Several processes: gradients go the way that is best for their device, all else through the CPUs."""

    def __init__(self, place: Place, device: torch.device) -> None:
        self.rank, self.size = place.rank, place.size
        store, _, _ = next(rendezvous("env://"))
        self._store = fresh(store, self.rank, self.size)
        if device.type == "cuda":
            torch.cuda.set_device(device)
        backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        dist.init_process_group(backend, store=self._store, rank=self.rank, world_size=self.size)
        self._talk = dist.new_group(backend="gloo", timeout=_PATIENCE)

    def sum(self, *values: float) -> list[float]:
        tensor = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(tensor, group=self._talk)
        found: list[float] = tensor.tolist()
        return found

    def gather(self, value: Any) -> list[Any]:
        said = json.dumps(value).encode()
        lengths = [
            int(length) for length in self.sum(*(len(said) if rank == self.rank else 0 for rank in range(self.size)))
        ]
        own = torch.zeros(max(lengths), dtype=torch.uint8)
        own[: len(said)] = torch.frombuffer(bytearray(said), dtype=torch.uint8)
        heard = [torch.empty_like(own) for _ in lengths]
        dist.all_gather(heard, own, group=self._talk)
        return [json.loads(bytes(part[:length].tolist())) for part, length in zip(heard, lengths, strict=True)]

    def add(self, tensor: Tensor) -> Tensor:
        dist.all_reduce(tensor)
        return tensor

    def blame(self, error: Exception) -> Exception:
        """What to raise for `error`: itself where no other rank has failed before, which is then the cause."""
        try:
            first = self._store.add("failures", 1) == 1
        except RuntimeError:  # the store went with the one that failed
            first = False
        if not first:
            return EchoError()
        if _is_silence(error):
            return RunError(
                "Another of the processes that work together ended without a word (killed?): start them again, and "
                "they go on from what was saved."
            )
        return error

    def close(self) -> None:
        """Leave together."""
        self.wait()
        dist.destroy_process_group()


def _is_silence(error: Exception) -> bool:
    """Whether an error says that a rank does not answer."""
    return isinstance(error, dist.DistError) or (isinstance(error, RuntimeError) and "gloo" in str(error))
