"""Transformer encoder and decoder (Vaswani et al. 2017, section 3.1)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mt.models.config import ModelConfig
from mt.models.embedding import PositionedEmbedding
from mt.models.encoded import Encoded
from mt.models.memory import Memory
from mt.nn.attention import KeysValues, MultiHeadAttention, causal_mask
from mt.nn.feed_forward import FeedForward
from mt.nn.residual import Residual


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward, each inside a residual connection."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(config.dim, config.heads, config.attention_dropout)
        self.attention_residual = _residual(config)
        self.feed_forward = _feed_forward(config)
        self.feed_forward_residual = _residual(config)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """`x` (B, S, D) with `mask` (B, 1, 1, S) -> (B, S, D)."""
        x = self.attention_residual(x, lambda x: self.attention(x, self.attention.keys_values(x), mask))
        out: Tensor = self.feed_forward_residual(x, self.feed_forward)
        return out


class TransformerEncoder(nn.Module):
    """A stack of encoder layers."""

    embedding = PositionedEmbedding

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder.layers))
        self.norm = _final_norm(config)

    def forward(self, x: Tensor, mask: Tensor) -> Encoded:
        """Embedded source `x` (B, S, D) with `mask` (B, S)."""
        for layer in self.layers:
            x = layer(x, mask[:, None, None, :])
        return Encoded(self.norm(x), mask)


class DecoderLayer(nn.Module):
    """Masked self-attention, attention to the source, and feed-forward, each inside a residual connection."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(config.dim, config.heads, config.attention_dropout)
        self.self_residual = _residual(config)
        self.source_attention = MultiHeadAttention(config.dim, config.heads, config.attention_dropout)
        self.source_residual = _residual(config)
        self.feed_forward = _feed_forward(config)
        self.feed_forward_residual = _residual(config)

    def forward(self, x: Tensor, causal: Tensor, memory: Tensor, memory_mask: Tensor) -> Tensor:
        """`x` (B, T, D), `causal` (T, T), `memory` (B, S, D), `memory_mask` (B, 1, 1, S) -> (B, T, D)."""
        x = self.self_residual(x, lambda x: self.self_attention(x, self.self_attention.keys_values(x), causal))
        source = self.source_attention.keys_values(memory)
        x = self.source_residual(x, lambda x: self.source_attention(x, source, memory_mask))
        out: Tensor = self.feed_forward_residual(x, self.feed_forward)
        return out

    def step(
        self, x: Tensor, past: KeysValues | None, memory: Memory, index: int, watch: bool
    ) -> tuple[Tensor, KeysValues, Tensor | None]:
        """One position `x` (N, 1, D) after `past`.

        Returns the layer's output (N, 1, D), the past with this position, and where it looked (N, S), if `watch`.
        """
        grown, attention = past, None

        def attend_to_past(x: Tensor) -> Tensor:
            nonlocal grown
            now = self.self_attention.keys_values(x)
            grown = now if past is None else past.append(now)
            out: Tensor = self.self_attention(x, grown, None)
            return out

        def attend_to_source(x: Tensor) -> Tensor:
            nonlocal attention
            attention = memory.weights(self.source_attention, x, index) if watch else None
            return memory.attend(self.source_attention, x, index)

        x = self.self_residual(x, attend_to_past)
        x = self.source_residual(x, attend_to_source)
        x = self.feed_forward_residual(x, self.feed_forward)
        assert grown is not None
        return x, grown, attention


@dataclass(frozen=True)
class TransformerState:
    """What decoding remembers: the number of positions read, each layer's past, and the source."""

    position: int
    past: tuple[KeysValues, ...]
    memory: Memory
    attention: Tensor | None = None
    """(N, S): see `mt.seq2seq.Attentive`. The mean over the heads of the last layer but one, where there are two: it
    is the one that aligns best (Garg et al. 2019, section 4.1)."""

    def select(self, rows: Tensor) -> TransformerState:
        """Keep `rows` (N',), in that order."""
        past = tuple(layer.select(rows) for layer in self.past)
        attention = None if self.attention is None else self.attention.index_select(0, rows)
        return TransformerState(self.position, past, self.memory.select(rows), attention)


class TransformerDecoder(nn.Module):
    """A stack of decoder layers."""

    embedding = PositionedEmbedding

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder.layers))
        self.norm = _final_norm(config)

    def forward(self, x: Tensor, encoded: Encoded) -> Tensor:
        """Embedded target `x` (B, T, D) -> decoder states (B, T, D)."""
        causal = causal_mask(x.size(1), x.device)
        for layer in self.layers:
            x = layer(x, causal, encoded.memory, encoded.mask[:, None, None, :])
        out: Tensor = self.norm(x)
        return out

    def start(self, encoded: Encoded, attention: bool = False) -> TransformerState:
        """The state before the first target position, of B rows."""
        projected = [layer.source_attention.keys_values(encoded.memory) for layer in self._typed_layers()]
        looked = torch.zeros(encoded.mask.shape, device=encoded.mask.device) if attention else None
        return TransformerState(0, (), Memory.start(projected, encoded.mask), looked)

    def step(self, x: Tensor, state: TransformerState) -> tuple[Tensor, TransformerState]:
        """Embedded tokens `x` (N, 1, D) -> decoder states (N, 1, D), and the state after them."""
        past: list[KeysValues] = []
        attention = state.attention
        watched = None if attention is None else max(len(self.layers) - 2, 0)
        for index, layer in enumerate(self._typed_layers()):
            before = state.past[index] if state.past else None
            x, grown, looked = layer.step(x, before, state.memory, index, watch=index == watched)
            past.append(grown)
            attention = attention if looked is None else looked
        return self.norm(x), TransformerState(state.position + 1, tuple(past), state.memory, attention)

    def _typed_layers(self) -> list[DecoderLayer]:
        return [layer for layer in self.layers if isinstance(layer, DecoderLayer)]


def _residual(config: ModelConfig) -> Residual:
    return Residual(config.dim, config.dropout, config.norm_position)


def _feed_forward(config: ModelConfig) -> FeedForward:
    return FeedForward(config.dim, config.ffn_dim, config.activation, config.activation_dropout)


def _final_norm(config: ModelConfig) -> nn.Module:
    """With the norm before each part nothing norms the last sum, so the stack does."""
    return nn.LayerNorm(config.dim) if config.norm_position == "pre" else nn.Identity()
