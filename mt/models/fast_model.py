"""Transformers for decoding on a CPU: the same function as the trained modules, in fewer and larger operations.

Weights are packed once. Queries, keys and values are one product, and the scale of the scores is in the weights. The
source's keys and values are computed once and read by all hypotheses of a sentence; the past stays where it was
written (mt/models/slots.py). Every inner dimension of a softmax is at least 16, below which PyTorch's is slow.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from mt.models.encoder_decoder import EncoderDecoder
from mt.models.fast_layers import Block, FastDecoderLayer, FastEncoderLayer, Rows, fast_norm
from mt.models.fast_state import FastSource, FastState
from mt.models.slots import NEVER, Past
from mt.models.transformer import watched_layer
from mt.nn.attend import WIDE
from mt.nn.packed import PACKINGS, Packing, output_packing
from mt.nn.places import Places


class FastModel(ABC):
    """The `start` and `step` of a trained model; its weights must not change while it is used."""

    layer: Callable[[Any, Packing], FastDecoderLayer | FastEncoderLayer]
    """The fast form of a layer that reads the target."""

    def __init__(self, model: EncoderDecoder, precision: str = "fp32") -> None:
        """Pack `model`, of which this is the `mt.models.fast.fast_form`, in one of `mt.nn.packed.PACKINGS`.

        Raises:
            ConfigError: this PyTorch cannot compute in that precision.
        """
        decoder: Any = model.decoder
        self.src_embedding: Any = model.src_embedding
        self.tgt_embedding: Any = model.tgt_embedding
        config = model.config
        self.heads, self.groups, self.width = config.heads, config.kv_heads or config.heads, config.dim // config.heads
        self.packing, self.output_packing = PACKINGS[precision], output_packing(precision)
        self.layers = [self.layer(layer, self.packing) for layer in decoder.layers]
        self.norm = fast_norm(decoder.norm)
        self.output = self.output_packing(model.output.weight, model.output.bias)
        self.watched = watched_layer(decoder.layers)

    @torch.no_grad()
    def start(self, src: Tensor, src_mask: Tensor, attention: bool = False) -> FastState:
        """As `Seq2Seq`: encode `src` (B, S) with `src_mask` (B, S), in which no row is empty."""
        count, length = src.shape
        wide = max(WIDE - length, -length % 4)
        mask = torch.zeros(src.shape).masked_fill_(~src_mask, NEVER)
        mask = F.pad(mask, (0, wide), value=NEVER)[:, None]
        rows = self._rows(count, length + wide, Places.following(0, length + wide, src.device))
        x = F.pad(self._embed_source(src), (0, 0, 0, wide)).flatten(0, 1)
        keys, values = zip(*self._read_source(F.pad(x, (0, 0, 0, rows.total - len(x))), rows, mask), strict=True)
        past = Past.start(len(self.layers), count, self.groups, self.width)
        looked = torch.zeros(count, length) if attention else None
        return FastState(0, past, FastSource(keys, values, mask, length), looked)

    @torch.no_grad()
    def step(self, tokens: Tensor, state: FastState) -> tuple[Tensor, FastState]:
        """As `Seq2Seq`: log-probabilities (N, V) float32 after reading `tokens` (N,), and the state after them."""
        state, count = state.with_room(), len(tokens)
        past, tokens = state.past.grown(), state.spread(tokens)
        rows = self._rows(len(past.mask), past.width, self._places(state))
        x = self._embed(F.pad(tokens, (0, rows.total - len(tokens))), rows)
        x, looked = self._read(x, rows, past, state.source)
        x = self.norm(state.gathered(x, self.output_packing.rounded(count, x.size(1))))
        logits = self.output(x)[:count]
        log_probs = torch.log_softmax(logits, -1, out=logits)  # in place: it is most of what a step writes
        attention = None if state.attention is None else self._attention(looked, state, count)
        return log_probs, replace(state, position=state.position + 1, past=past, attention=attention)

    def _read(self, x: Tensor, rows: Rows, past: Past, source: FastSource) -> tuple[Tensor, Tensor]:
        """Of vectors `x` (M, D) of new positions, states (M, D), and the weights (U, H, W, S) of the watched layer."""
        mask, source_mask = rows.mask(past.mask), rows.mask(source.mask)
        layers = zip(self.layers, past.layers(), source.keys, source.values, strict=True)
        looked = x
        for number, (layer, slots, key, value) in enumerate(layers):
            x, weights = layer.step(x, rows, slots, mask, Block(key, value, source_mask))
            looked = weights if number == self.watched else looked
        return x, looked

    def _attention(self, weights: Tensor, state: FastState, count: int) -> Tensor:
        """The mean of the heads' `weights` (U, H, W, S'), for the `count` rows of `state`: (N, S)."""
        return state.gathered(weights.mean(1).flatten(0, 1)[:, : state.source.length], count)

    @abstractmethod
    def _embed_source(self, src: Tensor) -> Tensor:
        """Vectors (B, S, D) of `src` (B, S), where they stand."""

    @abstractmethod
    def _read_source(self, x: Tensor, rows: Rows, mask: Tensor) -> Sequence[tuple[Tensor, Tensor]]:
        """For each layer keys (U x G, K, S) and values (U x G, S, K) of the source `x` (M, D), by `mask` (U, 1, S)."""

    @abstractmethod
    def _places(self, state: FastState) -> Places:
        """Where the tokens stand that come next in `state`: (1,), or (U, W)."""

    @abstractmethod
    def _embed(self, tokens: Tensor, rows: Rows) -> Tensor:
        """Vectors (M, D) of `tokens` (M,) in these rows."""

    def _rows(self, sentences: int, positions: int, places: Places) -> Rows:
        total = self.packing.rounded(sentences * positions, self.heads * self.width)
        return Rows(sentences, positions, total, self.heads, self.groups, self.width, places)


class FastTransformer(FastModel):
    """An encoder, and a decoder that attends to it."""

    layer = FastDecoderLayer

    def __init__(self, model: EncoderDecoder, precision: str = "fp32") -> None:
        """As `FastModel`."""
        super().__init__(model, precision)
        encoder: Any = model.encoder
        self.encoder = [FastEncoderLayer(layer, self.packing) for layer in encoder.layers]
        self.encoder_norm = fast_norm(encoder.norm)
        self._positions: dict[int, Tensor] = {}

    def _embed_source(self, src: Tensor) -> Tensor:
        embedded: Tensor = self.src_embedding(src)
        return embedded

    def _read_source(self, x: Tensor, rows: Rows, mask: Tensor) -> Sequence[tuple[Tensor, Tensor]]:
        heads_mask = rows.mask(mask)
        for layer in self.encoder:
            x, _ = layer.over(x, rows, heads_mask)
        memory = self.encoder_norm(x)
        return [layer.project(memory, rows) for layer in self.layers if isinstance(layer, FastDecoderLayer)]

    def _places(self, state: FastState) -> Places:
        return Places.following(state.position, 1, state.past.mask.device)

    def _embed(self, tokens: Tensor, rows: Rows) -> Tensor:
        embedding, position = self.tgt_embedding, rows.places.end
        if position not in self._positions:
            nothing = torch.zeros(1, 1, embedding.tokens.embedding_dim)
            self._positions[position] = embedding.positions.embed(nothing, rows.places).detach().view(-1)
        vectors = F.embedding(tokens, embedding.tokens.weight.detach())
        return torch.add(self._positions[position], vectors, alpha=embedding.scale)


class FastLanguageModel(FastModel):
    """One stack for source and target; each target begins where its own source ends."""

    layer = FastEncoderLayer

    def __init__(self, model: EncoderDecoder, precision: str = "fp32") -> None:
        """As `FastModel`."""
        super().__init__(model, precision)
        decoder: Any = model.decoder
        self.positions, self.full_prefix = decoder.positions, decoder.full_prefix

    def _embed_source(self, src: Tensor) -> Tensor:
        placed: Tensor = self.positions.embed(self.src_embedding(src), Places.following(0, src.size(1), src.device))
        return placed

    def _read_source(self, x: Tensor, rows: Rows, mask: Tensor) -> Sequence[tuple[Tensor, Tensor]]:
        if not self.full_prefix:
            mask = mask + torch.full((rows.positions, rows.positions), NEVER).triu_(1)
        heads_mask, found = rows.mask(mask), []
        for layer in self.layers:
            assert isinstance(layer, FastEncoderLayer)
            x, block = layer.over(x, rows, heads_mask)
            found.append((block.key.contiguous(), block.value.contiguous()))
        return found

    def _places(self, state: FastState) -> Places:
        lengths = (state.source.mask[:, 0] == 0).sum(1, keepdim=True)
        at = (lengths + state.position).expand(-1, state.past.width)
        if state.places is not None:  # who left may have been at the last position
            at = state.spread(at.flatten()[state.places]).view_as(at)
        return Places(at, state.source.length + state.position + 1)

    def _embed(self, tokens: Tensor, rows: Rows) -> Tensor:
        x: Tensor = self.tgt_embedding(tokens)
        at = rows.places.at
        own = x[: at.numel()].view(*at.shape, -1)
        own.copy_(self.positions.embed(own, rows.places))
        return x
