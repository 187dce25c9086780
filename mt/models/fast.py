"""A Transformer for decoding on a CPU: the same function as the trained modules, in fewer and larger operations.

Weights are packed once. Queries, keys and values are one product, and the scale of the scores is in the weights. The
source's keys and values are computed once and read by all hypotheses of a sentence; the past stays where it was
written (mt/models/slots.py). Every inner dimension of a softmax is at least 16, below which PyTorch's is slow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mt.errors import ConfigError
from mt.models.encoder_decoder import EncoderDecoder
from mt.models.fast_layers import FastDecoderLayer, FastEncoderLayer, Rows, fast_norm
from mt.models.fast_state import FastSource, FastState
from mt.models.slots import NEVER, Past
from mt.models.transformer import TransformerDecoder, TransformerEncoder, watched_layer
from mt.nn.attention import WIDE
from mt.nn.linear import products_by
from mt.nn.packed import PACKINGS, Packed, PackedProducts, rounded
from mt.nn.places import Places, Positions
from mt.nn.self_attention import SelfAttention


class Decoding(Protocol):
    """What a search needs of a model: `Seq2Seq` without training."""

    @property
    def start(self) -> Callable[..., Any]:
        """As `Seq2Seq.start`."""
        ...

    @property
    def step(self) -> Callable[..., tuple[Tensor, Any]]:
        """As `Seq2Seq.step`."""
        ...


def for_decoding(model: nn.Module, precision: str = "fp32") -> Decoding:
    """The fastest form of `model`, which keeps its weights of now: as it is where no faster one is known.

    Raises:
        ConfigError: it cannot be had in that precision.
    """
    if isinstance(model, EncoderDecoder) and can_be_fast(model):
        return FastTransformer(model, precision)
    if isinstance(model, EncoderDecoder) and _on_cpu(model):
        return PackedModel(model, precision)
    if precision != "fp32":
        raise ConfigError(f"decode.precision {precision} is for models on a CPU; leave it at fp32.")
    return cast(Decoding, model)


def can_be_fast(model: nn.Module) -> bool:
    """Whether `FastTransformer` computes the function of `model`."""
    if type(model) is not EncoderDecoder:
        return False
    if not _on_cpu(model) or (type(model.encoder), type(model.decoder)) != (TransformerEncoder, TransformerDecoder):
        return False
    encoder: Any = model.encoder
    decoder: Any = model.decoder
    own = [*(layer.attention for layer in encoder.layers), *(layer.self_attention for layer in decoder.layers)]
    of_source = [layer.source_attention for layer in decoder.layers]
    return all(map(_reads_everything, own)) and all(map(_has_all_heads, [*own, *of_source]))


def _on_cpu(model: EncoderDecoder) -> bool:
    return model.output.weight.is_cpu and model.output.weight.dtype == torch.float32


def _reads_everything(attention: Any) -> bool:
    """Whether each position attends to all others alike, wherever they stand."""
    if type(attention) is not SelfAttention or attention.window is not None:
        return False
    kind = type(attention.positions)
    return kind.rotate is Positions.rotate and kind.bias is Positions.bias


def _has_all_heads(attention: Any) -> bool:
    """Whether each head of queries has its own keys and values."""
    return bool(attention.key_value.out_features == 2 * attention.query.out_features)


class PackedModel:
    """The `start` and `step` of any other trained model: as they are, with packed weights."""

    def __init__(self, model: EncoderDecoder, precision: str = "fp32") -> None:
        """Pack `model`, whose weights must not change while it is used.

        Raises:
            ConfigError: this PyTorch cannot compute in that precision.
        """
        self._model = model
        self._inner, self._output = PackedProducts(PACKINGS[precision]), PackedProducts(_of_output(precision))

    def start(self, src: Tensor, src_mask: Tensor, attention: bool = False) -> Any:
        """As `Seq2Seq`."""
        with products_by(self._inner):
            return self._model.start(src, src_mask, attention)

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """As `Seq2Seq`: log-probabilities (N, V) float32 after reading `tokens` (N,), and the state after them."""
        with products_by(self._inner):
            hidden, state = self._model.read(tokens, state)
        logits = self._output(hidden, self._model.output.weight, self._model.output.bias)
        return torch.log_softmax(logits, -1, out=logits), state


def _of_output(precision: str) -> Callable[[Tensor, Tensor | None], Packed]:
    """How an output layer is packed: candidates of bfloat16 are often equal, and to put equals in order takes longer
    than all the products.
    """
    return PACKINGS["fp32" if precision == "bf16" else precision]


class FastTransformer:
    """The `start` and `step` of a trained Transformer; a model's weights must not change while it is used."""

    def __init__(self, model: EncoderDecoder, precision: str = "fp32") -> None:
        """Pack `model`, which `can_be_fast`, in one of `mt.nn.packed.PACKINGS`.

        Raises:
            ConfigError: this PyTorch cannot compute in that precision.
        """
        encoder: Any = model.encoder
        decoder: Any = model.decoder
        packing = PACKINGS[precision]
        self.src_embedding: Any = model.src_embedding
        self.tgt_embedding: Any = model.tgt_embedding
        self.heads: int = decoder.layers[0].source_attention.heads
        self.encoder = [FastEncoderLayer(layer, packing) for layer in encoder.layers]
        self.decoder = [FastDecoderLayer(layer, packing) for layer in decoder.layers]
        self.encoder_norm, self.decoder_norm = fast_norm(encoder.norm), fast_norm(decoder.norm)
        self.output = _of_output(precision)(model.output.weight, model.output.bias)
        self.watched = watched_layer(decoder.layers)
        self._positions: dict[int, Tensor] = {}

    def start(self, src: Tensor, src_mask: Tensor, attention: bool = False) -> FastState:
        """As `Seq2Seq`: encode `src` (B, S) with `src_mask` (B, S)."""
        count, length = src.shape
        wide = max(WIDE - length, -length % 4)
        mask = torch.zeros(src.shape).masked_fill_(~src_mask, NEVER)
        mask = F.pad(mask, (0, wide), value=NEVER)[:, None]
        rows = self._rows(count, length + wide)
        x = F.pad(self.src_embedding(src), (0, 0, 0, wide)).flatten(0, 1)
        x = F.pad(x, (0, 0, 0, rows.total - len(x)))
        heads_mask = _of_heads(mask, self.heads)
        for layer in self.encoder:
            x = layer(x, rows, heads_mask)
        memory = self.encoder_norm(x)
        keys, values = zip(*(layer.project(memory, rows) for layer in self.decoder), strict=True)
        past = Past.start(len(self.decoder), count, self.heads, x.size(1) // self.heads)
        looked = torch.zeros(count, length) if attention else None
        return FastState(0, past, FastSource(keys, values, mask, length), looked)

    def step(self, tokens: Tensor, state: FastState) -> tuple[Tensor, FastState]:
        """As `Seq2Seq`: log-probabilities (N, V) float32 after reading `tokens` (N,), and the state after them."""
        state = state.with_room()
        past, source, attention = state.past.grown(), state.source, state.attention
        rows, count = self._rows(*past.mask.shape[:2]), tokens.size(0)
        mask = _of_heads(_padded(past.mask, WIDE - past.used, NEVER), self.heads)
        source_mask = _of_heads(source.mask, self.heads)
        tokens = state.spread(tokens)
        x = self._embed(_padded(tokens, rows.total - tokens.size(0), 0), state.position)
        for number, (layer, slots) in enumerate(zip(self.decoder, past.layers(mask.size(2)), strict=True)):
            x = layer.attend_to_past(x, rows, slots, mask)
            x, weights = layer.attend_to_source(x, rows, source.keys[number], source.values[number], source_mask)
            x = layer.feed_forward(x)
            if attention is not None and number == self.watched:
                heads = weights.view(rows.sentences, rows.heads, rows.positions, -1)
                attention = state.gathered(heads.mean(1).flatten(0, 1)[:, : source.length], count)
        logits = self.output(self.decoder_norm(state.gathered(x, rounded(count))))[:count]
        log_probs = torch.log_softmax(logits, -1, out=logits)  # in place: it is most of what a step writes
        return log_probs, FastState(state.position + 1, past, source, attention, state.places)

    def _rows(self, sentences: int, positions: int) -> Rows:
        return Rows(sentences, positions, self.heads, rounded(sentences * positions))

    def _embed(self, tokens: Tensor, position: int) -> Tensor:
        """Vectors (N, D) of `tokens` (N,), all at `position`."""
        embedding = self.tgt_embedding
        if position not in self._positions:
            nothing = torch.zeros(1, 1, embedding.tokens.embedding_dim)
            here = embedding.positions.embed(nothing, Places.following(position, 1, nothing.device))
            self._positions[position] = here.detach().view(-1)
        vectors = F.embedding(tokens, embedding.tokens.weight.detach())
        return torch.add(self._positions[position], vectors, alpha=embedding.scale)


def _padded(x: Tensor, more: int, value: float) -> Tensor:
    """`x` with `more` entries at the end of its last dimension, none if that is below 1."""
    return F.pad(x, (0, more), value=value) if more > 0 else x


def _of_heads(mask: Tensor, heads: int) -> Tensor:
    """`mask` (U, T, S), the same for each head: (U x H, T, S)."""
    return mask[:, None].expand(-1, heads, -1, -1).flatten(0, 1)
