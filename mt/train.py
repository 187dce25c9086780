"""Train: a prepared corpus -> checkpoints in a run folder. The same call again resumes.

A new architecture goes into mt/models (ENCODERS, DECODERS, PRESETS), a new objective into mt/objectives, a schedule or
an optimiser into mt/training (SCHEDULES, OPTIMIZERS): nothing changes here.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import torch

from mt.checks import check_recipe
from mt.config import to_mapping
from mt.data.store import Store
from mt.data.training_data import TrainingData, over_budget
from mt.errors import RunError, plural
from mt.events import Event, Notice, Progress, silent
from mt.objectives.cross_entropy import OBJECTIVES
from mt.recipe import RECIPE_FILE, Recipe, load_run_recipe, save_recipe
from mt.training.allocator import keep_freed_memory
from mt.training.checkpoint import WEIGHTS, Checkpoints
from mt.training.config import TrainConfig
from mt.training.distributed import ALONE, Group
from mt.training.ema import Ema
from mt.training.events import Rewound, Saved, StepDone, Stopped, Validated
from mt.training.final import DESCRIPTION, write_final
from mt.training.log import EventLog
from mt.training.loop import Trainer
from mt.training.meter import Meter, expected_updates
from mt.training.noise import Noise
from mt.training.parallel import spread
from mt.training.precision import Precision
from mt.training.resume import check_corpus, check_ranks, check_resume
from mt.training.run_folder import LOG, clear, locked
from mt.training.shared_checkpoints import SharedCheckpoints
from mt.training.snapshot import restore
from mt.training.state import TrainingState, due
from mt.training.stop import StopRequest
from mt.training.update import Updater
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
    store = Store.open(recipe.data_dir)
    keep_freed_memory()
    stop = should_stop if isinstance(should_stop, StopRequest) else StopRequest(should_stop)

    def build() -> Trainer:
        trainer = build_trainer(recipe, store, torch.device(device), group)
        trainer.stop = stop
        return trainer

    work = _lead(recipe, store, build, overwrite) if group.leads else silent(_follow(build))
    report = yield from work
    return report


def _lead(
    recipe: Recipe, store: Store, build: Callable[[], Trainer], overwrite: bool
) -> Generator[Event, None, TrainReport]:
    """Train, and do all that is done once: only rank 0 writes in the run folder."""
    with locked(recipe.model_dir):
        if overwrite:
            clear(recipe.model_dir)
        yield from _check_run(recipe)
        trainer = build()
        yield from _resume(trainer)
        # Only now: a training that is refused must not change what the model in the folder is read with.
        store.tokenizers.save(recipe.model_dir / "tokenizer")
        save_recipe(recipe, recipe.model_dir / RECIPE_FILE)
        yield Notice(_description(recipe, trainer))
        yield from _long_pairs(store, recipe.train.batch_tokens)
        with closing(trainer.data), EventLog(recipe.model_dir / LOG, trainer.state.update) as log:
            stopped = yield from _watch(trainer, log)
        final = write_final(recipe.model_dir, recipe.train.average) if stopped.finished else []
    return TrainReport(trainer.state, stopped.reason, stopped.finished, final)


def _follow(build: Callable[[], Trainer]) -> Generator[Event, None, TrainReport]:
    """Take part in the training that rank 0 leads."""
    trainer = build()
    yield from _resume(trainer)
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


def build_trainer(recipe: Recipe, store: Store, device: torch.device, group: Group = ALONE) -> Trainer:
    """A trainer before its first update: everything in it follows from the recipe and the prepared corpus."""
    torch.manual_seed(recipe.seed)
    tokenizers = store.tokenizers
    model = recipe.model.build(len(tokenizers.src), len(tokenizers.tgt), tokenizers.tgt.pad).to(device)
    objective = OBJECTIVES[recipe.train.objective](recipe.train)
    layout = spread(model, partial(objective, model), group, recipe.train.sharding)
    optimizer = recipe.train.optimizer.build(model.parameters())
    precision = Precision.resolve(recipe.train.precision, device)
    noise = Noise.on(device, recipe.seed)
    scored = layout.validated
    loss = partial(objective, scored)
    return Trainer(
        updater=Updater(model, layout, optimizer, precision, noise, recipe.train.clip_norm, group),
        schedule=recipe.train.schedule.build(recipe.train.lr, recipe.train.max_steps, recipe.model.dim),
        data=TrainingData(
            store.split("train"),
            tokenizers,
            recipe.tokenizer,
            recipe.train.batch_tokens,
            recipe.seed,
            rank=group.rank,
            ranks=group.size,
        ),
        validate=Validation(recipe, store, scored, loss, precision, group) if recipe.data.valid else None,
        checkpoints=SharedCheckpoints(recipe.model_dir, group),
        config=recipe.train,
        state=TrainingState(metric=recipe.train.metric, data=store.manifest["corpus"], ranks=group.size),
        ema=Ema(model, recipe.train.ema) if recipe.train.ema is not None else None,
    )


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


def _resume(trainer: Trainer) -> Generator[Event, None, None]:
    """Put the newest whole checkpoint into `trainer`, where there is one."""
    checkpoint, damaged = trainer.checkpoints.newest()
    for sentence in damaged:
        yield Notice(sentence)
    if checkpoint is not None:
        check_corpus(trainer.checkpoints.run, checkpoint.state.data, trainer.state.data)
        file = trainer.checkpoints.path(checkpoint.state.update) / WEIGHTS
        updater = trainer.updater
        state = restore(checkpoint, updater.model, updater.optimizer, file, trainer.ema)
        if changed := check_ranks(state.ranks, trainer.group.size, trainer.config.accumulate):
            yield Notice(changed)
        trainer.state = replace(state, ranks=trainer.group.size)
        yield Notice(f"Resuming from update {trainer.state.update}, epoch {trainer.state.elapsed('epochs'):.2f}.")


def _watch(trainer: Trainer, log: EventLog) -> Generator[Event, None, Stopped]:
    """Run `trainer`, log its events and pass them on, updates as their means and as progress."""
    meter, before, means = Meter(), trainer.state, None
    events = trainer.run()
    while True:
        try:
            event = next(events)
        except StopIteration as end:
            stopped: Stopped = end.value
            return stopped
        if isinstance(event, StepDone):
            meter.add(event)
            if means is None or due(trainer.config.log_every, before, event.state):
                means = meter.means()
                log.write("trained", asdict(means))
                yield means
            before = event.state
            detail = f"loss {means.loss:.3f}, {means.tokens_per_second:,.0f} tokens/s"
            yield _progress(event.state, trainer.config, detail)
        elif isinstance(event, Progress):
            yield _progress(trainer.state, trainer.config, f"{event.label}: {event.done} of {event.total} {event.unit}")
        else:
            if isinstance(event, Rewound):
                log.cut(event.state.update)
                meter, before = Meter(), event.state
            log.write(*_logged(event))
            yield event


def _progress(state: TrainingState, config: TrainConfig, detail: str) -> Progress:
    return Progress("training", state.update, expected_updates(state, config), "updates", detail)


def _logged(event: Event) -> tuple[str, dict[str, Any]]:
    """Name and values of an event's line in the log."""
    assert isinstance(event, Validated | Saved | Rewound | Stopped)
    values: dict[str, Any] = {"update": event.state.update, "seconds": event.state.seconds}
    if isinstance(event, Validated):
        return "validated", {**values, **event.state.scores, "best": event.is_best}
    if isinstance(event, Rewound):
        return "rewound", {**values, "reason": event.reason, "lr_scale": event.state.lr_scale}
    if isinstance(event, Stopped):
        return "stopped", {**values, "reason": event.reason, "finished": event.finished}
    return "saved", values
