"""Train: a prepared corpus -> checkpoints in a run folder. The same call again resumes.

A new architecture goes into mt/models (ENCODERS, DECODERS, PRESETS), a new objective into mt/objectives, a schedule or
an optimiser into mt/training (SCHEDULES, OPTIMIZERS): nothing changes here.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

import torch

from mt.checks import check_positions, check_precision, check_recipe
from mt.config import to_mapping
from mt.data.store import Store
from mt.data.training_data import longest_pair, over_budget
from mt.errors import RunError, plural
from mt.estimate import activations, estimate
from mt.events import Event, Notice, silent
from mt.lines.lengths import Lengths
from mt.objectives.cross_entropy import OBJECTIVES
from mt.recipe import RECIPE_FILE, Recipe, load_run_recipe, save_recipe
from mt.trainer import build_model, build_trainer
from mt.training.allocator import keep_freed_memory
from mt.training.board import Board
from mt.training.budget import estimated, tried
from mt.training.checkpoint import WEIGHTS, Checkpoints
from mt.training.distributed import ALONE, Group
from mt.training.ema import Ema
from mt.training.events import Stopped
from mt.training.final import DESCRIPTION, TrainReport, finished_training, write_final
from mt.training.initial import find_weights, initialise
from mt.training.log import EventLog
from mt.training.loop import Trainer
from mt.training.memory import PairTooLargeError
from mt.training.precision import Precision
from mt.training.resume import check_corpus, check_resume, ranks_notice
from mt.training.run_folder import BOARD, LOG, clear, locked
from mt.training.snapshot import restore
from mt.training.state import TrainingState
from mt.training.stop import StopRequest
from mt.training.watch import watched

__all__ = ["TrainReport", "train"]


def train(
    recipe: Recipe,
    device: torch.device | str = "cpu",
    should_stop: Callable[[], bool] = lambda: False,
    overwrite: bool = False,
    group: Group = ALONE,
) -> Generator[Event, None, TrainReport]:
    """Train the recipe's model, or go on with a training that stopped.

    Yields `Trained`, `Validated`, `Saved`, `Stopped`, `Progress` and `Notice`; nothing on ranks that do not lead.

    Args:
        should_stop: asked after each update; True, on any rank, saves a checkpoint and ends.
        overwrite: begin anew where the run folder holds another training.
        group: the processes that train together; all call this.

    Raises:
        ConfigError, DataError: recipe or prepared corpus are wrong.
        RunError: the run folder is in use, holds a training of other settings, or cannot be written.
    """
    check_recipe(recipe, "train")
    check_precision(recipe, str(device))
    store = Store.open(recipe.data_dir)
    check_positions(recipe, store)
    keep_freed_memory()
    stop = should_stop if isinstance(should_stop, StopRequest) else StopRequest(should_stop)

    def begin() -> Generator[Event, None, Trainer]:
        budget = yield from _budget(recipe, store, torch.device(device), group)
        trainer = build_trainer(recipe, store, torch.device(device), budget, group)
        trainer.stop = stop
        yield from _begin(recipe, store, trainer)
        return trainer

    if group.leads:
        work = _lead(recipe, store, begin, group, overwrite)
    else:
        work = silent(_follow(recipe, store, begin, group))
    try:
        return (yield from work)
    finally:
        stop.heard = False


Begin: TypeAlias = Callable[[], Generator[Event, None, Trainer]]


def _lead(
    recipe: Recipe, store: Store, begin: Begin, group: Group, overwrite: bool
) -> Generator[Event, None, TrainReport]:
    """Train, and do all that is done once: only rank 0 writes in the run folder."""
    with locked(recipe.model_dir):
        if overwrite:
            _initial_weights(recipe, store)  # found wanting before anything is deleted
            clear(recipe.model_dir)
        yield from _check_run(recipe)
        if report := _finished(recipe, store, group):
            _describe(recipe, store)
            yield Notice(f"The training in {recipe.model_dir} is up to date.")
            return report
        trainer = yield from begin()
        _describe(recipe, store)
        yield Notice(_description(recipe, trainer))
        yield from _long_pairs(store, trainer.state.batch_tokens)
        board = Board(recipe.model_dir / BOARD) if recipe.train.tensorboard else None
        with closing(trainer.data), EventLog(recipe.model_dir / LOG, trainer.state.update, board) as log:
            stopped = yield from _named(watched(trainer, log), store)
        final = write_final(recipe.model_dir, recipe.train.average) if stopped.finished else []
    return TrainReport(trainer.state, stopped.reason, stopped.finished, final)


def _describe(recipe: Recipe, store: Store) -> None:
    """Write what the model in the run folder is read with; only once it is known that its training is not refused."""
    store.tokenizers.save(recipe.model_dir / "tokenizer")
    save_recipe(recipe, recipe.model_dir / RECIPE_FILE)
    Lengths.of(store.split("train").src, store.tokenizers.src).save(recipe.model_dir)


def _finished(recipe: Recipe, store: Store, group: Group) -> TrainReport | None:
    """The report of a training of which nothing is left to be done, on all ranks; else None."""
    validates, corpus = recipe.data.valid is not None, store.manifest["corpus"]
    found = finished_training(recipe.model_dir, recipe.train, corpus, validates) if group.leads else None
    told = group.gather(found and [found.state.to_json(), found.reason, found.final])[0]
    return told and TrainReport(TrainingState.from_json(told[0]), told[1], True, told[2])


def _follow(recipe: Recipe, store: Store, begin: Begin, group: Group) -> Generator[Event, None, TrainReport]:
    """Take part in the training that rank 0 leads."""
    if report := _finished(recipe, store, group):
        return report
    trainer = yield from begin()
    with closing(trainer.data):
        stopped = yield from trainer.run()
    return TrainReport(trainer.state, stopped.reason, stopped.finished, [])


def _description(recipe: Recipe, trainer: Trainer) -> str:
    size = trainer.group.size
    ranks = f", {size} processes, train.sharding {recipe.train.sharding}" if size > 1 else ""
    parameters, pairs = sum(parameter.numel() for parameter in trainer.updater.model.parameters()), len(trainer.data)
    return (
        f"Training {recipe.name}: {parameters:,} parameters, {pairs:,} {plural(pairs, 'pair')}, "
        f"{trainer.updater.precision.name} products, seed {recipe.seed}{ranks}."
    )


def _long_pairs(store: Store, budget: int) -> Generator[Event, None, None]:
    if count := over_budget(store.split("train"), budget):
        yield Notice(
            f"Pairs longer than train.batch_tokens ({budget}), each of which is a batch of its own: {count}; "
            "data.filters.max_length leaves them out."
        )


def _budget(recipe: Recipe, store: Store, device: torch.device, group: Group) -> Generator[Event, None, int]:
    """The budget of a micro-batch: the recipe's, or what fits into memory on all ranks, found once for a training."""
    if budget := recipe.train.batch_tokens.tokens:
        return budget
    kept: int | None = group.gather(Checkpoints(recipe.model_dir).budget() if group.leads else None)[0]
    if kept is not None:
        return kept
    yield Notice("Looking for the largest train.batch_tokens that fits into memory.")
    found: int = min(group.gather(_largest_budget(recipe, store, device)))
    yield Notice(f"train.batch_tokens auto: {found}.")
    return found


def _largest_budget(recipe: Recipe, store: Store, device: torch.device) -> int:
    if device.type == "cpu":
        return estimated(4 * activations(recipe.model), estimate(recipe).states)
    model = build_model(recipe, store, device)
    loss = partial(OBJECTIVES[recipe.train.objective](recipe.train), model)
    precision = Precision.resolve(recipe.train.precision, device)
    state = sum(recipe.train.optimizer.state_size(parameter.shape) for parameter in model.parameters())
    return tried(loss, model, precision, longest_pair(store.split("train")), state, store.tokenizers.tgt.pad)


def _check_run(recipe: Recipe) -> Generator[Event, None, None]:
    """Refuse a run folder that holds a training that this recipe does not fit."""
    run = recipe.model_dir
    finished, updates = (run / DESCRIPTION).exists(), Checkpoints(run).updates()
    if finished and not updates:
        raise RunError(
            f"{run} holds a finished model but no checkpoint, and training would begin anew: choose another "
            "model_dir, or delete that model with --overwrite."
        )
    if updates:
        old, new = to_mapping(load_run_recipe(run)), to_mapping(recipe)
        changes = check_resume(run, old, new, finished=finished)
        if changes:
            yield Notice(f"Changed since this training began: {', '.join(map(str, changes))}.")


def _begin(recipe: Recipe, store: Store, trainer: Trainer) -> Generator[Event, None, None]:
    """Put the newest whole checkpoint into `trainer`; where there is none, the weights of `train.init_from`, if any."""
    checkpoint, damaged = trainer.checkpoints.newest()
    for sentence in damaged:
        yield Notice(sentence)
    if checkpoint is not None:
        check_corpus(trainer.checkpoints.run, checkpoint.state.data, trainer.state.data)
        file = trainer.checkpoints.path(checkpoint.state.update) / WEIGHTS
        updater = trainer.updater
        state = restore(checkpoint, updater.model, updater.optimizer, file, trainer.ema)
        if changed := _ranks_notice(trainer, state.ranks):
            yield Notice(changed)
        trainer.state = replace(state, ranks=trainer.group.size)
        place = f"update {trainer.state.update}, epoch {trainer.state.elapsed('epochs'):.2f}"
        yield Notice(f"Resuming from {place}{_lowered(trainer.state.lr_scale)}.")
    elif (source := _initial_weights(recipe, store)) is not None:
        model = trainer.updater.model
        initialise(model, source)
        trainer.ema = None if trainer.ema is None else Ema(model, trainer.ema.decay)
        yield Notice(f"Beginning with the weights of {source}.")


def _lowered(scale: float) -> str:
    """What holds of the learning rate beside the recipe, as part of a sentence."""
    if scale == 1:
        return ""
    return f"; learning rates are multiplied by {scale:g}, to which plateaus and rewinds have lowered them"


def _initial_weights(recipe: Recipe, store: Store) -> Path | None:
    """The file of the weights that a new training begins with, where the recipe names a run."""
    if (run := recipe.train.init_from) is None:
        return None
    return find_weights(run, recipe.model_dir, store.tokenizers.fingerprint)


def _named(work: Generator[Event, None, Stopped], store: Store) -> Generator[Event, None, Stopped]:
    """Run `work`; a pair that is too large is refused with the beginning of its text."""
    try:
        return (yield from work)
    except PairTooLargeError as error:
        text = store.tokenizers.src.decode(error.source[:-1])
        raise RunError(f"{error} Its source begins '{text[:60]}'.") from error


def _ranks_notice(trainer: Trainer, before: int) -> str:
    accumulate = load_run_recipe(trainer.checkpoints.run).train.accumulate
    return ranks_notice(before, trainer.group.size, accumulate, trainer.config.accumulate)
