"""Which machine computes: chosen on the command line, named at the start, never changed in silence.

And how it says that its memory is full.
"""

from __future__ import annotations

import re
from collections.abc import Generator

import torch

from mt.errors import ConfigError
from mt.events import Event, Notice


def pick_device(
    name: str = "auto", threads: int | None = None, process: int | None = None
) -> Generator[Event, None, torch.device]:
    """The device called `auto`, `cpu`, `cuda` or `cuda:N`, with a notice that names it; sets the CPU threads if given.

    `process` is the number of this one among those on this machine that train together: each has a device of its own.

    Raises:
        ConfigError: another name, or a CUDA device that is not there. Only `auto` falls back to the CPU.
    """
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", name):
        raise ConfigError(f"--device must be auto, cpu, cuda or cuda:N, but is '{name}'.")
    if threads is not None:
        torch.set_num_threads(threads)
    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if name == "cpu" or (name == "auto" and not found):
        reason = ": no CUDA device was found" if name == "auto" else ""
        yield Notice(f"Device: CPU, {_count(torch.get_num_threads(), 'thread')}{reason}.")
        return torch.device("cpu")
    number = int(name.partition(":")[2] or process or 0)
    if process is not None and (":" in name or number >= found):
        raise ConfigError(
            f"--device {name}: process {process} of this machine needs a CUDA device of its own, and there "
            f"{'is' if found == 1 else 'are'} {found}; use --device cuda, and as many processes as devices."
        )
    if number >= found:
        raise ConfigError(f"--device {name}: {_absence(found)}; use --device cpu or --device auto.")
    yield Notice(f"Device: cuda:{number}, {torch.cuda.get_device_name(number)}.")
    return torch.device("cuda", number)


def _absence(found: int) -> str:
    if found:
        return f"this machine has {_count(found, 'CUDA device')}, counted from cuda:0"
    return f"torch {torch.__version__} finds no CUDA device here"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


_FULL_CPU = ("DefaultCPUAllocator", "not enough memory")


def is_out_of_memory(error: Exception) -> bool:
    """Whether a device, or the CPU, had not enough memory."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(name in str(error) for name in _FULL_CPU)
