"""Translation by one stack that reads the source, and goes on with the target: a decoder without an encoder.

    places      0  1  2  3   4  5  6
    reads       ein Haus .   </s>  <s> a  house
    predicts                       a  house </s>

The source's end mark and the target's begin mark separate the two. In a batch each row's target begins where its own
source ends, whatever padding lies between them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mt.models import parts
from mt.models.config import ModelConfig
from mt.models.embedding import ScaledEmbedding
from mt.models.encoded import Encoded
from mt.models.transformer import EncoderLayer, kept, watched_layer
from mt.nn.attention import KeysValues
from mt.nn.dropout import dropout
from mt.nn.masks import causal_mask, padding_mask, prefix_mask
from mt.nn.places import Places


class NoEncoder(nn.Module):
    """Hands the embedded source on as it is."""

    embedding = ScaledEmbedding

    def __init__(self, config: ModelConfig) -> None:  # noqa: ARG002 (the sign of ENCODERS)
        super().__init__()

    def forward(self, x: Tensor, mask: Tensor) -> Encoded:
        """Embedded source `x` (B, S, D) with `mask` (B, S)."""
        return Encoded(x, mask)


@dataclass(frozen=True)
class LanguageModelState:
    """What decoding remembers: each layer's keys and values of the source and of the target so far."""

    position: int
    """Target tokens read."""
    past: tuple[KeysValues, ...]
    """A layer each, (N, G, S + position, K)."""
    length: Tensor
    """(N,) int64: source tokens, so the place of the first target token."""
    source: Tensor
    """(N, S) bool: the source's real tokens."""
    attention: Tensor | None = None
    """(N, S): see `mt.seq2seq.Attentive`; the mean over the heads of the last layer but one."""

    def select(self, rows: Tensor) -> LanguageModelState:
        """Keep `rows` (N',), in that order."""
        return LanguageModelState(
            self.position,
            tuple(layer.select(rows) for layer in self.past),
            self.length.index_select(0, rows),
            self.source.index_select(0, rows),
            None if self.attention is None else self.attention.index_select(0, rows),
        )

    def places(self, read: int) -> Places:
        """(N, S + read): where the source and `read` target tokens stand."""
        width = self.source.size(1)
        source = torch.arange(width, device=self.length.device).expand(len(self.length), -1)
        target = self.length.unsqueeze(1) + torch.arange(read, device=self.length.device)
        return Places(torch.cat((source, target), 1), width + read)

    def real(self, read: int) -> Tensor:
        """(N, S + read) bool: which of these are no padding of the source; a target's own padding only follows."""
        return torch.cat((self.source, self.source.new_ones(len(self.source), read)), 1)


class LanguageModel(nn.Module):
    """A stack of self-attention (Radford et al. 2018), without attention to anything else.

    With `decoder.prefix` `causal` each position sees what came before it; with `full` those of the source see all of it
    (T5's prefix LM: Raffel et al. 2020, section 3.2.1).
    """

    embedding = ScaledEmbedding

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.full_prefix = config.decoder.prefix == "full"
        self.positions = parts.positions(config)
        self.dropout, self.layer_drop = config.dropout, config.layer_drop
        self.layers = nn.ModuleList(EncoderLayer(config, bidirectional=False) for _ in range(config.decoder.layers))
        self.norm = parts.final_norm(config)

    def forward(self, x: Tensor, encoded: Encoded) -> Tensor:
        """Embedded target `x` (B, T, D) -> its states (B, T, D)."""
        return self.both(x, encoded)[:, encoded.mask.size(1) :]

    def both(self, x: Tensor, encoded: Encoded) -> Tensor:
        """The states (B, S + T, D) of the embedded source and target `x` (B, T, D)."""
        begun = _begun(encoded)
        states, _ = self._read(torch.cat((encoded.memory, x), 1), begun.places(x.size(1)), begun.real(x.size(1)), begun)
        return states

    def start(self, encoded: Encoded, attention: bool = False) -> LanguageModelState:
        """Read the source: the state before the first target token, of B rows."""
        begun = _begun(encoded)
        _, past = self._read(encoded.memory, begun.places(0), begun.real(0), begun)
        looked = torch.zeros(encoded.mask.shape, device=encoded.mask.device) if attention else None
        return LanguageModelState(0, past, begun.length, begun.source, looked)

    def step(self, x: Tensor, state: LanguageModelState) -> tuple[Tensor, LanguageModelState]:
        """Embedded tokens `x` (N, 1, D) -> their states (N, 1, D), and the state after them."""
        read = state.position + 1
        keys, mask = state.places(read), padding_mask(state.real(read))
        places = Places(keys.at[:, -1:], keys.end)
        x = dropout(self.positions.embed(x, places), self.dropout, self.training)
        past, attention = [], state.attention
        watched = None if attention is None else watched_layer(self.layers)
        for index, (layer, before) in enumerate(zip(self._typed_layers(), state.past, strict=True)):
            x, grown, looked = layer.step(x, before, places, keys, mask, watch=index == watched)
            past.append(grown)
            attention = attention if looked is None else looked[:, : state.source.size(1)]
        return self.norm(x), LanguageModelState(read, tuple(past), state.length, state.source, attention)

    def _read(
        self, x: Tensor, places: Places, real: Tensor, begun: LanguageModelState
    ) -> tuple[Tensor, tuple[KeysValues, ...]]:
        """States (B, P, D) of embeddings `x` (B, P, D), and what later positions attend to."""
        seen = prefix_mask(x.size(1), begun.source.size(1), x.device) if self.full_prefix else None
        mask = padding_mask(real) & (causal_mask(x.size(1), x.device) if seen is None else seen)
        x, past = dropout(self.positions.embed(x, places), self.dropout, self.training), []
        for layer in kept(self.layers, self.layer_drop, self.training):
            assert isinstance(layer, EncoderLayer)
            x, memory = layer.over(x, places, mask)
            past.append(memory)
        return self.norm(x), tuple(past)

    def _typed_layers(self) -> list[EncoderLayer]:
        return [layer for layer in self.layers if isinstance(layer, EncoderLayer)]


def _begun(encoded: Encoded) -> LanguageModelState:
    return LanguageModelState(0, (), encoded.mask.sum(1), encoded.mask)
