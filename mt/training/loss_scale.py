"""Dynamic loss scaling, which float16 gradients need (Micikevicius et al. 2018, "Mixed Precision Training", 3.2).

The loss is multiplied by a power of two before the backward pass, so that small gradients do not vanish in float16, and
the gradient is divided by it before anything else looks at it. An overflow halves the scale and costs the update.
"""

from __future__ import annotations

from dataclasses import dataclass

FIRST, FLOOR, GROWTH_INTERVAL = 2.0**16, 1.0, 2000


@dataclass(frozen=True)
class LossScale:
    """What the loss is multiplied by, and the updates in a row that did not overflow with it."""

    value: float = FIRST
    good: int = 0

    def after(self, *, overflow: bool) -> LossScale:
        """Half after an overflow, double after `GROWTH_INTERVAL` updates without one."""
        if overflow:
            return LossScale(self.value / 2)
        if self.good + 1 < GROWTH_INTERVAL:
            return LossScale(self.value, self.good + 1)
        return LossScale(self.value * 2)

    @property
    def exhausted(self) -> bool:
        """Whether it fell below its floor: without any scaling the gradient still overflows."""
        return self.value < FLOOR
