"""What each rank of tests/training/test_distributed.py does; all in one go, since a process takes seconds to start."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import nn

from mt.data.batching import Batch
from mt.data.training_data import Elsewhere
from mt.events import Notice, finish
from mt.objectives.cross_entropy import Loss
from mt.place import Place
from mt.recipe import Recipe, load_recipe
from mt.train import train
from mt.training.distributed import ALONE, Group, joined
from mt.training.noise import Noise
from mt.training.parallel import spread
from mt.training.precision import Precision
from mt.training.state import TrainingState
from mt.training.update import Updater

CPU = torch.device("cpu")


class Line(nn.Module):
    """A model whose loss is its weight times the ids of the targets."""

    def __init__(self, rows: int = 100) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))
        self.rows = rows
        """So many fit into memory."""

    def loss(self, batch: Batch) -> Loss:
        """The loss on `batch`."""
        if batch.pairs > self.rows:
            raise torch.OutOfMemoryError
        total = (self.weight.sum() / 2 * batch.tgt_out[batch.tgt_mask]).sum()
        return Loss(total, total.detach(), batch.tokens)


def batch_of(*targets: int, rows: int = 1) -> Batch:
    """Equal pairs with these target ids, each of which is the loss of its token."""
    ids = torch.tensor([targets] * rows)
    return Batch(ids, torch.ones_like(ids, dtype=torch.bool), ids, ids, torch.ones_like(ids, dtype=torch.bool))


def share(batches: list[Batch], group: Group) -> list[Batch | Elsewhere]:
    """The batches as this rank sees them."""
    return [
        batch if number % group.size == group.rank else Elsewhere(batch.pairs, batch.tokens)
        for number, batch in enumerate(batches)
    ]


def update(group: Group, sharding: str, *batches: Batch, rows: int = 100) -> tuple[float, float, int]:
    """Loss a token, gradient norm and tokens of one update on `batches`, where so many `rows` fit into memory."""
    model = Line(rows)
    layout = spread(model, model.loss, group, sharding)
    sgd = torch.optim.SGD(model.parameters())
    updater = Updater(model, layout, sgd, Precision(CPU, torch.float32), Noise.on(CPU, 1), None, group)
    done = updater(share(list(batches), group), 1.0, TrainingState())
    assert done is not None
    return float(done.loss) / done.tokens, float(done.grad_norm), done.tokens


CUT = [batch_of(2), batch_of(1, 1, rows=3), batch_of(4), batch_of(3, 2, rows=4)]


def updates(group: Group) -> dict[str, list[tuple[float, float, int]]]:
    """Updates on unequal numbers of tokens, on fewer batches than passes, and on fewer than ranks."""
    sets = [[batch_of(2), batch_of(1, 1, 1)], [batch_of(2), batch_of(1, 1, 1), batch_of(5, 7)], [batch_of(3, 4)]]
    return {sharding: [update(group, sharding, *batches) for batches in sets] for sharding in ("none", "full")}


RUNS = {
    "replicated": ["data.dir=words"],
    "sharded": ["data.dir=words", "train.sharding=full", "train.ema=0.9", "train.clip_norm=0.1"],
    "resampled": ["data.dir=bpe", "tokenizer={type: bpe, vocab_size: 60, shared: true, dropout: 0.2}", "model.tie=all"],
    "begun": ["data.dir=words"],
    "continued": ["data.dir=words"],
}
"""Trainings by their names, with settings of their own. The last update of an epoch has fewer batches than ranks."""


def recipe_of(folder: Path, run: str, accumulate: int, model_dir: str | None = None) -> Recipe:
    """The recipe of a training of 12 updates; Adam's eps is large, since a key bias has no gradient but rounding."""
    own = [setting.replace("data.dir=", f"data.dir={folder}/") for setting in RUNS[run]]
    ends = ["train.max_steps=12", "train.valid_every=5", "train.save_every=5", "train.keep_last=2"]
    same = ["model.dropout=0.3", "train.batch_tokens=42", "train.precision=fp32", "train.optimizer.eps=1e-4"]
    places = [f"model_dir={folder / (model_dir or run)}", f"train.accumulate={accumulate}"]
    return load_recipe(folder / "recipe.yaml", [*own, *ends, *same, *places])


def train_for(recipe: Recipe, group: Group = ALONE, updates: int = 100) -> list[str]:
    """Train to the end, or for some updates; what was told."""
    asked, told = iter(range(updates + 1)), list[str]()
    watch = lambda event: told.append(event.text) if isinstance(event, Notice) else None  # noqa: E731
    finish(train(recipe, CPU, lambda: next(asked, None) is None, group=group), watch)
    return told


def main(folder: Path) -> None:
    """One rank."""
    with joined(Place.of(), CPU) as group:
        found: dict[str, Any] = {"updates": updates(group), "cut": update(group, "none", *CUT, rows=1)}
        found["gathered"] = group.gather({"rank": group.rank, "text": "ü" * group.rank})
        found["any"] = [group.any(False), group.any(group.rank == 1), bool(group.lead(group.rank + 1) == 1)]
        told = {run: train_for(recipe_of(folder, run, 1), group, 5 if run == "begun" else 100) for run in RUNS}
        (folder / f"rank{group.rank}.json").write_text(json.dumps({**found, "told": told}), "utf-8")
