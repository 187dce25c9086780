"""Means between two lines of the log."""

from __future__ import annotations

import math

import pytest
import torch

from mt.training.events import StepDone
from mt.training.meter import Meter
from mt.training.state import TrainingState


def step(loss: float, nll: float, tokens: int, seconds: float = 1.0) -> StepDone:
    return StepDone(TrainingState(), torch.tensor(loss), torch.tensor(nll), tokens, seconds, torch.tensor(1.0), 0.1)


def test_means_are_over_tokens_and_not_over_updates() -> None:
    """Fault 50: 10 tokens at 1.0 nats and 2 tokens at 5.0 make 20 / 12; 12 tokens in 3 seconds, padding not counted."""
    meter = Meter()
    meter.add(step(11.0, 10.0, 10))
    meter.add(step(13.0, 10.0, 2, seconds=2.0))
    means = meter.means()
    assert [means.loss, means.nll, means.tokens_per_second] == pytest.approx([24 / 12, 20 / 12, 4])


@pytest.mark.parametrize("value", [710.0, 1e4, math.inf, math.nan])
@pytest.mark.parametrize("tokens", [0, 1])
@pytest.mark.parametrize("seconds", [0.0, 1.0])
def test_no_value_ends_training(value: float, tokens: int, seconds: float) -> None:
    """Fault 72: neither an overflow nor a division by zero."""
    meter = Meter()
    meter.add(step(value, value, tokens, seconds))
    means = meter.means()
    for found in (means.loss, means.nll):
        assert found == pytest.approx(value if tokens else math.nan, nan_ok=True)
    assert math.isfinite(means.tokens_per_second)
