"""The parts of a Transformer's layers as the `model` block asks for them."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from mt.models.config import ModelConfig
from mt.nn.attention import MultiHeadAttention
from mt.nn.feed_forward import FeedForward
from mt.nn.norms import NORMS
from mt.nn.places import Positions
from mt.nn.positions import POSITIONS, Sizes
from mt.nn.residual import Residual
from mt.nn.self_attention import SelfAttention
from mt.nn.ssru import SSRU


def norm(config: ModelConfig) -> nn.Module:
    """One norm."""
    return NORMS[config.norm](config.dim, config.bias)


def final_norm(config: ModelConfig) -> nn.Module:
    """With the norm before each part nothing norms the last sum, so the stack does."""
    return norm(config) if config.norm_position == "pre" else nn.Identity()


def residual(config: ModelConfig) -> Residual:
    """What stands around each part."""
    return Residual(norm(config), config.dropout, config.norm_position)


def feed_forward(config: ModelConfig) -> FeedForward:
    """A layer's last part."""
    return FeedForward(config.dim, config.ffn_dim, config.activation, config.activation_dropout, config.bias)


def source_attention(config: ModelConfig) -> MultiHeadAttention:
    """A decoder layer's attention to the source."""
    return MultiHeadAttention(config.dim, config.heads, config.attention_dropout, config.kv_heads, config.bias)


def self_attention(config: ModelConfig, bidirectional: bool) -> SelfAttention:
    """Attention of a layer to its own sequence."""
    return SelfAttention(
        config.dim,
        config.heads,
        config.attention_dropout,
        config.kv_heads,
        config.bias,
        POSITIONS[config.positions].in_attention(sizes(config, bidirectional)),
        config.attention_window,
    )


def positions(config: ModelConfig) -> Positions:
    """What is done to the embeddings of either side."""
    return POSITIONS[config.positions].on_embeddings(sizes(config, bidirectional=True))


def sizes(config: ModelConfig, bidirectional: bool) -> Sizes:
    """What positions are made from."""
    return Sizes(config.dim, config.heads, config.position_base, config.max_positions, bidirectional)


# decoder.type -> what a decoder layer does with the target so far.
SELF_PARTS: dict[str, Callable[[ModelConfig], SelfAttention | SSRU]] = {
    "transformer": lambda config: self_attention(config, bidirectional=False),
    "ssru": lambda config: SSRU(config.dim),
}
