"""Train: a prepared corpus -> checkpoints in a run folder. The same call again resumes.

A new architecture goes into mt/models (ENCODERS, DECODERS, PRESETS), a new objective into mt/objectives, a schedule or an
optimiser into mt/training: nothing changes here.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial

import torch

from mt.checks import check_recipe
from mt.data.store import Store
from mt.data.training_data import TrainingData
from mt.events import Event, Notice, Progress
from mt.objectives.cross_entropy import CrossEntropy
from mt.recipe import RECIPE_FILE, Recipe, save_recipe
from mt.training.checkpoint import Checkpoints
from mt.training.final import write_final
from mt.training.loop import StepDone, Stopped, Trainer
from mt.training.meter import Meter, expected_updates
from mt.training.precision import Precision
from mt.training.snapshot import restore
from mt.training.state import TrainingState, due
from mt.validation import Validation


@dataclass(frozen=True)
class TrainReport:
    """How a training ended."""

    state: TrainingState
    reason: str
    finished: bool
    """False where it was asked to stop; the same command goes on."""
    final: list[int]
    """The updates whose checkpoints the final model is the mean of; empty while training is not finished."""


def train(
    recipe: Recipe,
    device: torch.device | str = "cpu",
    should_stop: Callable[[], bool] = lambda: False,
    overwrite: bool = False,
) -> Generator[Event, None, TrainReport]:
    """Train the recipe's model, or go on with a training that stopped; yields `Trained`, `Validated`, `Saved`, `Progress`.

    Args:
        should_stop: asked after each update; True saves a checkpoint and ends.
        overwrite: begin anew where the run folder holds another training.

    Raises:
        ConfigError, DataError: recipe or prepared corpus are wrong.
        RunError: the run folder is in use, holds a training of other settings, or cannot be written.
    """
    check_recipe(recipe, "train")
    store = Store.open(recipe.data_dir)
    yield from _open_run(recipe, store, overwrite)
    trainer = build_trainer(recipe, store, torch.device(device), should_stop)
    yield from _resume(trainer)
    stopped = yield from _watch(trainer)
    final = write_final(recipe.model_dir, recipe.train.average) if stopped.finished else []
    return TrainReport(trainer.state, stopped.reason, stopped.finished, final)


def build_trainer(
    recipe: Recipe, store: Store, device: torch.device, should_stop: Callable[[], bool] = lambda: False
) -> Trainer:
    """A trainer that stands before the first update: everything in it follows from the recipe and the prepared corpus."""
    torch.manual_seed(recipe.seed)
    tokenizers = store.tokenizers
    model = recipe.model.build(len(tokenizers.src), len(tokenizers.tgt), tokenizers.tgt.pad).to(device)
    optimizer = recipe.train.optimizer.build(model.parameters())
    loss = partial(CrossEntropy(recipe.train.label_smoothing), model)
    precision = Precision.resolve(recipe.train.precision, device)
    return Trainer(
        model=model,
        loss=loss,
        optimizer=optimizer,
        schedule=recipe.train.schedule.build(recipe.train.lr),
        data=TrainingData(store.split("train"), tokenizers, recipe.tokenizer, recipe.train.batch_tokens, recipe.seed),
        validate=Validation(recipe, store, model, loss, precision) if recipe.data.valid else None,
        checkpoints=Checkpoints(recipe.model_dir),
        config=recipe.train,
        precision=precision,
        generators=_generators(device),
        state=TrainingState(metric=recipe.train.metric, data=store.manifest["corpus"]),
        should_stop=should_stop,
    )


def _generators(device: torch.device) -> dict[str, torch.Generator]:
    """Those that dropout draws from."""
    generators = {"cpu": torch.default_generator}
    if device.type == "cuda":
        generators["cuda"] = torch.cuda.default_generators[device.index or 0]
    return generators


def _open_run(recipe: Recipe, store: Store, overwrite: bool) -> Generator[Event, None, None]:
    """Make the run folder hold all that translation needs: the effective recipe and the tokenizer."""
    store.tokenizers.save(recipe.model_dir / "tokenizer")
    save_recipe(recipe, recipe.model_dir / RECIPE_FILE)
    yield from ()


def _resume(trainer: Trainer) -> Generator[Event, None, None]:
    """Put the newest whole checkpoint into `trainer`, where there is one."""
    checkpoint, damaged = trainer.checkpoints.newest()
    for sentence in damaged:
        yield Notice(sentence)
    if checkpoint is not None:
        trainer.state = restore(checkpoint, trainer.model, trainer.optimizer, trainer.generators)
        yield Notice(f"Resumed from update {trainer.state.update} ({trainer.checkpoints.path(trainer.state.update)}).")


def _watch(trainer: Trainer) -> Generator[Event, None, Stopped]:
    """Run `trainer`; pass its events on, with the means of its updates and its progress between them."""
    meter, before, detail = Meter(), trainer.state, ""
    events = trainer.run()
    while True:
        try:
            event = next(events)
        except StopIteration as end:
            stopped: Stopped = end.value
            return stopped
        if isinstance(event, StepDone):
            meter.add(event)
            if due(trainer.config.log_every, before, event.state) or not detail:
                means = meter.means()
                detail = f"loss {means.loss:.3f}, {means.tokens_per_second:,.0f} tokens/s"
                yield means
            before = event.state
            total = expected_updates(event.state, trainer.config)
            yield Progress("training", event.state.update, total, "updates", detail)
        else:
            yield event
