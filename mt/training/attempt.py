"""A store of keys that is this attempt's own.

torchrun starts the workers anew after a failure, and gives them the store of the attempt before (torch 2.13, with any
rendezvous): what is in it leads to processes that are dead. The numbers of restarts may differ between machines.
"""

from __future__ import annotations

import secrets
import time

from torch.distributed.distributed_c10d import PrefixStore, Store

from mt.errors import RunError

PATIENCE = 600.0
"""Seconds that ranks wait for the first one."""


def fresh(store: Store, rank: int, size: int) -> Store:
    """A part of `store` that the `size` ranks of this attempt have for themselves; all call this.

    Rank 0 makes up a name. Another answers the name that it finds, which may be an old one, until it is heard.

    Raises:
        RunError: rank 0 does not come.
    """
    return PrefixStore(_invite(store, size) if rank == 0 else _answer(store, rank), store)


def _invite(store: Store, size: int) -> str:
    name = secrets.token_hex(8)
    store.set("attempt", name)
    for rank in range(1, size):
        store.set(store.get(f"{name}/{rank}").decode(), name)
    return name


def _answer(store: Store, rank: int) -> str:
    answer, end = secrets.token_hex(8), time.monotonic() + PATIENCE
    while time.monotonic() < end:
        store.set(f"{store.get('attempt').decode()}/{rank}", answer)
        if store.check([answer]):
            return store.get(answer).decode()
        time.sleep(0.05)
    raise RunError(f"Process 0 did not come within {PATIENCE:.0f} seconds.")
