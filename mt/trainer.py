"""A trainer, or a model, as a recipe and its prepared corpus have it."""

from __future__ import annotations

from functools import partial

import torch

from mt.data.store import Store
from mt.data.training_data import TrainingData
from mt.models.encoder_decoder import EncoderDecoder
from mt.models.reach import Reach
from mt.objectives.cross_entropy import OBJECTIVES
from mt.recipe import Recipe
from mt.training.distributed import ALONE, Group
from mt.training.ema import Ema
from mt.training.loop import Trainer
from mt.training.noise import Noise
from mt.training.parallel import spread
from mt.training.precision import Precision
from mt.training.shared_checkpoints import SharedCheckpoints
from mt.training.state import TrainingState
from mt.training.update import Updater
from mt.validation import Validation


def build_model(recipe: Recipe, store: Store, device: torch.device) -> EncoderDecoder:
    """The recipe's model before any training."""
    torch.manual_seed(recipe.seed)
    src, tgt = store.tokenizers.src, store.tokenizers.tgt
    return recipe.model.build(len(src), len(tgt), tgt.pad).to(device)


def build_trainer(recipe: Recipe, store: Store, device: torch.device, budget: int, group: Group = ALONE) -> Trainer:
    """A trainer before its first update: everything in it follows from the recipe and the prepared corpus."""
    model = build_model(recipe, store, device)
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
            store.tokenizers,
            recipe.tokenizer,
            budget,
            recipe.seed,
            holds=Reach.of(recipe.model).holds,
            rank=group.rank,
            ranks=group.size,
        ),
        validate=Validation(recipe, store, scored, loss, precision, budget, group) if recipe.data.valid else None,
        checkpoints=SharedCheckpoints(recipe.model_dir, group),
        config=recipe.train,
        state=TrainingState(
            metric=recipe.train.metric, data=store.manifest["corpus"], batch_tokens=budget, ranks=group.size
        ),
        ema=Ema(model, recipe.train.ema) if recipe.train.ema is not None else None,
    )
