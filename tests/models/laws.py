"""The models that the laws hold for, and batches to hold them with. A new architecture joins by one line."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mt.data.batching import Batch, collate
from mt.models.config import ModelConfig, StackConfig
from mt.models.encoder_decoder import EncoderDecoder

VOCAB = 17
PAD, BOS, EOS = 3, 1, 2
# The smallest stack in which layers differ; widths of which none equals another.
_SMALL = {"encoder": StackConfig(layers=2), "decoder": StackConfig(layers=3), "dim": 12, "ffn_dim": 20, "heads": 3}


def small(**changes: object) -> ModelConfig:
    """A tiny model without dropout, with `changes`."""
    return ModelConfig(**{**_SMALL, "dropout": 0.0, **changes})  # type: ignore[arg-type]


CONFIGS: dict[str, ModelConfig] = {
    "post-relu-all": small(),
    "pre-relu-none": small(norm_position="pre", tie="none"),
    "post-gelu-output": small(activation="gelu", tie="output"),
    "pre-gelu-src_tgt": small(norm_position="pre", activation="gelu", tie="src_tgt"),
    "post-swiglu-none": small(activation="swiglu", tie="none"),
    "pre-swiglu-all": small(norm_position="pre", activation="swiglu"),
    "one layer, one head": small(encoder=StackConfig(layers=1), decoder=StackConfig(layers=1), heads=1),
    "odd width": small(dim=7, ffn_dim=5, heads=1, norm_position="pre"),
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
