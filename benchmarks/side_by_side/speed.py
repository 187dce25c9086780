"""How fast the models train and translate: in turns, so that what else the machine does hits all alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import torch

from mt.data.store import Store
from mt.recipe import Recipe, load_run_recipe
from mt.text.files import read_json, read_lines, write_json
from mt.trainer import build_trainer
from mt.translator import load

FILE = "side-by-side-speed.json"
"""In the folder of the runs."""
WARM = 2
"""Updates before time is taken."""


@dataclass(frozen=True)
class Turn:
    """What one model did in one turn."""

    train: float
    """Target tokens a second."""
    decode: float
    """Sentences a second."""


@dataclass(frozen=True)
class Speeds:
    """All turns, the k-th of each model in the k-th round."""

    machine: str
    turns: dict[str, list[Turn]]

    def median(self, name: str, what: str) -> float:
        """Of a model's turns; `what` is a field of `Turn`."""
        return float(statistics.median(getattr(turn, what) for turn in self.turns[name]))

    def ratio(self, first: str, second: str, what: str) -> tuple[float, float, float]:
        """Median, least and greatest of how many times as fast the first is as the second in a round."""
        pairs = zip(self.turns[first], self.turns[second], strict=True)
        ratios = [getattr(mine, what) / getattr(other, what) for mine, other in pairs]
        return statistics.median(ratios), min(ratios), max(ratios)


def measured(runs: Path) -> Speeds | None:
    """What was measured before, if anything."""
    if not (runs / FILE).is_file():
        return None
    found = read_json(runs / FILE)
    turns = {name: [Turn(**turn) for turn in of] for name, of in found["turns"].items()}
    return Speeds(found["machine"], turns)


def measure(
    folders: dict[str, Path], runs: Path, machine: str, device: torch.device, rounds: int, updates: int, lines: int
) -> Iterator[str]:
    """Let the models take turns; tells of each, and in the end writes what `measured` reads.

    Args:
        folders: the run folder of each model.
        updates, lines: what is done in a turn.
    """
    turns: dict[str, list[Turn]] = {name: [] for name in folders}
    for number in range(rounds):
        for name, folder in folders.items():
            recipe = load_run_recipe(folder)
            turn = Turn(_train(recipe, device, updates), _decode(recipe, device, lines))
            turns[name].append(turn)
            yield f"Round {number + 1}, {name}: {turn.train:.0f} target tokens/s, {turn.decode:.1f} sentences/s."
    write_json(
        runs / FILE, {"machine": machine, "turns": {name: [vars(turn) for turn in turns[name]] for name in turns}}
    )


def _train(recipe: Recipe, device: torch.device, updates: int) -> float:
    """Target tokens a second of updates like those of the training; nothing is saved."""
    store = Store.open(recipe.data_dir)
    budget = recipe.train.batch_tokens.tokens
    assert budget is not None  # the recipes say it
    recipe = replace(recipe, data=replace(recipe.data, valid=None), train=replace(recipe.train, tensorboard=False))
    trainer = build_trainer(recipe, store, device, budget)
    with closing(trainer.data):
        batches = list(islice(trainer.data.epoch(0), WARM + updates))
    for batch in batches[:WARM]:
        trainer.updater([batch], 1e-4, trainer.state)
    _wait(device)
    start = time.perf_counter()
    for batch in batches[WARM:]:
        trainer.updater([batch], 1e-4, trainer.state)
    _wait(device)
    return sum(batch.tokens for batch in batches[WARM:]) / (time.perf_counter() - start)


def _decode(recipe: Recipe, device: torch.device, lines: int) -> float:
    """Sentences a second, spread over the whole test set, with the recipe's search; all products are built before."""
    test = next(iter(recipe.data.test.values()))
    text = list(read_lines(test.src))
    chosen = text[:: max(1, len(text) // lines)][:lines]
    translator = load(recipe.model_dir, device=device)
    list(translator.translate(chosen))
    start = time.perf_counter()
    list(translator.translate(chosen))
    return len(chosen) / (time.perf_counter() - start)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
