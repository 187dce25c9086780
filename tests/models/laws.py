"""The models that the laws hold for, and batches to hold them with. A new architecture joins by one line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mt.config_reader import build as config_of
from mt.data.batching import Batch, collate
from mt.models.config import DecoderConfig, EncoderConfig, ModelConfig
from mt.models.encoder_decoder import EncoderDecoder
from mt.models.keys import OPTIONAL, keys_read
from mt.models.presets import PRESETS
from mt.yaml_tree import Block, Place, plant

VOCAB = 17
PAD, BOS, EOS = 3, 1, 2
# The smallest stack in which layers differ; widths of which none equals another.
_SMALL = {"encoder": EncoderConfig(layers=2), "decoder": DecoderConfig(layers=3), "dim": 12, "ffn_dim": 20, "heads": 3}


def small(**changes: object) -> ModelConfig:
    """A tiny model without dropout, with `changes`."""
    return ModelConfig(**{**_SMALL, "dropout": 0.0, **changes})  # type: ignore[arg-type]


_PLACE = Place("a test", Path())


def preset(name: str, **changes: Any) -> ModelConfig:
    """The named combination with `changes`, as a recipe makes it."""
    tree = plant({**PRESETS[name], **changes}, _PLACE)
    assert isinstance(tree, Block)
    return config_of(ModelConfig, tree)[0]


def changed(config: ModelConfig, **changes: Any) -> ModelConfig:
    """`config` with those of `changes` that its model reads."""
    kept = {key: change for key, change in changes.items() if key not in OPTIONAL or key in keys_read(config)}
    return replace(config, **kept)


def layered(config: ModelConfig, encoder: int, decoder: int) -> ModelConfig:
    """`config` with so many layers in its stacks."""
    layers = {"decoder": decoder} | ({"encoder": encoder} if "encoder.layers" in keys_read(config) else {})
    stacks = {name: replace(getattr(config, name), layers=count) for name, count in layers.items()}
    return replace(config, **stacks)


def shrunk(name: str) -> ModelConfig:
    """A preset without dropout, at the size of `small`."""
    config = preset(name, dropout=0.0)
    config = layered(config, min(config.encoder.layers, 3), min(config.decoder.layers, 3))
    return changed(config, dim=12, ffn_dim=20, heads=3, kv_heads=None if config.kv_heads is None else 1)


RECURRENT: dict[str, Any] = {
    "encoder": {"type": "gru", "layers": 2, "bidirectional": "all"},
    "decoder": {"type": "lstm", "layers": 2, "context": "top", "attention": "dot", "initial": "summary"},
    "dim": 12,
    "dropout": 0.0,
}


def recurrent(encoder: dict[str, Any] | None = None, decoder: dict[str, Any] | None = None) -> ModelConfig:
    """A tiny recurrent model, with changes to its stacks."""
    stacks = {"encoder": encoder or {}, "decoder": decoder or {}}
    changes = {stack: {**RECURRENT[stack], **change} for stack, change in stacks.items()}
    tree = plant({**RECURRENT, **changes}, _PLACE)
    assert isinstance(tree, Block)
    return config_of(ModelConfig, tree)[0]


OF_ONE_DESIGN = ("transformer_tiny", "transformer_small", "transformer_big")
"""At one size they are `transformer_base`."""

# Each preset once, and each part and each way to combine them that no preset has.
CONFIGS: dict[str, ModelConfig] = {
    **{name: shrunk(name) for name in PRESETS if name not in OF_ONE_DESIGN},
    "post, gelu, target tied": small(activation="gelu", tie="output"),
    "pre, swiglu, nothing tied": small(norm_position="pre", activation="swiglu", tie="none"),
    "odd width, one head, sources tied": small(dim=7, ffn_dim=5, heads=1, norm_position="pre", tie="src_tgt"),
    "learned positions, rms norm, one layer": small(
        encoder=EncoderConfig(layers=1),
        decoder=DecoderConfig(layers=1),
        positions="learned",
        max_positions=400,
        norm="rms",
    ),
    "alibi, geglu": small(positions="alibi", activation="geglu", norm_position="pre"),
    "relative positions, one key head": small(positions="relative", kv_heads=1),
    "bucketed positions, window": small(positions="buckets", attention_window=2, norm_position="pre"),
    "prefix lm, relative positions": changed(
        shrunk("prefix_lm"), positions="relative", norm_position="post", kv_heads=1, attention_window=6
    ),
    "decoder only, rotary positions": changed(shrunk("decoder_only"), positions="rotary", norm="rms", bias=False),
    "gru, top lstm": recurrent(),
    "lstm, summary of a bidirectional": recurrent({"type": "lstm"}, {"context": "summary", "attention": None}),
    "top, window around the own position": recurrent(decoder={"window": "local_m", "window_size": 1}),
    "bottom, two heads": recurrent(decoder={"context": "bottom", "attention": "additive", "heads": 2}),
    "top, four heads, predicted window": recurrent(decoder={"heads": 4, "window": "local_p", "input_feeding": True}),
    "bottom, predicted window": recurrent(decoder={"context": "bottom", "window": "local_p", "window_size": 2}),
    "bottom, intra-attention": recurrent(decoder={"type": "intra_attention", "context": "bottom"}),
    "transformer decoder, recurrent encoder": changed(
        small(), encoder=EncoderConfig("lstm", layers=2, bidirectional="first"), norm_position="pre"
    ),
}


def build(config: ModelConfig, seed: int = 0) -> EncoderDecoder:
    """The model in training mode, with no parameter left at a value such as 0 or 1 that could hide a mistake."""
    torch.manual_seed(seed)
    model = config.build(VOCAB, VOCAB, PAD)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
        for embedding in (model.src_embedding, model.tgt_embedding):
            embedding.tokens.weight[PAD].zero_()
    return model


def pairs(lengths: Sequence[tuple[int, int]], seed: int = 0) -> tuple[list[list[int]], list[list[int]]]:
    """Random sources and targets of these lengths, without specials."""
    generator = torch.Generator().manual_seed(seed)

    def sentence(length: int) -> list[int]:
        return [int(i) for i in torch.randint(4, VOCAB, (length,), generator=generator)]

    return [sentence(source) for source, _ in lengths], [sentence(target) for _, target in lengths]


def random_batch(lengths: Sequence[tuple[int, int]] = ((5, 3), (2, 6), (7, 1), (1, 4)), seed: int = 0) -> Batch:
    """A batch of random pairs of these lengths: both sides have padding."""
    return collate(*pairs(lengths, seed), PAD, BOS, EOS)


def log_probs(model: EncoderDecoder, batch: Batch) -> Tensor:
    """What the full forward gives: (B, T, V)."""
    out: Tensor = model(batch).float().log_softmax(-1)
    return out
