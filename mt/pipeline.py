"""`mt run`: fetch, prepare, train, translate and evaluate, in a row. Each knows whether it is up to date."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from dataclasses import dataclass

import torch

from mt.checks import check_files, check_recipe, text_files
from mt.data.report import PrepareReport
from mt.evaluate import evaluate_run
from mt.events import Event, Notice
from mt.fetch import fetch
from mt.prepare import prepare
from mt.recipe import Recipe
from mt.scoring.report import Evaluation
from mt.text.files import read_lines
from mt.train import TrainReport, train
from mt.training.distributed import ALONE, Group
from mt.training.stop import StopRequest
from mt.translate import translations_file

SAMPLES = 10


@dataclass(frozen=True)
class Sample:
    """A held-out line beside its translation."""

    source: str
    reference: str
    translation: str


@dataclass(frozen=True)
class RunReport:
    """What the stages found."""

    prepared: PrepareReport
    trained: TrainReport
    evaluation: Evaluation | None = None
    """None where the recipe has no test set, or training was asked to stop."""
    samples: tuple[Sample, ...] = ()
    """Drawn from the first test set."""


def run(
    recipe: Recipe,
    device: torch.device | str = "cpu",
    workers: int | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    check_expect: bool = False,
    group: Group = ALONE,
) -> Generator[Event, None, RunReport]:
    """All stages of `recipe`; what is up to date is not done again, and a notice says so.

    Args:
        device: where to train and translate.
        workers: processes that prepare the corpus.
        should_stop: asked after each update; True saves a checkpoint and ends.
        check_expect: compare the scores with those that `evaluate.expect` promises.
        group: the processes that train together: rank 0 calls this, the others `take_part`.

    Raises:
        MtError: of the stage that met it; what the stages before have made stays.
    """
    check_recipe(recipe, "run", check_expect)
    yield from _fetch(recipe)
    check_files(recipe)
    prepared = yield from prepare(recipe, workers=workers)
    group.wait()
    trained = yield from train(recipe, device, should_stop, group=group)
    yield Notice(f"{recipe.model_dir}: {trained.reason}, update {trained.state.update}")
    stopped = isinstance(should_stop, StopRequest) and should_stop.asked  # as training ended anyway
    if not trained.finished or stopped or not recipe.data.test:
        return RunReport(prepared, trained)
    evaluation = yield from evaluate_run(recipe, device, check=check_expect)
    return RunReport(prepared, trained, evaluation, _samples(recipe))


def take_part(
    recipe: Recipe, device: torch.device | str, should_stop: Callable[[], bool], group: Group
) -> Generator[Event, None, TrainReport]:
    """Do what the ranks that do not lead have to do in `run`: wait for the prepared corpus, and train."""
    check_recipe(recipe, "run")
    group.wait()
    return (yield from train(recipe, device, should_stop, group=group))


def _fetch(recipe: Recipe) -> Generator[Event, None, None]:
    """Bring text that is not there. Generated and split text tells itself whether its settings have changed."""
    missing = any(not path.is_file() for _, path in text_files(recipe))
    if missing or recipe.data.generate or recipe.data.split:
        yield from fetch(recipe)
    elif recipe.data.download:
        yield Notice("The text is there: nothing to fetch.")


def _samples(recipe: Recipe) -> tuple[Sample, ...]:
    """Some lines of the first test set, in their order; the recipe's seed chooses them."""
    name, test = next(iter(recipe.data.test.items()))
    sides = [list(read_lines(path)) for path in (test.src, test.tgt[0], translations_file(recipe, name))]
    lines = [index for index, source in enumerate(sides[0]) if source.strip()]
    chosen = sorted(random.Random(recipe.seed).sample(lines, min(SAMPLES, len(lines))))
    return tuple(Sample(*(side[index] for side in sides)) for index in chosen)
