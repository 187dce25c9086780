from __future__ import annotations

import json
import math

import pytest

from mt.training.config import TrainConfig
from mt.training.state import HIGHER_IS_BETTER, Best, TrainingState, due
from mt.training.units import Period


def resumed(state: TrainingState) -> TrainingState:
    return TrainingState.from_json(json.loads(json.dumps(state.to_json(), allow_nan=False)))


def validations(metric: str, values: list[float], resume_after: int | None = None) -> TrainingState:
    """The state after these values, one validation an update."""
    state = TrainingState(metric=metric)
    for number, value in enumerate(values, start=1):
        state = state.after_batches(1, 1, 10, 100).after_validation({metric: value})
        if number == resume_after:
            state = resumed(state)
    return state


@pytest.mark.parametrize(
    ("metric", "values"), [("loss", [3.0, 2.0, 2.5]), ("bleu", [10, 20, 15]), ("chrf", [10, 20, 15])]
)
@pytest.mark.parametrize("resume_after", [None, 1, 2])
def test_the_best_survives_a_restart_and_knows_its_direction(
    metric: str, values: list[float], resume_after: int | None
) -> None:
    """Fault 56."""
    state = validations(metric, values, resume_after)
    assert state.best[metric] == Best(values[1], 2)


@pytest.mark.parametrize("metric", HIGHER_IS_BETTER)
def test_a_tie_keeps_the_earlier(metric: str) -> None:
    """Fault 56."""
    state = validations(metric, [20, 20])
    assert state.best[metric] == Best(20, 1)
    assert state.bad_validations == 1


def test_the_count_for_patience_survives_a_restart() -> None:
    """Fault 57: the third bad validation in a row is the fifth of all."""
    values = [5.0, 4.0, 4.1, 4.2, 4.3, 4.4, 4.5]
    bad = [validations("loss", values[: count + 1], resume_after=4).bad_validations for count in range(5)]
    assert bad == [0, 0, 1, 2, 3]
    assert validations("loss", values[:5], resume_after=4).best["loss"] == Best(4.0, 2)


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [0, 1])
def test_what_is_not_a_number_is_never_best(wrong: float, place: int) -> None:
    """Fault 58: [nan, 3.0, 2.5] and [3.0, nan, 2.5]."""
    values = [3.0, 2.5]
    values.insert(place, wrong)
    assert validations("loss", values).best["loss"] == Best(2.5, 3)
    assert validations("bleu", values).best["bleu"] == Best(3.0, 2 - place)


def test_a_validation_without_a_number_is_a_bad_one() -> None:
    """Fault 58."""
    state = validations("loss", [3.0, math.nan, math.nan])
    assert state.bad_validations == 2
    assert state.value is None
    assert math.isnan(resumed(state).scores["loss"])


def test_each_metric_has_its_best_and_only_the_chosen_one_counts_for_patience() -> None:
    state = TrainingState(metric="bleu", update=1).after_validation({"loss": 2.0, "bleu": 10.0})
    state = state.after_batches(1, 1, 1, 9).after_validation({"loss": 1.0, "bleu": 9.0})
    assert state.best == {"loss": Best(1.0, 2), "bleu": Best(10.0, 1)}
    assert state.bad_validations == 1
    assert state.value == 9.0
    assert state.after_batches(1, 1, 1, 9).value is None


def test_an_epoch_ends_with_its_last_pair() -> None:
    state = TrainingState()
    for pairs in (4, 4, 2, 4):
        state = state.after_batches(2, pairs, pairs * 5, epoch_size=10)
    assert (state.update, state.epoch, state.batch, state.pairs, state.tokens) == (4, 1, 2, 4, 70)
    assert state.elapsed("epochs") == 1.4
    assert state.elapsed("updates") == 4


def test_a_skipped_update_is_counted_and_is_no_update() -> None:
    """Faults 58 and 65: the learning rate's number stays."""
    state = TrainingState().after_batches(1, 3, 9, 10, skipped=True)
    assert (state.update, state.skipped, state.batch, state.pairs) == (0, 1, 1, 3)


def test_a_state_is_the_same_after_json() -> None:
    state = validations("loss", [3.0, 2.0]).after_batches(3, 20, 100, 50)
    assert resumed(state) == state


def moments(period: str, steps: int, resume_after: int | None = None) -> list[int]:
    """Updates at which `period` is due; four updates of 250 tokens and 7.5 seconds an epoch."""
    state, found = TrainingState(), []
    for _ in range(steps):
        after = state.after_batches(1, 5, 250, 20)
        after = TrainingState(**{**vars(after), "seconds": after.update * 7.5})
        if due(Period.parse(period), state, after):
            found.append(after.update)
        state = resumed(after) if after.update == resume_after else after
    return found


@pytest.mark.parametrize("resume_after", [None, 3, 4, 5])
@pytest.mark.parametrize(
    ("period", "expected"),
    [
        ("3", [3, 6, 9, 12]),
        ("1e", [4, 8, 12]),
        ("0.5e", [2, 4, 6, 8, 10, 12]),
        ("0.1e", [*range(1, 13)]),
        ("1kt", [4, 8, 12]),
        ("300t", [2, 3, 4, 5, 6, 8, 9, 10, 11, 12]),
        ("30s", [4, 8, 12]),
        ("0.5m", [4, 8, 12]),
        ("100", []),
    ],
)
def test_a_period_is_due_when_a_multiple_of_it_is_reached(
    period: str, expected: list[int], resume_after: int | None
) -> None:
    assert moments(period, 12, resume_after) == expected


def test_every_metric_of_the_recipe_has_a_direction() -> None:
    choices = TrainConfig.__dataclass_fields__["metric"].metadata["choices"]
    assert set(choices) == set(HIGHER_IS_BETTER)
