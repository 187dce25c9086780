from __future__ import annotations

import pytest

from mt.errors import ConfigError
from mt.training.config import OptimizerConfig, ScheduleConfig, TrainConfig
from mt.training.optim import OPTIMIZERS
from mt.training.schedules import SCHEDULES
from mt.training.units import Period


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("500", 500, "updates"),
        ("500u", 500, "updates"),
        ("2e", 2, "epochs"),
        ("0.5e", 0.5, "epochs"),
        ("100t", 100, "tokens"),
        ("3kt", 3000, "tokens"),
        ("10Mt", 10_000_000, "tokens"),
        ("1.5Gt", 1_500_000_000, "tokens"),
        ("90s", 90, "seconds"),
        ("30m", 1800, "seconds"),
        ("4h", 14400, "seconds"),
        (" 4 h ", 14400, "seconds"),
    ],
)
def test_periods_carry_units(text: str, value: float, unit: str) -> None:
    period = Period.parse(text)
    assert (period.value, period.unit, str(period)) == (value, unit, text.strip())


@pytest.mark.parametrize("text", ["", "0", "-5", "0e", "5 x", "e", "1e3", "12:30", "10M", "1E"])
def test_what_is_no_period_is_refused(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Period.parse(text)
    assert str(caught.value) == (
        f"'{text}' is not a period; write a number above 0 and a unit: 500 (updates), 2e (epochs), "
        "10Mt (target tokens), 90s, 30m or 4h."
    )


@pytest.mark.parametrize(("config", "table"), [(ScheduleConfig, SCHEDULES), (OptimizerConfig, OPTIMIZERS)])
def test_every_choice_is_built_and_every_member_can_be_chosen(config: type, table: dict[str, object]) -> None:
    assert set(config.__dataclass_fields__["name"].metadata["choices"]) == set(table)  # type: ignore[attr-defined]


def test_training_needs_an_end() -> None:
    with pytest.raises(ConfigError, match=r"^train needs an end: set train\.max_steps"):
        TrainConfig()


@pytest.mark.parametrize(
    ("accumulate", "warmup", "numbers"),
    [(4, 0, [4, 4, 4]), (4, 8, [1, 1, 2, 2, 3, 3, 4, 4, 4]), (3, 2, [2, 3, 3]), (2, 5, [1, 1, 2, 2, 2, 2])],
)
def test_micro_batches_grow_over_the_warm_up_of_the_batch(accumulate: int, warmup: int, numbers: list[int]) -> None:
    config = TrainConfig(max_steps=1, accumulate=accumulate, batch_warmup=warmup)
    assert [config.micro_batches(update) for update in range(1, len(numbers) + 1)] == numbers


def test_a_batch_of_one_micro_batch_has_no_warm_up() -> None:
    with pytest.raises(ConfigError) as caught:
        TrainConfig(max_steps=1, batch_warmup=10)
    assert str(caught.value) == (
        "train.batch_warmup (10) grows the micro-batches of an update up to train.accumulate, which is 1: set that, "
        "or leave batch_warmup out."
    )


def test_adafactor_is_not_sharded() -> None:
    with pytest.raises(ConfigError) as caught:
        TrainConfig(max_steps=1, sharding="full", optimizer=OptimizerConfig(name="adafactor"))
    assert str(caught.value) == (
        "train.sharding full cuts weights and their moments alike, but those of train.optimizer.name adafactor are of "
        "whole rows and columns: choose adam or adamw, or train.sharding none."
    )


def test_a_time_limit_is_a_time() -> None:
    with pytest.raises(ConfigError) as caught:
        TrainConfig(max_time=Period.parse("3e"))
    assert str(caught.value) == "train.max_time must be a time such as 90s, 30m or 4h, but is 3e."
