"""What training a recipe would take, without training it: parameters, memory, updates an epoch."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn

from mt.data.store import Store
from mt.data.training_data import TrainingData
from mt.errors import MtError
from mt.models.config import ModelConfig
from mt.recipe import Recipe
from mt.training.budget import MOST

LENGTH = 32
"""Positions of a sentence, for the attention weights."""


@dataclass(frozen=True)
class Estimate:
    """Sizes in numbers, memory in bytes."""

    parameters: int
    src_vocab: int
    tgt_vocab: int
    states: int
    """Weights, gradients, what the optimiser keeps and moving averages, float32."""
    activations: int
    """What one micro-batch keeps for its backward pass, roughly, in float32; bf16 halves most of it."""
    batches: int | None
    """Micro-batches an epoch; None: not known yet."""
    updates: int | None
    known_after: str = "mt prepare"
    """What tells the number of batches."""

    def __str__(self) -> str:
        vocabularies = f"vocabularies of {self.src_vocab} and {self.tgt_vocab} pieces"
        memory = f"{_size(self.states + self.activations)}: {_size(self.states)} for weights, gradients and optimiser"
        steps = (
            f"not known before {self.known_after}"
            if self.updates is None
            else f"{self.updates} of {self.batches} batches"
        )
        return (
            f"Parameters: {self.parameters:,} ({vocabularies})\n"
            f"Memory: about {memory}, {_size(self.activations)} for the activations of a batch in float32\n"
            f"Updates an epoch: {steps}"
        )


def estimate(recipe: Recipe) -> Estimate:
    """Count the parameters on torch's meta device, where they take no memory, and estimate the rest.

    Sizes of vocabularies are those of the prepared corpus where there is one, else what the recipe asks for.
    """
    store = _prepared(recipe)
    src, tgt = (recipe.tokenizer.vocab_size,) * 2
    if store is not None:
        src, tgt = len(store.tokenizers.src), len(store.tokenizers.tgt)
    shapes = parameter_shapes(recipe.model, src, tgt)
    parameters = sum(map(math.prod, shapes))
    copies = 2 if recipe.train.ema is None else 3
    budget = recipe.train.batch_tokens.tokens
    batches = None if store is None or budget is None else _batches(recipe, store, budget)
    return Estimate(
        parameters,
        src,
        tgt,
        states=4 * (copies * parameters + sum(map(recipe.train.optimizer.state_size, shapes))),
        activations=4 * (budget or MOST) * activations(recipe.model),
        batches=batches,
        updates=None if batches is None else -(-batches // recipe.train.accumulate),
        known_after="mt prepare" if budget else "training has found train.batch_tokens",
    )


def parameter_shapes(config: ModelConfig, src_vocab: int, tgt_vocab: int) -> list[torch.Size]:
    """Shapes of the model's weights, tied ones once."""
    with torch.device("meta"):
        model: nn.Module = config.build(src_vocab, tgt_vocab, pad=3)
    return [parameter.shape for parameter in model.parameters()]


def activations(config: ModelConfig) -> int:
    """Numbers kept for the backward pass, a position on each side.

    Counted with torch's saved-tensor hooks on models of several sizes and rounded: an encoder layer keeps about
    11 D + F + H x length, a decoder layer 17 D + F + 2 H x length; the fused output layer keeps next to nothing.
    """
    encoder = 11 * config.dim + config.ffn_dim + config.heads * LENGTH
    decoder = 17 * config.dim + config.ffn_dim + 2 * config.heads * LENGTH
    return config.encoder.layers * encoder + config.decoder.layers * decoder


def _prepared(recipe: Recipe) -> Store | None:
    try:
        return Store.open(recipe.data_dir)
    except MtError:
        return None


def _batches(recipe: Recipe, store: Store, budget: int) -> int:
    """Batches an epoch."""
    pairs = store.split("train")
    data = TrainingData(pairs, store.tokenizers, recipe.tokenizer, budget, recipe.seed, ahead=0)
    return data.batches_in_epoch()


def _size(count: int) -> str:
    power = 0 if count < 1 else min(int(math.log10(count)) // 3, 3)
    return f"{count / 1000**power:.3g} {('B', 'kB', 'MB', 'GB')[power]}"
