"""The training loop on batches made by hand: one division by all tokens, gradients that are no numbers, modes."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

from mt.data.batching import Batch, collate
from mt.errors import RunError
from mt.events import Event, Progress, finish
from mt.models.config import DecoderConfig, EncoderConfig, ModelConfig
from mt.models.encoder_decoder import EncoderDecoder
from mt.objectives.cross_entropy import CrossEntropy, Loss
from mt.training.checkpoint import Checkpoints
from mt.training.config import OptimizerConfig, ScheduleConfig, TrainConfig
from mt.training.ema import Ema
from mt.training.events import Rewound, Saved, StepDone, Stopped, Validated
from mt.training.loop import Trainer
from mt.training.loss_scale import LossScale
from mt.training.noise import Noise
from mt.training.parallel import Layout
from mt.training.precision import Precision
from mt.training.snapshot import restore
from mt.training.state import TrainingState
from mt.training.units import Period
from mt.training.update import Updater

CROSS_ENTROPY = CrossEntropy(0.1)
PAIRS = [([4, 5], [6]), ([5], [7, 8, 9, 6, 7]), ([6, 7, 8, 9], [5, 4]), ([9, 9, 4], [8, 8, 8])]
CONFIG = TrainConfig(
    max_steps=8,
    lr=0.01,
    optimizer=OptimizerConfig(eps=1e-4),
    schedule=ScheduleConfig(name="constant", warmup=0),
    valid_every=Period.parse("1e"),
    save_every=Period.parse("100"),
)


class Batches:
    """The same batches each epoch."""

    def __init__(self, *groups: list[int]) -> None:
        self.groups = groups

    def __len__(self) -> int:
        return sum(map(len, self.groups))

    def epoch(self, _epoch: int, start_batch: int = 0) -> Iterator[Batch]:
        for group in self.groups[start_batch:]:
            yield collate([PAIRS[i][0] for i in group], [PAIRS[i][1] for i in group], pad=3, bos=1, eos=2)

    def close(self) -> None:
        pass


def make_trainer(
    folder: Path,
    data: Batches,
    config: TrainConfig = CONFIG,
    dropout: float = 0.0,
    loss: Callable[[EncoderDecoder, Batch], Loss] = CROSS_ENTROPY,
    validate: Callable[[int], Generator[Event, None, dict[str, float]]] | None = None,
) -> tuple[Trainer, EncoderDecoder]:
    torch.manual_seed(1)
    encoder, decoder = EncoderConfig(layers=1), DecoderConfig(layers=1)
    model = ModelConfig(encoder=encoder, decoder=decoder, dim=8, ffn_dim=8, heads=2, dropout=dropout).build(10, 10, 3)
    updater = Updater(
        model=model,
        loss=Layout(model, partial(loss, model)),
        optimizer=config.optimizer.build(model.parameters()),
        precision=Precision(torch.device("cpu"), torch.float32),
        noise=Noise.on(torch.device("cpu"), seed=1),
        clip_norm=config.clip_norm,
    )
    trainer = Trainer(
        updater=updater,
        schedule=config.schedule.build(config.lr),
        data=data,
        validate=validate,
        checkpoints=Checkpoints(folder),
        config=config,
        ema=Ema(model, config.ema) if config.ema is not None else None,
        state=TrainingState(),
    )
    return trainer, model


def steps_of(trainer: Trainer) -> list[StepDone]:
    events: list[Event] = []
    finish(trainer.run(), events.append)
    return [event for event in events if isinstance(event, StepDone)]


@pytest.mark.parametrize("groups", [([0, 1], [2, 3]), ([0], [1, 2, 3]), ([0], [1], [2], [3])])
def test_accumulated_micro_batches_equal_one_batch(tmp_path: Path, groups: tuple[list[int], ...]) -> None:
    """Also where the micro-batches hold unequal numbers of tokens: the sum is divided once.

    Adam's eps is large, since a key bias has no gradient but rounding, which a small one would blow up.
    """
    whole, expected = make_trainer(tmp_path / "whole", Batches([0, 1, 2, 3]))
    parts, found = make_trainer(tmp_path / "parts", Batches(*groups), replace(CONFIG, accumulate=len(groups)))
    steps, expected_steps = steps_of(parts), steps_of(whole)
    assert [step.tokens for step in steps] == [step.tokens for step in expected_steps] == [15] * 8
    for step, expected_step in zip(steps, expected_steps, strict=True):
        torch.testing.assert_close(step.loss, expected_step.loss)
        torch.testing.assert_close(step.grad_norm, expected_step.grad_norm)
    torch.testing.assert_close(found.state_dict(), expected.state_dict())


def test_the_last_update_of_an_epoch_may_have_fewer_micro_batches(tmp_path: Path) -> None:
    trainer, _ = make_trainer(tmp_path, Batches([0], [1], [2, 3]), replace(CONFIG, accumulate=2, max_steps=4))
    assert [(step.state.epoch, step.state.batch, step.tokens) for step in steps_of(trainer)] == [
        (0, 2, 8),
        (1, 0, 7),
        (1, 2, 8),
        (2, 0, 7),
    ]


def test_the_schedule_counts_updates_and_not_micro_batches(tmp_path: Path) -> None:
    """Fault 53: four micro-batches, two an update."""
    noam = ScheduleConfig(name="noam", warmup=4000, dim=512)
    config = replace(CONFIG, accumulate=2, max_steps=2, lr=1.0, schedule=noam)
    trainer, _ = make_trainer(tmp_path, Batches([0], [1], [2], [3]), config)
    assert [step.learning_rate for step in steps_of(trainer)] == pytest.approx([1.746928e-07, 3.493856e-07], rel=1e-6)


def test_an_update_has_more_micro_batches_as_the_batch_warms_up(tmp_path: Path) -> None:
    config = replace(CONFIG, accumulate=3, batch_warmup=3, max_steps=4)
    trainer, _ = make_trainer(tmp_path, Batches([0], [1], [2], [3], [0], [1], [2], [3], [0]), config)
    assert [step.state.batch for step in steps_of(trainer)] == [1, 3, 6, 0]


def test_a_plateau_lowers_the_learning_rate_of_the_next_update(tmp_path: Path) -> None:
    def validate(_: int) -> Generator[Event, None, dict[str, float]]:
        yield Progress("validating", 0)
        return {"loss": 1.0}

    plateau = ScheduleConfig(name="plateau", warmup=2, init=0, patience=2)
    config = replace(CONFIG, schedule=plateau, max_steps=6, lr=1.0)
    trainer, _ = make_trainer(tmp_path, Batches([0, 1, 2, 3]), config, validate=validate)
    assert [step.learning_rate for step in steps_of(trainer)] == [0.5, 1.0, 1.0, 0.5, 0.5, 0.25]


def poisoned(calls: set[int]) -> Callable[[EncoderDecoder, Batch], Loss]:
    """A loss that is not a number at some of its calls, counted from 1."""
    counter = iter(range(1, 10**6))

    def loss(model: EncoderDecoder, batch: Batch) -> Loss:
        found = CrossEntropy(0.1)(model, batch)
        return replace(found, total=found.total * float("nan")) if next(counter) in calls else found

    return loss


def test_an_update_whose_gradient_is_no_number_is_skipped_and_counted(tmp_path: Path) -> None:
    """Fault 58; the schedule does not move on (fault 65)."""
    trainer, model = make_trainer(tmp_path, Batches([0, 1, 2, 3]), loss=poisoned({3, 5}))
    steps = steps_of(trainer)
    assert [step.state.update for step in steps] == [1, 2, 2, 3, 3, 4, 5, 6, 7, 8]
    assert trainer.state.skipped == 2
    reference, expected = make_trainer(tmp_path / "reference", Batches([0, 1, 2, 3]))
    steps_of(reference)
    torch.testing.assert_close(model.state_dict(), expected.state_dict())


def test_training_stops_when_no_update_works(tmp_path: Path) -> None:
    """Fault 58: the last good checkpoint is not overwritten."""
    config = replace(CONFIG, max_steps=10**6, save_every=Period.parse("2"))
    trainer, model = make_trainer(tmp_path, Batches([0, 1, 2, 3]), config, loss=poisoned(set(range(4, 1000))))
    with pytest.raises(
        RunError,
        match=r"Training stopped at update 3: .* not a number for 100 updates in a row \(train.max_skipped\); lower",
    ):
        steps_of(trainer)
    assert trainer.checkpoints.updates() == [2]
    assert all(bool(tensor.isfinite().all()) for tensor in trainer.checkpoints.load(2).weights.values())
    assert all(bool(tensor.isfinite().all()) for tensor in model.state_dict().values())


def overflowing(above: float) -> Callable[[EncoderDecoder, Batch], Loss]:
    """A loss whose gradient overflows as soon as it is scaled by `above` or more: by 15 tokens it was divided."""

    def spoil(gradient: torch.Tensor) -> torch.Tensor:
        return gradient * (float("nan") if float(gradient) * 15 >= above else 1.0)

    def loss(model: EncoderDecoder, batch: Batch) -> Loss:
        found = CrossEntropy(0.1)(model, batch)
        total = found.total.clone()
        total.register_hook(spoil)  # type: ignore[no-untyped-call]
        return replace(found, total=total)

    return loss


def in_float16(trainer: Trainer) -> Trainer:
    trainer.updater.precision = Precision(torch.device("cpu"), torch.float16)
    return trainer


def test_an_overflow_halves_the_loss_scale_and_not_the_learning_rate(tmp_path: Path) -> None:
    """Fault 65: the schedule counts updates that were made."""
    warmup = ScheduleConfig(name="constant", warmup=4, init=0)
    config = replace(CONFIG, schedule=warmup, max_steps=4)
    trainer, _ = make_trainer(tmp_path, Batches([0, 1, 2, 3]), config, loss=overflowing(2.0**15))
    steps = steps_of(in_float16(trainer))
    assert [step.state.update for step in steps] == [0, 0, 1, 2, 3, 4]
    assert [step.learning_rate for step in steps] == pytest.approx([0.0025, 0.0025, 0.0025, 0.005, 0.0075, 0.01])
    assert trainer.checkpoints.load(4).state.loss_scale == LossScale(2.0**14, good=4)


def test_a_loss_scale_at_its_floor_stops_training(tmp_path: Path) -> None:
    """Fault 65."""
    trainer, _ = make_trainer(tmp_path, Batches([0, 1, 2, 3]), loss=overflowing(0.0))
    with pytest.raises(RunError) as caught:
        steps_of(in_float16(trainer))
    assert str(caught.value) == (
        "Training stopped at update 0: gradients in fp16 overflow even with the smallest loss scale (1); lower "
        "train.lr or set train.precision to fp32, and resume or start again."
    )


def test_a_checkpoint_of_an_exhausted_scale_is_none_to_go_on_from(tmp_path: Path) -> None:
    """Fault 65: going back brings back the scale, too."""
    config = replace(CONFIG, on_nan="rewind")
    trainer, _ = make_trainer(tmp_path, Batches([0, 1, 2, 3]), config, loss=overflowing(0.0))
    with pytest.raises(RunError, match="also after it went back 10 times: gradients in fp16 overflow"):
        steps_of(in_float16(trainer))
    assert trainer.checkpoints.load(0).state.loss_scale == LossScale()


def diverging(step: float, after: float) -> Callable[[EncoderDecoder, Batch], Loss]:
    """A loss that is no number where the last update moved a weight by more than `step`, and all of them by `after`."""
    seen: list[torch.Tensor] = []

    def loss(model: EncoderDecoder, batch: Batch) -> Loss:
        weight = model.output.weight.detach().clone()
        if not seen or not torch.equal(weight, seen[-1]):
            seen.append(weight)
        found = CrossEntropy(0.1)(model, batch)
        far, wide = (float((weight - seen[place]).abs().max()) for place in (0, max(len(seen) - 2, 0)))
        return replace(found, total=found.total * float("nan")) if far > after and wide > step else found

    return loss


@pytest.mark.parametrize("save_every", ["100", "2", "1e"])
def test_training_goes_back_with_half_the_learning_rate(tmp_path: Path, save_every: str) -> None:
    """Fault 58. At a rate of 0.01 a weight moves about as much an update.

    A checkpoint that is saved while updates are skipped (each epoch is one update) is none to go back to.
    """
    config = replace(CONFIG, on_nan="rewind", max_skipped=3, save_every=Period.parse(save_every), max_steps=8)
    trainer, model = make_trainer(tmp_path, Batches([0, 1, 2, 3]), config, loss=diverging(0.004, after=0.035))
    events: list[Event] = []
    finish(trainer.run(), events.append)
    rewound = [event.state for event in events if isinstance(event, Rewound)]
    assert [state.lr_scale for state in rewound] == [0.5**number for number in range(1, len(rewound) + 1)]
    assert {state.skipped_in_row for state in rewound} == {0}
    assert trainer.state.rewinds == len(rewound) >= 1
    assert (trainer.state.update, trainer.state.skipped) == (8, 3 * len(rewound))
    assert trainer.checkpoints.load(8).state.lr_scale == rewound[-1].lr_scale
    assert all(bool(tensor.isfinite().all()) for tensor in model.state_dict().values())


def test_training_does_not_go_back_for_ever(tmp_path: Path) -> None:
    config = replace(CONFIG, on_nan="rewind", max_skipped=2)
    trainer, _ = make_trainer(tmp_path, Batches([0, 1, 2, 3]), config, loss=poisoned(set(range(3, 1000))))
    with pytest.raises(RunError, match="Training stopped at update 0, also after it went back 10 times: the loss was"):
        steps_of(trainer)
    assert trainer.checkpoints.load(0).state.lr_scale == 0.5**10


def test_the_learning_rate_is_that_of_the_schedule_times_the_scale_of_the_state(tmp_path: Path) -> None:
    trainer, _ = make_trainer(tmp_path, Batches([0, 1, 2, 3]), replace(CONFIG, max_steps=2))
    trainer.state = replace(trainer.state, lr_scale=0.25)
    assert [step.learning_rate for step in steps_of(trainer)] == [0.0025, 0.0025]
    assert trainer.checkpoints.load(2).state.lr_scale == 0.25


def test_dropout_is_off_in_validation_and_on_again_after_it(tmp_path: Path) -> None:
    """Fault 70."""
    modes: list[bool] = []

    def validate(_: int) -> Generator[Event, None, dict[str, float]]:
        modes.append(trainer.updater.model.training)
        yield Progress("validating", 1)
        modes.append(trainer.updater.model.training)
        return {"loss": 1.0}

    trainer, _ = make_trainer(tmp_path, Batches([0, 1, 2, 3]), dropout=0.5, validate=validate)
    for event in trainer.run():
        if isinstance(event, Validated | StepDone):
            modes.append(trainer.updater.model.training)
    assert modes == [True, False, False, True] * 8


def test_a_crash_in_validation_leaves_the_model_training(tmp_path: Path) -> None:
    """Fault 70."""

    def validate(_: int) -> Generator[Event, None, dict[str, float]]:
        yield Progress("validating", 0)
        raise ValueError("no disk")

    trainer, model = make_trainer(tmp_path, Batches([0, 1, 2, 3]), validate=validate)
    with pytest.raises(ValueError, match="no disk"):
        steps_of(trainer)
    assert model.training


@pytest.mark.parametrize("save_every", ["2", "100"])
def test_a_crash_in_validation_leaves_a_checkpoint(tmp_path: Path, save_every: str) -> None:
    """Fault 120. Resumed, training validates there first, and ends as one that never failed, bit for bit."""

    def validate(update: int) -> Generator[Event, None, dict[str, float]]:
        yield Progress("validating", 0)
        if update == 2 and not mended:
            raise ValueError("no disk")
        return {"loss": 5.0 - update}

    config = replace(CONFIG, max_steps=4, valid_every=Period.parse("2"), save_every=Period.parse(save_every))
    mended = True
    whole, expected = make_trainer(tmp_path / "whole", Batches([0, 1], [2, 3]), config, 0.3, validate=validate)
    finish(whole.run())

    mended = False
    trainer, _ = make_trainer(tmp_path / "run", Batches([0, 1], [2, 3]), config, 0.3, validate=validate)
    with pytest.raises(ValueError, match="no disk"):
        finish(trainer.run())
    checkpoint = trainer.checkpoints.load(2)
    assert (checkpoint.state.validating, checkpoint.state.unscheduled) == (True, 2)

    mended = True
    second, found = make_trainer(tmp_path / "run", Batches([0, 1], [2, 3]), config, 0.3, validate=validate)
    second.state = restore(checkpoint, found, second.updater.optimizer, tmp_path, second.ema)
    finish(second.run())
    torch.testing.assert_close(found.state_dict(), expected.state_dict(), rtol=0, atol=0)
    assert second.checkpoints.updates() == whole.checkpoints.updates()
    assert replace(second.state, seconds=0) == replace(whole.state, seconds=0)


def test_an_interrupted_validation_leaves_the_model_training(tmp_path: Path) -> None:
    """Fault 70."""

    def validate(_: int) -> Generator[Event, None, dict[str, float]]:
        yield Progress("validating", 0)
        raise AssertionError("goes on")

    trainer, model = make_trainer(tmp_path, Batches([0, 1, 2, 3]), validate=validate)
    events = trainer.run()
    while not isinstance(next(events), Progress):
        pass
    events.close()
    assert model.training


def test_a_stop_leaves_a_validation_at_once(tmp_path: Path) -> None:
    """A stop while the model is validated costs no more than a checkpoint, and what was left is done on resuming."""

    def validate(update: int) -> Generator[Event, None, dict[str, float]]:
        yield Progress("validating", 0)
        if update == 2 and not resumed:
            trainer.stop.ask()
            raise AssertionError("goes on")
        return {"loss": 5.0 - update}

    resumed = False
    config = replace(CONFIG, max_steps=4, ema=0.5)
    trainer, model = make_trainer(tmp_path, Batches([0, 1, 2, 3]), config, validate=validate)
    events: list[Event] = []
    stopped = finish(trainer.run(), events.append)
    assert (stopped.reason, stopped.finished) == ("asked to stop", False)
    assert [type(event) for event in events][-3:] == [Progress, Saved, Stopped]
    assert model.training
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    checkpoint = trainer.checkpoints.load(2)
    assert (checkpoint.state.validating, checkpoint.state.scored, checkpoint.state.unscheduled) == (True, 1, 2)

    resumed = True
    second, resumed_model = make_trainer(tmp_path, Batches([0, 1, 2, 3]), config, validate=validate)
    second.state = restore(checkpoint, resumed_model, second.updater.optimizer, tmp_path, second.ema)
    torch.testing.assert_close(resumed_model.state_dict(), weights, rtol=0, atol=0)
    events.clear()
    finish(second.run(), events.append)
    assert [event.state.update for event in events if isinstance(event, Validated)] == [2, 3, 4]
    assert second.state.best["loss"].value == 1.0


def test_a_stop_leaves_an_accumulation(tmp_path: Path) -> None:
    """In the middle of an update: it is as if it had not begun, and done when training goes on."""
    calls = iter(range(10**6))

    def stopping(model: EncoderDecoder, batch: Batch) -> Loss:
        if next(calls) == 5:
            trainer.stop.ask()
        return CROSS_ENTROPY(model, batch)

    config = replace(CONFIG, accumulate=4, max_steps=4)
    data = Batches([0], [1], [2], [3])
    trainer, model = make_trainer(tmp_path / "parts", data, config, dropout=0.5, loss=stopping)
    assert [step.state.update for step in steps_of(trainer)] == [1]
    assert next(calls) == 6, "the third micro-batch of the second update is not begun"
    assert (trainer.state.epoch, trainer.state.batch, trainer.state.update) == (1, 0, 1)
    assert all(parameter.grad is None for parameter in model.parameters())
    checkpoint = trainer.checkpoints.load(1)
    resumed, found = make_trainer(tmp_path / "parts", data, config, dropout=0.5)
    resumed.state = restore(checkpoint, found, resumed.updater.optimizer, tmp_path)
    steps_of(resumed)
    whole, expected = make_trainer(tmp_path / "whole", data, config, dropout=0.5)
    steps_of(whole)
    torch.testing.assert_close(found.state_dict(), expected.state_dict(), rtol=0, atol=0)


def test_milestones_are_kept_for_good(tmp_path: Path) -> None:
    config = replace(CONFIG, keep_every=Period.parse("3"), save_every=Period.parse("2"), keep_last=2, max_steps=11)
    trainer, _ = make_trainer(tmp_path, Batches([0, 1, 2, 3]), config)
    steps_of(trainer)
    assert trainer.checkpoints.updates() == [3, 6, 9, 10, 11]


def test_what_is_among_the_best_is_saved_though_it_is_not_the_best(tmp_path: Path) -> None:
    values = iter([3.0, 2.0, 2.5, 4.0, 2.2, 2.2, 5.0, float("nan")])

    def validate(_: int) -> Generator[Event, None, dict[str, float]]:
        yield Progress("validating", 0)
        return {"loss": next(values)}

    config = replace(CONFIG, keep_best=3)
    trainer, _ = make_trainer(tmp_path, Batches([0, 1, 2, 3]), config, validate=validate)
    steps_of(trainer)
    assert trainer.checkpoints.best(3) == [2, 5, 6]
    assert trainer.checkpoints.updates() == [2, 5, 6, 8]


def test_the_moving_average_is_validated_saved_and_not_trained(tmp_path: Path) -> None:
    shown: list[torch.Tensor] = []

    def validate(_: int) -> Generator[Event, None, dict[str, float]]:
        yield Progress("validating", 0)
        shown.append(model.output.weight.detach().clone())
        return {"loss": 1.0}

    config = replace(CONFIG, ema=0.9, max_steps=3)
    trainer, model = make_trainer(tmp_path, Batches([0, 1, 2, 3]), config, validate=validate)
    average, trained = model.output.weight.detach().clone(), []
    for event in trainer.run():
        if isinstance(event, StepDone):
            trained.append(model.output.weight.detach().clone())
    for number, weight in enumerate(trained, 1):
        decay = min(0.9, (1 + number) / (10 + number))
        average = decay * average + (1 - decay) * weight
        torch.testing.assert_close(shown[number - 1], average)
    torch.testing.assert_close(trainer.checkpoints.load(3).weights["output.weight"], average)
    assert torch.equal(model.output.weight, trained[-1])
    plain, _ = make_trainer(tmp_path / "plain", Batches([0, 1, 2, 3]), replace(config, ema=None))
    steps_of(plain)
    torch.testing.assert_close(plain.updater.model.state_dict(), model.state_dict(), rtol=0, atol=0)


def test_each_new_best_is_saved(tmp_path: Path) -> None:
    """Fault 56: the best checkpoint is kept, however old; of equal values the earlier."""
    values = iter([3.0, 2.0, 2.0, float("nan"), 2.5, 1.0, 4.0, 5.0])

    def validate(_: int) -> Generator[Event, None, dict[str, float]]:
        yield Progress("validating", 0)
        return {"loss": next(values)}

    trainer, _ = make_trainer(tmp_path, Batches([0, 1, 2, 3]), validate=validate)
    events: list[Event] = []
    finish(trainer.run(), events.append)
    assert [event.is_best for event in events if isinstance(event, Validated)] == [
        True, True, False, False, False, True, False, False,
    ]  # fmt: skip
    assert trainer.checkpoints.updates() == [6, 8]


@pytest.mark.parametrize("resume_after", [1, 2, 3, 4])
@pytest.mark.parametrize(
    ("metric", "values"), [("loss", [5.0, 4.0, 4.1, 4.2, 4.3, 4.4, 4.5]), ("bleu", [10, 20, 20, 15, 19, 19, 18])]
)
def test_patience_best_and_plateau_survive_a_restart(
    tmp_path: Path, metric: str, values: list[float], resume_after: int
) -> None:
    """Faults 56 and 57: the third bad validation in a row is the fifth; the second has the best checkpoint."""

    def validate(update: int) -> Generator[Event, None, dict[str, float]]:
        yield Progress("validating", 0)
        return {metric: values[update - 1]}

    plateau = ScheduleConfig(name="plateau", warmup=0, patience=2)
    config = replace(CONFIG, metric=metric, patience=3, max_steps=None, schedule=plateau)
    first, _ = make_trainer(tmp_path, Batches([0, 1, 2, 3]), replace(config, max_steps=resume_after), validate=validate)
    first.state = TrainingState(metric=metric)
    steps = steps_of(first)
    checkpoint, _ = first.checkpoints.newest()
    assert checkpoint is not None
    second, model = make_trainer(tmp_path, Batches([0, 1, 2, 3]), config, validate=validate)
    second.state = restore(checkpoint, model, second.updater.optimizer, tmp_path)
    steps += steps_of(second)
    assert second.state.update == 5
    assert second.checkpoints.best(1) == [2]
    assert [step.learning_rate for step in steps] == [0.01, 0.01, 0.01, 0.01, 0.005]
