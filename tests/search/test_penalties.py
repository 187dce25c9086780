from __future__ import annotations

import math

import pytest

from mt.search.penalties import PENALTIES


@pytest.mark.parametrize(
    ("length", "alpha", "divisor"), [(1, 1, 1.0), (7, 1, 2.0), (10, 0.6, 1.732862), (20, 0.6, 2.354362)]
)
def test_wu_is_the_formula_of_the_paper(length: int, alpha: float, divisor: float) -> None:
    """Fault 79."""
    assert PENALTIES["wu"](length, alpha) == pytest.approx(divisor, abs=5e-7)


@pytest.mark.parametrize(
    ("probability", "length", "score"), [(0.36, 2, -0.674038), (0.24, 3, -0.738221), (0.3, 4, -0.524060)]
)
def test_average_is_a_power_of_the_length(probability: float, length: int, score: float) -> None:
    """Fault 79: the hypotheses `x`, `x x` and `y z w` of toy T1, the end mark counted, alpha 0.6."""
    assert math.log(probability) / PENALTIES["average"](length, 0.6) == pytest.approx(score, abs=5e-7)


@pytest.mark.parametrize("kind", PENALTIES)
@pytest.mark.parametrize("length", [1, 2, 7, 100])
def test_alpha_zero_is_the_plain_sum(kind: str, length: int) -> None:
    """Fault 79."""
    assert PENALTIES[kind](length, 0) == 1


@pytest.mark.parametrize("kind", PENALTIES)
@pytest.mark.parametrize("alpha", [0, 0.6, 1, 2])
def test_no_penalty_falls_with_the_length(kind: str, alpha: float) -> None:
    """The bound at which a search stops stands on this."""
    divisors = [PENALTIES[kind](length, alpha) for length in range(1, 200)]
    assert divisors == sorted(divisors)
    assert divisors[0] == 1
