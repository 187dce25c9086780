"""A trained model in the form in which a search on a CPU is fastest: the same function, with weights packed once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, cast

import torch
from torch import Tensor, nn

from mt.errors import ConfigError
from mt.models.encoder_decoder import EncoderDecoder
from mt.models.fast_model import FastLanguageModel, FastModel, FastTransformer
from mt.nn.attention import MultiHeadAttention, Projections
from mt.nn.linear import products_by
from mt.nn.packed import PACKINGS, PackedProducts, output_packing
from mt.nn.places import Positions
from mt.nn.self_attention import SelfAttention

# encoder.type and decoder.type -> the fast form, where attention is of the kinds that it knows.
FORMS: dict[tuple[str, str], type[FastModel]] = {
    ("transformer", "transformer"): FastTransformer,
    ("none", "language_model"): FastLanguageModel,
}


class Decoding(Protocol):
    """What a search needs of a model: `Seq2Seq` without training or gradients."""

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
    if isinstance(model, EncoderDecoder) and _on_cpu(model):
        return (fast_form(model) or PackedModel)(model, precision)
    if precision != "fp32":
        raise ConfigError(f"decode.precision {precision} is for models on a CPU; leave it at fp32.")
    return cast(Decoding, model)


def fast_form(model: nn.Module) -> type[FastModel] | None:
    """What computes the function of `model` in fewer and larger operations."""
    if type(model) is not EncoderDecoder or not _on_cpu(model):
        return None
    if not all(_is_known(part) for part in model.modules() if isinstance(part, Projections)):
        return None
    return FORMS.get((model.config.encoder.type, model.config.decoder.type))


def _on_cpu(model: EncoderDecoder) -> bool:
    return model.output.weight.is_cpu and model.output.weight.dtype == torch.float32


def _is_known(attention: Any) -> bool:
    """Whether it attends to everything, by products of queries and keys alone: without windows, or biases of scores."""
    if type(attention) is MultiHeadAttention:
        return True
    if type(attention) is not SelfAttention or attention.window is not None:
        return False
    return type(attention.positions).bias is Positions.bias


class PackedModel:
    """The `start` and `step` of any other trained model: as they are, with packed weights."""

    def __init__(self, model: EncoderDecoder, precision: str = "fp32") -> None:
        """Pack `model`, whose weights must not change while it is used.

        Raises:
            ConfigError: this PyTorch cannot compute in that precision.
        """
        self._model = model
        self._inner, self._output = PackedProducts(PACKINGS[precision]), PackedProducts(output_packing(precision))

    @torch.no_grad()
    def start(self, src: Tensor, src_mask: Tensor, attention: bool = False) -> Any:
        """As `Seq2Seq`."""
        with products_by(self._inner):
            return self._model.start(src, src_mask, attention)

    @torch.no_grad()
    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """As `Seq2Seq`: log-probabilities (N, V) float32 after reading `tokens` (N,), and the state after them."""
        with products_by(self._inner):
            hidden, state = self._model.read(tokens, state)
        logits = self._output(hidden, self._model.output.weight, self._model.output.bias)
        return torch.log_softmax(logits, -1, out=logits), state
