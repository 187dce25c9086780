"""Minimum Bayes risk (Kumar and Byrne 2004, section 2; with samples, Eikema and Aziz 2020, section 6).

The translation that is most like all others, weighted by how probable they are, instead of the most probable one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from mt.search.hypothesis import Hypothesis

Utility = Callable[[Sequence[Hypothesis]], Sequence[Sequence[float]]]
"""Hypotheses of a line -> how good each (row) is if each (column) were the reference. Search sees no text: whoever has
the text makes it."""


def minimum_bayes_risk(found: Sequence[Hypothesis], sampled: bool, utility: Utility) -> list[Hypothesis]:
    """The hypotheses in the order of their expected utility, which becomes their score; cut ones come last.

    A reference weighs what it was drawn (`sampled`), else its probability, renormalised over all that were found.
    """
    weights = [one.count for one in found] if sampled else _probabilities(found)
    total = math.fsum(weights)
    expected = [
        replace(one, score=math.fsum(weight * value for weight, value in zip(weights, row, strict=True)) / total)
        for one, row in zip(found, utility(found), strict=True)
    ]
    return sorted(expected, key=lambda one: (one.truncated, -one.score))


def _probabilities(found: Sequence[Hypothesis]) -> list[float]:
    greatest = max((one.log_prob for one in found), default=0.0)
    return [math.exp(one.log_prob - greatest) for one in found]
