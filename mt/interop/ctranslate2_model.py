"""A trained Transformer as the specification that CTranslate2 writes and runs: the project's own conversion.

Nothing is assumed about a key of the recipe's `model` block: what is not in `RUNS` must stand at its default, so that a
new kind of model is refused with its reason until somebody converts it here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mt.config import as_yaml, leaves, to_mapping
from mt.errors import ConfigError
from mt.models.config import ModelConfig
from mt.models.encoder_decoder import EncoderDecoder
from mt.nn.sinusoids import sinusoids
from mt.text.tokenizer import Tokenizers

POSITIONS = 4096
"""Rows of the exported table of positions. The engine has no way to grow it, so longer texts are split, or cut."""

ACTIVATIONS = {"relu": ("RELU", False), "gelu": ("GELU", False), "swiglu": ("SWISH", True)}
"""Our name -> that of `ctranslate2.specs.Activation`, and whether a second product gates it."""

# What CTranslate2 can run: key of the model block -> the values that are converted, None for every one.
RUNS: dict[str, tuple[Any, ...] | None] = {
    "preset": None,
    "encoder.type": ("transformer",),
    "encoder.layers": None,
    "decoder.type": ("transformer",),
    "decoder.layers": None,
    "dim": None,
    "ffn_dim": None,
    "heads": None,
    "norm_position": ("pre", "post"),
    "positions": ("sinusoidal",),
    "position_base": None,
    "activation": tuple(ACTIVATIONS),
    "init": None,
    "init_scale": None,
    "dropout": None,
    "attention_dropout": None,
    "activation_dropout": None,
    "tie": None,
}


def check_model(config: ModelConfig) -> None:
    """Refuse a model that the engine cannot run, or that nobody has converted.

    Raises:
        ConfigError: with the first such key, its value, and the values that can be exported.
    """
    refuse("model", to_mapping(config), to_mapping(ModelConfig()), RUNS)


def refuse(
    block: str, settings: Mapping[str, Any], defaults: Mapping[str, Any], runs: dict[str, tuple[Any, ...] | None]
) -> None:
    """Refuse a key of a block with a value that is not in `runs`; a key that is not there must be at its default.

    Raises:
        ConfigError: the key, its value, and what is possible.
    """
    at_default = dict(leaves(defaults))
    for key, value in leaves(settings):
        allowed = runs.get(key, (at_default.get(key),))
        if allowed is not None and value not in allowed:
            words = " or ".join(map(as_yaml, allowed))
            raise ConfigError(
                f"{block}.{key} is {as_yaml(value)}, which cannot be run by CTranslate2: with it {block}.{key} must "
                f"be {words}. Translate without it."
            )


def specification(model: EncoderDecoder, config: ModelConfig, tokenizers: Tokenizers) -> Any:
    """The `ctranslate2.specs.TransformerSpec` of `model`, with vocabularies and marks; the weights are float32.

    Raises:
        ConfigError: as `check_model`.
    """
    from ctranslate2 import specs

    check_model(config)
    activation, gated = ACTIVATIONS[config.activation]
    spec = specs.TransformerSpec.from_config(
        (config.encoder.layers, config.decoder.layers),
        config.heads,
        pre_norm=config.norm_position == "pre",
        activation=getattr(specs.Activation, activation),
        ffn_glu=gated,
    )
    _set_embedding(spec.encoder, spec.encoder.embeddings[0], model.src_embedding, config)
    _set_embedding(spec.decoder, spec.decoder.embeddings, model.tgt_embedding, config)
    encoder: Any = model.encoder
    decoder: Any = model.decoder
    for target, layer in zip(spec.encoder.layer, encoder.layers, strict=True):
        _set_encoder_layer(target, layer)
    for target, layer in zip(spec.decoder.layer, decoder.layers, strict=True):
        _set_decoder_layer(target, layer)
    if config.norm_position == "pre":
        _set_norm(spec.encoder.layer_norm, encoder.norm)
        _set_norm(spec.decoder.layer_norm, decoder.norm)
    spec.decoder.projection.weight = _array(model.output.weight)
    _set_vocabularies(spec, tokenizers)
    return spec


def _set_vocabularies(spec: Any, tokenizers: Tokenizers) -> None:
    """Ids keep their places, and marks are named by the vocabulary; sources get their end mark, as in training."""
    src, tgt = tokenizers.src, tokenizers.tgt
    spec.register_source_vocabulary(src.pieces)
    spec.register_target_vocabulary(tgt.pieces)
    spec.config.unk_token = tgt.pieces[tgt.unk]
    spec.config.bos_token = tgt.pieces[tgt.bos]
    spec.config.eos_token = tgt.pieces[tgt.eos]
    spec.config.decoder_start_token = tgt.pieces[tgt.bos]
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = 1e-5


def _set_embedding(stack: Any, target: Any, embedding: nn.Module, config: ModelConfig) -> None:
    target.weight = _array(embedding.tokens.weight)  # type: ignore[arg-type, union-attr]
    stack.scale_embeddings = True  # by sqrt(D)
    stack.position_encodings.encodings = sinusoids(POSITIONS, config.dim, config.position_base).numpy()


def _set_encoder_layer(target: Any, layer: Any) -> None:
    _set_self_attention(target.self_attention, layer.attention, layer.attention_residual)
    _set_feed_forward(target.ffn, layer.feed_forward, layer.feed_forward_residual)


def _set_decoder_layer(target: Any, layer: Any) -> None:
    _set_self_attention(target.self_attention, layer.self_attention, layer.self_residual)
    query, key_value, out = target.attention.linear
    _set_linear(query, layer.source_attention.query)
    _set_linear(key_value, layer.source_attention.key_value)
    _set_linear(out, layer.source_attention.out)
    _set_norm(target.attention.layer_norm, layer.source_residual.norm)
    _set_feed_forward(target.ffn, layer.feed_forward, layer.feed_forward_residual)


def _set_self_attention(target: Any, attention: Any, residual: Any) -> None:
    """Query, key and value are one product there."""
    query_key_value, out = target.linear
    query_key_value.weight = _array(torch.cat((attention.query.weight, attention.key_value.weight)))
    query_key_value.bias = _array(torch.cat((attention.query.bias, attention.key_value.bias)))
    _set_linear(out, attention.out)
    _set_norm(target.layer_norm, residual.norm)


def _set_feed_forward(target: Any, feed_forward: Any, residual: Any) -> None:
    weights, biases = feed_forward.inner.weight, feed_forward.inner.bias
    inner = [target.linear_0, target.linear_0_noact] if feed_forward.gated else [target.linear_0]
    for linear, weight, bias in zip(inner, weights.chunk(len(inner)), biases.chunk(len(inner)), strict=True):
        linear.weight, linear.bias = _array(weight), _array(bias)
    _set_linear(target.linear_1, feed_forward.outer)
    _set_norm(target.layer_norm, residual.norm)


def _set_linear(target: Any, linear: nn.Linear) -> None:
    target.weight, target.bias = _array(linear.weight), _array(linear.bias)


def _set_norm(target: Any, norm: Any) -> None:
    target.gamma, target.beta = _array(norm.weight), _array(norm.bias)


def _array(tensor: Tensor) -> NDArray[np.float32]:
    """A float32 array; the engine finds tied matrices by their equality and stores them once."""
    return np.ascontiguousarray(tensor.detach().float().cpu().numpy())
