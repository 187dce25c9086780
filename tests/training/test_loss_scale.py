"""The scale of float16 losses, update by update."""

from __future__ import annotations

import json
from dataclasses import replace

from mt.training.loss_scale import FLOOR, GROWTH_INTERVAL, LossScale
from mt.training.state import TrainingState


def test_an_overflow_halves_it() -> None:
    assert LossScale(1024.0, good=7).after(overflow=True) == LossScale(512.0, good=0)


def test_it_doubles_after_a_row_of_good_updates() -> None:
    scale = LossScale(1024.0)
    for _ in range(GROWTH_INTERVAL - 1):
        scale = scale.after(overflow=False)
    assert scale.value == 1024
    assert scale.after(overflow=False) == LossScale(2048.0, good=0)


def test_below_its_floor_it_is_exhausted() -> None:
    """Fault 65."""
    scale, overflows = LossScale(), 0
    while not scale.exhausted:
        scale, overflows = scale.after(overflow=True), overflows + 1
    assert (overflows, scale.value) == (17, FLOOR / 2)


def test_it_is_resumed() -> None:
    state = replace(TrainingState(), loss_scale=LossScale(512.0, good=3))
    assert TrainingState.from_json(json.loads(json.dumps(state.to_json()))) == state
