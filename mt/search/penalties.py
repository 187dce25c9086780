"""Length penalties: what a hypothesis' summed log-probability is divided by.

Without one, longer output can only lose: each further token adds a negative number to the sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable

Penalty = Callable[[float, float], float]
"""length (tokens generated, the end mark counted), alpha -> divisor; never smaller for a greater length."""


def average(length: float, alpha: float) -> float:
    """length^alpha; with alpha 1 the score is the mean log-probability of a token."""
    return math.pow(length, alpha)


def wu(length: float, alpha: float) -> float:
    """((5 + length) / 6)^alpha (Wu et al. 2016, section 7, equation 14)."""
    return math.pow((5 + length) / 6, alpha)


def none(length: float, alpha: float) -> float:  # noqa: ARG001 - one signature for all
    """1: the score is the plain sum."""
    return 1.0


PENALTIES: dict[str, Penalty] = {"average": average, "wu": wu, "none": none}
