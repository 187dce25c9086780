"""Learning-rate schedules: pure functions of the update's number, which is 1 for the first update.

An update is one step of the optimiser, however many micro-batches it accumulates.

The schedule of Vaswani et al. 2017 (section 5.3, equation 3) is `inverse_sqrt` with the peak 1 / sqrt(D x warmup) and
`init` 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from mt.training.config import ScheduleConfig

Schedule: TypeAlias = Callable[[int], float]


def inverse_sqrt(peak: float, config: ScheduleConfig) -> Schedule:
    """Linear warm-up from `init` (update 0) to `peak` (update `warmup`), then peak x sqrt(warmup / update).

    Without warm-up the first update has the peak: peak / sqrt(update).
    """
    after = constant(peak, config)

    def rate(update: int) -> float:
        return after(update) * math.sqrt(max(config.warmup, 1) / max(update, config.warmup, 1))

    return rate


def constant(peak: float, config: ScheduleConfig) -> Schedule:
    """Linear warm-up from `init` (update 0) to `peak` (update `warmup`), then `peak`. Without warm-up always `peak`."""

    def rate(update: int) -> float:
        if update >= config.warmup:
            return peak
        return config.init + (peak - config.init) * update / config.warmup

    return rate


SCHEDULES: dict[str, Callable[[float, ScheduleConfig], Schedule]] = {
    "inverse_sqrt": inverse_sqrt,
    "constant": constant,
}
