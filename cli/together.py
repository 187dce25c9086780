"""The processes that torchrun started, as one command: each with its device, and one that speaks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cli.draw import draw
from mt.events import finish

if TYPE_CHECKING:
    import torch

    from mt.training.distributed import Group


def several() -> bool:
    """Whether torchrun, or the like, started this process together with others."""
    return os.environ.get("WORLD_SIZE", "1") != "1"


def leads() -> bool:
    """Whether this process speaks: one that was started alone, or the first of those that were started together."""
    return not several() or os.environ.get("RANK", "0") == "0"


@contextmanager
def together(device: str, threads: int | None) -> Iterator[tuple[Group, torch.device]]:
    """Inside, this process is one of the group that was started together, if it was; with it the device it has."""
    from mt.device import pick_device
    from mt.training.distributed import Place, joined

    place = Place.of()
    picked = pick_device(device, threads, place.local_rank if place.size > 1 else None)
    chosen = draw(picked) if place.rank == 0 else finish(picked)
    with joined(place, chosen) as group:
        yield group, chosen
