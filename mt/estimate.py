"""What training a recipe would take, without training it: parameters, memory, updates an epoch."""

from __future__ import annotations

import math
from collections.abc import Callable
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
    src, tgt = _sizes(recipe, store)
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


def vocabulary_sizes(recipe: Recipe) -> tuple[int, int]:
    """Pieces of source and target: of the prepared corpus where there is one, else as many as the recipe asks for."""
    return _sizes(recipe, _prepared(recipe))


def _sizes(recipe: Recipe, store: Store | None) -> tuple[int, int]:
    if store is None:
        return recipe.tokenizer.vocab_size, recipe.tokenizer.vocab_size
    return len(store.tokenizers.src), len(store.tokenizers.tgt)


def parameter_shapes(config: ModelConfig, src_vocab: int, tgt_vocab: int) -> list[torch.Size]:
    """Shapes of the model's weights, tied ones once."""
    with torch.device("meta"):
        model: nn.Module = config.build(src_vocab, tgt_vocab, pad=3)
    return [parameter.shape for parameter in model.parameters()]


def activations(config: ModelConfig) -> int:
    """Numbers kept for the backward pass, a position on each side.

    Counted with torch's saved-tensor hooks on models of several sizes and rounded: see `KEPT`. The fused output layer
    keeps next to nothing.
    """
    encoder = config.encoder.layers * KEPT.get(config.encoder.type, _recurrent_layer)(config)
    decoder = config.decoder.layers * KEPT.get(f"{config.decoder.type} decoder", _recurrent_layer)(config)
    return encoder + decoder + _recurrent_attention(config)


def _transformer_layer(config: ModelConfig) -> int:
    return 11 * config.dim + config.ffn_dim + config.heads * LENGTH


def _decoder_layer(config: ModelConfig) -> int:
    return 17 * config.dim + config.ffn_dim + 2 * config.heads * LENGTH


def _recurrent_layer(config: ModelConfig) -> int:
    return 20 * config.dim


def _recurrent_attention(config: ModelConfig) -> int:
    """Additive scores keep a vector for each pair of positions, windows the keys and values in each of them."""
    decoder = config.decoder
    if decoder.attention is None:
        return 0
    compared = 2 * (2 * decoder.window_size + 1) if decoder.window != "global" else 0
    added = LENGTH if decoder.attention in ("additive", "concat") else 0
    return (10 + max(compared, added)) * config.dim


KEPT: dict[str, Callable[[ModelConfig], int]] = {
    "transformer": _transformer_layer,
    "none": lambda _: 0,
    "decomposable": lambda config: 6 * config.dim + 2 * config.ffn_dim,
    "intra_attention": lambda config: _recurrent_layer(config) + 5 * LENGTH * config.dim // 4,
    "transformer decoder": _decoder_layer,
    "ssru decoder": _decoder_layer,
    "language_model decoder": lambda config: 2 * (_transformer_layer(config) + config.heads * LENGTH),
    "intra_attention decoder": lambda config: _recurrent_layer(config) + 5 * LENGTH * config.dim // 4,
}
"""What a layer keeps, a position; every other one is an LSTM or a GRU."""


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
