"""Transformer encoder and decoder (Vaswani et al. 2017, section 3.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mt.models import parts
from mt.models.config import ModelConfig
from mt.models.embedding import PositionedEmbedding
from mt.models.encoded import Encoded
from mt.models.memory import Memory
from mt.nn.attention import KeysValues
from mt.nn.masks import causal_mask, padding_mask
from mt.nn.places import Places
from mt.nn.ssru import SSRUState

Past = KeysValues | SSRUState
"""What a decoder layer remembers of the target."""


def kept(layers: nn.ModuleList, p: float, training: bool) -> Iterator[nn.Module]:
    """In training each layer with probability 1 - `p` (Fan et al. 2020, "Reducing Transformer Depth on Demand")."""
    for layer in layers:
        if not training or p == 0 or float(torch.rand(())) >= p:
            yield layer


def watched_layer(layers: nn.ModuleList) -> int:
    """Whose attention tells where a model looked: the last but one, which aligns best (Garg et al. 2019, section 4)."""
    return max(len(layers) - 2, 0)


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward, each inside a residual connection."""

    def __init__(self, config: ModelConfig, bidirectional: bool = True) -> None:
        super().__init__()
        self.attention = parts.self_attention(config, bidirectional)
        self.attention_residual = parts.residual(config)
        self.feed_forward = parts.feed_forward(config)
        self.feed_forward_residual = parts.residual(config)

    def forward(self, x: Tensor, places: Places, mask: Tensor) -> Tensor:
        """`x` (B, S, D) at `places`, by `mask` (B, 1, 1, S) -> (B, S, D)."""
        return self.over(x, places, mask)[0]

    def over(self, x: Tensor, places: Places, mask: Tensor) -> tuple[Tensor, KeysValues]:
        """As `forward`, and what later positions attend to."""
        out, memory = self.attention(self.attention_residual.before(x), places, mask)
        x = self.attention_residual.after(x, out)
        return self.feed_forward_residual(x, self.feed_forward), memory

    def step(
        self, x: Tensor, past: KeysValues, places: Places, keys: Places, mask: Tensor, watch: bool
    ) -> tuple[Tensor, KeysValues, Tensor | None]:
        """One position `x` (N, 1, D) at `places` after `past`; `keys` are the places of both, and `mask` theirs.

        Returns the output (N, 1, D), the past with this position, and where it looked (N, P), if `watch`.
        """
        read = self.attention_residual.before(x)
        out, memory = self.attention.step(read, past, places, keys, mask)
        looked = self.attention.looked(read, memory, places, keys, mask).mean(1).squeeze(1) if watch else None
        x = self.attention_residual.after(x, out)
        return self.feed_forward_residual(x, self.feed_forward), memory, looked


class TransformerEncoder(nn.Module):
    """A stack of encoder layers."""

    embedding = PositionedEmbedding

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder.layers))
        self.layer_drop = config.layer_drop
        self.norm = parts.final_norm(config)

    def forward(self, x: Tensor, mask: Tensor) -> Encoded:
        """Embedded source `x` (B, S, D) with `mask` (B, S)."""
        places = Places.following(0, x.size(1), x.device)
        for layer in kept(self.layers, self.layer_drop, self.training):
            x = layer(x, places, padding_mask(mask))
        return Encoded(self.norm(x), mask)


class DecoderLayer(nn.Module):
    """Masked self-attention, attention to the source, and feed-forward, each inside a residual connection."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = parts.SELF_PARTS[config.decoder.type](config)
        self.self_residual = parts.residual(config)
        self.source_attention = parts.source_attention(config)
        self.source_residual = parts.residual(config)
        self.feed_forward = parts.feed_forward(config)
        self.feed_forward_residual = parts.residual(config)

    def forward(self, x: Tensor, places: Places, causal: Tensor, memory: Tensor, memory_mask: Tensor) -> Tensor:
        """`x` (B, T, D) at `places`, `causal` (T, T), `memory` (B, S, D), `memory_mask` (B, 1, 1, S) -> (B, T, D)."""
        x = self.self_residual.after(x, self.self_attention(self.self_residual.before(x), places, causal)[0])
        source = self.source_attention.keys_values(memory)
        x = self.source_residual(x, lambda x: self.source_attention(x, source, memory_mask))
        out: Tensor = self.feed_forward_residual(x, self.feed_forward)
        return out

    def step(
        self, x: Tensor, past: Past | None, places: Places, keys: Places, memory: Memory, index: int, watch: bool
    ) -> tuple[Tensor, Past, Tensor | None]:
        """One position `x` (N, 1, D) at `places` after `past`; `keys` are the places of both.

        Returns the layer's output (N, 1, D), the past with this position, and where it looked (N, S), if `watch`.
        """
        step: Callable[..., tuple[Tensor, Past]] = self.self_attention.step  # the past is of its own kind
        attended, grown = step(self.self_residual.before(x), past, places, keys)
        x = self.self_residual.after(x, attended)
        read = self.source_residual.before(x)
        looked = memory.weights(self.source_attention, read, index) if watch else None
        x = self.source_residual.after(x, memory.attend(self.source_attention, read, index))
        return self.feed_forward_residual(x, self.feed_forward), grown, looked


@dataclass(frozen=True)
class TransformerState:
    """What decoding remembers: the number of positions read, each layer's past, and the source."""

    position: int
    past: tuple[Past, ...]
    memory: Memory
    attention: Tensor | None = None
    """(N, S): see `mt.seq2seq.Attentive`; the mean over the heads of the last layer but one."""

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
        self.layer_drop = config.layer_drop
        self.norm = parts.final_norm(config)

    def forward(self, x: Tensor, encoded: Encoded) -> Tensor:
        """Embedded target `x` (B, T, D) -> decoder states (B, T, D)."""
        causal, places = causal_mask(x.size(1), x.device), Places.following(0, x.size(1), x.device)
        for layer in kept(self.layers, self.layer_drop, self.training):
            x = layer(x, places, causal, encoded.memory, padding_mask(encoded.mask))
        out: Tensor = self.norm(x)
        return out

    def start(self, encoded: Encoded, attention: bool = False) -> TransformerState:
        """The state before the first target position, of B rows."""
        projected = [layer.source_attention.keys_values(encoded.memory) for layer in self._typed_layers()]
        looked = torch.zeros(encoded.mask.shape, device=encoded.mask.device) if attention else None
        return TransformerState(0, (), Memory.start(projected, encoded.mask), looked)

    def step(self, x: Tensor, state: TransformerState) -> tuple[Tensor, TransformerState]:
        """Embedded tokens `x` (N, 1, D) -> decoder states (N, 1, D), and the state after them."""
        keys = Places.following(0, state.position + 1, x.device)
        places = Places(keys.at[-1:], keys.end)
        past: list[Past] = []
        attention = state.attention
        watched = None if attention is None else watched_layer(self.layers)
        for index, layer in enumerate(self._typed_layers()):
            before = state.past[index] if state.past else None
            x, grown, looked = layer.step(x, before, places, keys, state.memory, index, watch=index == watched)
            past.append(grown)
            attention = attention if looked is None else looked
        return self.norm(x), TransformerState(state.position + 1, tuple(past), state.memory, attention)

    def _typed_layers(self) -> list[DecoderLayer]:
        return [layer for layer in self.layers if isinstance(layer, DecoderLayer)]
