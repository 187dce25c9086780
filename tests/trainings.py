"""A tiny task that many tests train on, and what they ask of the run folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from mt.events import finish
from mt.recipe import Recipe, load_recipe
from mt.train import TrainReport, train

BPE = ("tokenizer={type: bpe, vocab_size: 60, shared: true, dropout: 0.2}", "model.tie=all")


def recipe_of(task: Path, run: str, *overrides: str, data: str = "words") -> Recipe:
    """A recipe of the task that trains 12 updates in the folder `run`."""
    defaults = ["train.max_steps=12", "train.batch_tokens=60", "train.log_every=1", "train.precision=fp32"]
    return load_recipe(
        task / "recipe.yaml",
        [f"data.dir={task / data}", f"model_dir={run}", "model.dropout=0.3", *defaults, *overrides],
    )


def stop_after(updates: int) -> Callable[[], bool]:
    """Ask to stop when it was asked for the `updates`-th time after an update."""
    asked = iter(range(10**6))
    return lambda: next(asked) >= updates


def contents(folder: Path) -> dict[Path, bytes]:
    """All files below `folder`."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != ".lock"}


def run_to_the_end(recipe: Recipe, stops: Sequence[int] = ()) -> TrainReport:
    """Train; each of `stops` ends a session after that many updates, and the next one resumes."""
    for stop in stops:
        assert not finish(train(recipe, should_stop=stop_after(stop))).finished
    report = finish(train(recipe))
    assert report.finished
    return report


def losses(recipe: Recipe) -> list[float]:
    """The training losses in the log."""
    lines = map(json.loads, (recipe.model_dir / "log.jsonl").read_text("utf-8").split("\n")[:-1])
    return [line["loss"] for line in lines if line["event"] == "trained"]


def rates(recipe: Recipe) -> list[float]:
    """The learning rates in the log."""
    lines = map(json.loads, (recipe.model_dir / "log.jsonl").read_text("utf-8").split("\n")[:-1])
    return [line["learning_rate"] for line in lines if line["event"] == "trained"]


def weights(recipe: Recipe) -> bytes:
    return (recipe.model_dir / "model.safetensors").read_bytes()


def write_recipe(folder: Path, recipe: Recipe) -> Path:
    """The effective recipe as a file."""
    from mt.recipe import save_recipe

    save_recipe(recipe, folder / "effective.yaml")
    return folder / "effective.yaml"
