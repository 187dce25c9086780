"""The processes that torchrun started, as one command: each with its device, and one that speaks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cli.draw import draw
from mt.events import finish
from mt.place import Place

if TYPE_CHECKING:
    import torch

    from mt.training.distributed import Group


def device_of(device: str, threads: int | None, place: Place) -> torch.device:
    """The device of this process, of which the first one tells."""
    from mt.device import pick_device

    picked = pick_device(device, threads, place.process)
    return draw(picked) if place.leads else finish(picked)


@contextmanager
def together(device: str, threads: int | None) -> Iterator[tuple[Group, torch.device]]:
    """Inside, this process is one of the group that was started together, if it was; with it the device it has."""
    from mt.training.distributed import joined

    place = Place.of()
    chosen = device_of(device, threads, place)
    with joined(place, chosen) as group:
        yield group, chosen
