"""`train.batch_tokens: auto`: the largest budget of a micro-batch that fits into memory.

On a GPU it is tried: forward and backward passes of a batch of the longest pairs, beside memory as large as the
optimiser's state will be. On a CPU, whose memory is no wall but a swamp, half of what is available is divided by what
`mt train --dry-run` estimates for a token. Beyond `MOST` tokens no device gets faster.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from mt.data.batching import Batch, collate
from mt.device import is_out_of_memory
from mt.objectives.cross_entropy import Loss
from mt.training.memory import PairTooLargeError
from mt.training.precision import Precision

MOST = 2**15
UNKNOWN = 4096
"""Where the system does not say how much memory there is."""
STEP = 256
_MARGIN = 0.9
"""Of what fitted: memory is never as tidy again as before the first update."""


def largest(fits: Callable[[int], bool], least: int, most: int = MOST) -> int:
    """The largest budget, up to about `STEP`, of which `fits` is true: doubling from `least`, then bisection.

    0 where not even `least` fits.
    """
    if not fits(least):
        return 0
    good, bad = least, None
    while bad is None and good < most:
        trial = min(2 * good, most)
        good, bad = (trial, None) if fits(trial) else (good, trial)
    while bad is not None and bad - good > STEP:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if fits(middle) else (good, middle)
    return good


def tried(
    loss: Callable[[Batch], Loss], model: nn.Module, precision: Precision, longest: int, state_size: int, pad: int
) -> int:
    """The budget found on the device, where pairs of `longest` tokens a side, end marks included, take their row each.

    Args:
        state_size: float32 numbers of the optimiser's state.

    Raises:
        PairTooLargeError: a single pair does not fit.
    """
    state = torch.empty(state_size, device=precision.device)  # held while it is tried

    def fits(budget: int) -> bool:
        try:
            with precision.autocast():
                total = loss(_batch(-(-budget // longest), longest, pad).to(precision.device)).total
            torch.autograd.backward(total)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            return False
        finally:
            model.zero_grad()
        return True

    found = largest(fits, longest)
    del state
    if not found:
        raise PairTooLargeError(_batch(1, longest, pad))
    return max(longest, rounded(int(found * _MARGIN)))


def estimated(token_bytes: int, state_bytes: int) -> int:
    """The budget of a CPU, of which a token keeps `token_bytes` for the backward pass."""
    available = available_memory()
    if available is None:
        return UNKNOWN
    return max(STEP, min(MOST, rounded((available // 2 - state_bytes) // token_bytes)))


def available_memory() -> int | None:
    """Bytes that this machine could give without swapping; None where it does not say."""
    try:
        lines = Path("/proc/meminfo").read_text("utf-8").split("\n")
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def rounded(budget: int) -> int:
    """A budget of whole steps, at most `budget`."""
    return budget // STEP * STEP


def _batch(rows: int, longest: int, pad: int) -> Batch:
    """`rows` pairs without padding, all of the piece after `pad`."""
    pieces = [[pad + 1] * (longest - 1)] * rows
    return collate(pieces, pieces, pad, bos=pad + 1, eos=pad + 1)
