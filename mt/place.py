"""Which of the processes this is that torchrun started together. It imports no torch: `mt --help` asks, too."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from mt.errors import ConfigError


@dataclass(frozen=True)
class Place:
    """Which of how many processes this is, as torchrun, or whoever starts it, has it in the environment."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    """Of the processes on this machine: the number of its device."""

    @property
    def leads(self) -> bool:
        """Whether this process speaks for all."""
        return self.rank == 0

    @property
    def process(self) -> int | None:
        """The number of its device on this machine; None: it is alone, and may have any."""
        return self.local_rank if self.size > 1 else None

    def has(self, number: int) -> bool:
        """Whether, of work that is dealt out in turns, the piece of this number, from 0, is this process's."""
        return number % self.size == self.rank

    @classmethod
    def of(cls, environment: Mapping[str, str] = os.environ) -> Place:
        """Alone, unless RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are all there.

        Raises:
            ConfigError: one of them is no number.
        """
        if not {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} <= environment.keys():
            return cls()
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
        try:
            return cls(*(int(environment.get(name, "0")) for name in names))
        except ValueError:
            found = ", ".join(f"{name}={environment.get(name, '')}" for name in names)
            raise ConfigError(f"RANK, WORLD_SIZE and LOCAL_RANK must be numbers, but are {found}.") from None
