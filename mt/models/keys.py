"""Which keys of the `model` block each type of stack reads; a key that nothing reads is refused, not ignored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mt.config import as_yaml, default_of
from mt.errors import ConfigError

if TYPE_CHECKING:
    from mt.models.config import ModelConfig

_RECURRENT_DECODER = {"decoder.residual", "decoder.context", "decoder.initial", "decoder.maxout"}
_RECURRENT_DECODER |= {
    "decoder.attention",
    "decoder.heads",
    "decoder.window",
    "decoder.window_size",
    "decoder.input_feeding",
}
_TRANSFORMER = {"ffn_dim", "heads", "kv_heads", "norm", "norm_position", "activation", "bias", "layer_drop"}
_TRANSFORMER |= {"positions", "position_base", "max_positions", "attention_window"}
_TRANSFORMER |= {"attention_dropout", "activation_dropout"}
_STACK = {"encoder.layers"}
_RECURRENT_ENCODER = _STACK | {"encoder.residual", "encoder.reverse_source"}

# type -> the keys that it reads beside those that all read.
ENCODER_KEYS: dict[str, set[str]] = {
    "transformer": _STACK | _TRANSFORMER,
    "lstm": _RECURRENT_ENCODER | {"encoder.bidirectional"},
    "gru": _RECURRENT_ENCODER | {"encoder.bidirectional"},
    "intra_attention": _RECURRENT_ENCODER,
    "none": set(),
    "decomposable": _STACK | {"ffn_dim", "activation", "bias", "attention_dropout", "activation_dropout"},
}
DECODER_KEYS: dict[str, set[str]] = {
    "transformer": _TRANSFORMER,
    "ssru": _TRANSFORMER - {"attention_window"},
    "language_model": _TRANSFORMER | {"decoder.prefix"},
    "lstm": _RECURRENT_DECODER,
    "gru": _RECURRENT_DECODER,
    "intra_attention": _RECURRENT_DECODER,
}


OPTIONAL: set[str] = set().union(*ENCODER_KEYS.values(), *DECODER_KEYS.values())


def keys_read(config: ModelConfig) -> set[str]:
    """The optional keys that the model reads."""
    read = ENCODER_KEYS[config.encoder.type] | DECODER_KEYS[config.decoder.type]
    return read | ({"attention_dropout"} if config.decoder.attention is not None else set())


def attends(config: ModelConfig) -> bool:
    """Whether the decoder looks at the source position by position."""
    return "decoder.attention" not in DECODER_KEYS[config.decoder.type] or config.decoder.attention is not None


def refuse_unread(config: ModelConfig) -> None:
    """Refuse a key that neither stack reads, where it is not at its default."""
    encoder, decoder = config.encoder.type, config.decoder.type
    for key in sorted(OPTIONAL - keys_read(config)):
        owner: Any = config
        *block, name = key.split(".")
        for part in block:
            owner = getattr(owner, part)
        value, default = getattr(owner, name), default_of(type(owner), name)
        if value != default:
            raise ConfigError(
                f"model.{key} {as_yaml(value)} is not for an encoder of type {encoder} and a decoder of type {decoder}"
                f": leave it at {as_yaml(default)}, or choose another model.encoder.type or model.decoder.type."
            )
