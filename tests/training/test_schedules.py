from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from mt.errors import ConfigError
from mt.training.config import DECAYS, ScheduleConfig, TrainConfig
from mt.training.schedules import SCHEDULES
from mt.training.state import TrainingState


@pytest.mark.parametrize(
    ("update", "rate"), [(0, 1e-7), (1, 2.24975e-07), (2000, 2.5005e-04), (4000, 5e-4), (16000, 2.5e-4)]
)
def test_inverse_square_root(update: int, rate: float) -> None:
    """Fault 53."""
    schedule = ScheduleConfig(name="inverse_sqrt", warmup=4000, init=1e-7).build(5e-4)
    assert schedule(update) == pytest.approx(rate, rel=1e-9)


NOAM = {
    1: 1.746928e-07,
    2: 3.493856e-07,
    100: 1.746928e-05,
    4000: 6.987712e-04,
    16000: 3.493856e-04,
    100000: 1.397542e-04,
}


@pytest.mark.parametrize(("update", "rate"), NOAM.items())
def test_noam(update: int, rate: float) -> None:
    """Fault 53: D 512, warm-up 4000."""
    schedule = ScheduleConfig(name="noam", warmup=4000).build(1.0, dim=512)
    assert schedule(update) == pytest.approx(rate, rel=1e-6)
    assert schedule(update) == pytest.approx(512**-0.5 * min(update**-0.5, update * 4000**-1.5), rel=1e-12)


def test_noam_is_multiplied_by_the_learning_rate_and_may_be_of_another_width() -> None:
    config = ScheduleConfig(name="noam", warmup=4000)
    assert config.build(2.0, dim=512)(100) == 2 * config.build(1.0, dim=512)(100)
    assert replace(config, dim=128).build(1.0, dim=512)(100) == config.build(1.0, dim=128)(100)


def test_constant_after_its_warmup() -> None:
    schedule = ScheduleConfig(name="constant", warmup=10, init=0).build(1.0)
    assert [schedule(update) for update in (1, 5, 10, 11, 10**6)] == [0.1, 0.5, 1.0, 1.0, 1.0]


@pytest.mark.parametrize("name", SCHEDULES)
def test_no_warmup_starts_at_the_peak(name: str) -> None:
    """Fault 53: neither a division by zero nor a first update without learning rate."""
    schedule = ScheduleConfig(name=name, warmup=0).build(1e-3, 100, dim=1)
    assert schedule(0) == schedule(1) == 1e-3


@pytest.mark.parametrize("name", SCHEDULES)
def test_the_peak_is_reached_at_the_last_update_of_the_warmup(name: str) -> None:
    """Fault 53: no two updates of the warm-up share a rate."""
    schedule = ScheduleConfig(name=name, warmup=5).build(1e-3, 100, dim=1)
    rates = [schedule(update) for update in range(1, 6)]
    assert rates == sorted(set(rates))
    assert rates[0] > 0
    assert rates[-1] == max(map(schedule, range(200))) == pytest.approx(1e-3 / 5**0.5 if name == "noam" else 1e-3)


@pytest.mark.parametrize(
    ("name", "rates"),
    [
        ("linear", [0.5, 1.0, 0.775, 0.55, 0.325, 0.1, 0.1]),
        ("cosine", [0.5, 1.0, 0.8681980515, 0.55, 0.2318019485, 0.1, 0.1]),
    ],
)
def test_a_decay_ends_at_its_last_update(name: str, rates: list[float]) -> None:
    schedule = ScheduleConfig(name=name, warmup=2, init=0, updates=10, final=0.1).build(1.0, 99)
    assert [schedule(update) for update in (1, 2, 4, 6, 8, 10, 11)] == pytest.approx(rates, rel=1e-9)


def test_a_decay_lasts_as_long_as_training_unless_told() -> None:
    assert ScheduleConfig(name="linear", warmup=0).build(1.0, 11)(6) == 0.5


@pytest.mark.parametrize("name", DECAYS)
def test_a_decay_needs_an_end(name: str) -> None:
    with pytest.raises(ConfigError, match=f"^train.schedule.name {name} decays until an update: set train.schedule"):
        TrainConfig(max_epochs=1, schedule=ScheduleConfig(name=name))


@pytest.mark.parametrize("name", DECAYS)
def test_a_decay_does_not_end_within_the_warmup(name: str) -> None:
    with pytest.raises(ConfigError, match=r"ends at update 10, within the warm-up \(10 updates\)"):
        TrainConfig(max_steps=10, schedule=ScheduleConfig(name=name, warmup=10))


def test_a_decay_does_not_rise() -> None:
    with pytest.raises(ConfigError, match=r"final \(1.0\) must not be above train.lr \(0.5\)"):
        TrainConfig(max_steps=10, lr=0.5, schedule=ScheduleConfig(name="linear", warmup=1, final=1.0))


def test_a_formula_times_next_to_nothing_is_refused() -> None:
    """`lr` means another thing to noam, and its default is none for it."""
    with pytest.raises(ConfigError) as caught:
        TrainConfig(max_steps=10, schedule=ScheduleConfig(name="noam"))
    assert str(caught.value) == (
        "train.schedule.name noam multiplies its formula by train.lr, and 0.0005 leaves next to nothing: set "
        "train.lr, 1.0 for the learning rates of the paper."
    )


def test_a_key_that_the_schedule_does_not_read_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        TrainConfig(max_steps=10, schedule=ScheduleConfig(name="constant", final=1e-5))
    assert str(caught.value) == (
        "train.schedule.final 1e-05 belongs to train.schedule.name linear or cosine or plateau, but that is "
        "constant: change train.schedule.name, or leave train.schedule.final out."
    )


def scales(values: list[float], resume_after: int | None = None, **keys: Any) -> list[float]:
    """What the learning rate 0.1 is multiplied by after each of these validation losses."""
    schedule, state, found = ScheduleConfig(name="plateau", **keys), TrainingState(), []
    for number, value in enumerate(values, start=1):
        state = state.after_batches(1, 1, 10, 100).after_validation({"loss": value})
        state = replace(state, lr_scale=schedule.lr_scale(state.lr_scale, state.bad_validations, 0.1))
        if number == resume_after:
            state = TrainingState.from_json(json.loads(json.dumps(state.to_json())))
        found.append(state.lr_scale)
    return found


@pytest.mark.parametrize("resume_after", [None, *range(1, 9)])
def test_a_plateau_lowers_the_rate_after_so_many_bad_validations_in_a_row(resume_after: int | None) -> None:
    """Fault 57's kind: the count, its best value and the rate survive a restart. NaN and a tie are not better."""
    values = [5.0, 4.0, math.nan, 4.0, 3.0, 3.5, 3.4, 3.3, 3.2]
    assert scales(values, resume_after, patience=2) == [1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.125]


def test_a_plateau_has_a_lowest_rate() -> None:
    assert scales([1.0] * 5, patience=1, factor=0.5, final=0.03) == [1, 0.5, 0.3, 0.3, 0.3]
    assert ScheduleConfig(name="plateau", patience=1, final=0.03).lr_scale(0.2, 1, 0.1) == 0.2


@pytest.mark.parametrize("name", sorted(SCHEDULES.keys() - {"plateau"}))
def test_validations_change_no_other_schedule(name: str) -> None:
    assert ScheduleConfig(name=name).lr_scale(1.0, 3, 0.1) == 1.0


def test_a_plateau_that_training_does_not_outlast_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        TrainConfig(patience=3, schedule=ScheduleConfig(name="plateau", patience=3))
    assert str(caught.value) == (
        "train.patience (3) ends training before train.schedule.patience (3) could lower the learning rate: make it "
        "the larger one."
    )
