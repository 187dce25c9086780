"""Learning-rate schedules: pure functions of the update's number, which is 1 for the first update.

An update is one step of the optimiser, however many micro-batches it accumulates.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
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


def noam(factor: float, config: ScheduleConfig) -> Schedule:
    """factor x D^-0.5 x min(update^-0.5, update x warmup^-1.5): Vaswani et al. 2017, section 5.3, equation 3.

    That is an inverse square root whose warm-up starts at 0 and leads to factor / sqrt(D x warmup).
    """
    assert config.dim is not None  # the recipe knows its model's
    return inverse_sqrt(factor / math.sqrt(config.dim * max(config.warmup, 1)), replace(config, init=0.0))


def constant(peak: float, config: ScheduleConfig) -> Schedule:
    """Linear warm-up from `init` (update 0) to `peak` (update `warmup`), then `peak`. Without warm-up always `peak`."""

    def rate(update: int) -> float:
        if update >= config.warmup:
            return peak
        return config.init + (peak - config.init) * update / config.warmup

    return rate


def linear(peak: float, config: ScheduleConfig) -> Schedule:
    """Linear warm-up to `peak`, then a straight line to `final` at update `updates`, and `final` after it."""
    return _decay(peak, config, lambda done: 1 - done)


def cosine(peak: float, config: ScheduleConfig) -> Schedule:
    """Linear warm-up to `peak`, then half a cosine to `final` at update `updates`, and `final` after it.

    Loshchilov and Hutter 2017, "SGDR", equation 5, without restarts.
    """
    return _decay(peak, config, lambda done: (1 + math.cos(math.pi * done)) / 2)


def _decay(peak: float, config: ScheduleConfig, left: Callable[[float], float]) -> Schedule:
    """Warm-up, then from `peak` (without warm-up at update 1) to `final`.

    `left`: share of the decay's updates that is done -> share of its height that is left.
    """
    warmup, top, end = constant(peak, config), max(config.warmup, 1), config.updates
    assert end is not None  # TrainConfig has checked it

    def rate(update: int) -> float:
        if update <= top:
            return warmup(update)
        done = min(1.0, (update - top) / (end - top))
        return config.final + (peak - config.final) * left(done)

    return rate


SCHEDULES: dict[str, Callable[[float, ScheduleConfig], Schedule]] = {
    "inverse_sqrt": inverse_sqrt,
    "noam": noam,
    "linear": linear,
    "cosine": cosine,
    "constant": constant,
    "plateau": constant,  # times TrainingState.lr_scale, which `ScheduleConfig.lr_scale` lowers
}
