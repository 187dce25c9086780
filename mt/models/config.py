"""The recipe's `model` block. It imports no torch: recipes are read and checked before any is needed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mt.config import option, refuse_idle
from mt.errors import ConfigError
from mt.models.keys import DECODER_KEYS, ENCODER_KEYS, keys_read, refuse_unread
from mt.models.presets import PRESETS

if TYPE_CHECKING:
    from mt.models.encoder_decoder import EncoderDecoder

TIES = ("none", "output", "src_tgt", "all")


@dataclass(frozen=True)
class EncoderConfig:
    """The stack of layers that reads the source."""

    type: str = option("transformer", help="kind of the encoder's layers", choices=tuple(ENCODER_KEYS))
    layers: int = option(6, help="number of layers", ge=1)
    bidirectional: str = option(
        "none",
        help="which recurrent layers read in both directions, each of half the width",
        choices=("none", "first", "all"),
    )
    residual: bool = option(False, help="recurrent layers from the third on add what they read to what they give")
    reverse_source: bool = option(False, help="read the words backwards (Sutskever et al. 2014)")


_ATTENDING = ("bottom", "top")
_OF_CONTEXTS = {
    "heads": _ATTENDING,
    "window": _ATTENDING,
    "input_feeding": ("top",),
    "maxout": ("none", "summary", "bottom"),
}


@dataclass(frozen=True)
class DecoderConfig:
    """The stack of layers that writes the target."""

    type: str = option("transformer", help="kind of the decoder's layers", choices=tuple(DECODER_KEYS))
    layers: int = option(6, help="number of layers", ge=1)
    prefix: str = option(
        "causal",
        help="what a language model's source positions see: what came before (causal), or all of the source (full: the "
        "prefix LM of T5)",
        choices=("causal", "full"),
    )
    context: str = option(
        "none",
        help="what a recurrent decoder's step gets of the source: none, a summary of it, or the answer of attention "
        "for which the bottom layer's last state (Bahdanau et al. 2014) or the top layer's new one (Luong et al. 2015) "
        "asks",
        choices=("none", "summary", "bottom", "top"),
    )
    attention: str | None = option(
        None,
        help="score of a recurrent decoder's attention, with context bottom or top",
        choices=("additive", "dot", "general", "concat"),
    )
    heads: int = option(1, help="heads H of that attention; D must be a multiple of H", ge=1)
    window: str = option(
        "global",
        help="source positions that are attended to: all, or those around the target's own position (local_m) or "
        "around a predicted one (local_p) (Luong et al. 2015)",
        choices=("global", "local_m", "local_p"),
    )
    window_size: int = option(10, help="positions of a local window on each side of its centre", ge=1)
    input_feeding: bool = option(False, help="with context top: the last step's answer is an input of the next")
    initial: str = option(
        "summary",
        help="state of a recurrent decoder before its first step: a projection of a summary of the source, or the "
        "encoder's last state, layer by layer",
        choices=("summary", "state"),
    )
    residual: bool = option(False, help="recurrent layers from the third on add what they read to what they give")
    maxout: bool = option(False, help="a maxout layer over state, token and context before the output layer")

    def __post_init__(self) -> None:
        attends = self.context in _ATTENDING
        if attends != (self.attention is not None):
            raise ConfigError(
                f"model.decoder.attention {self.attention or 'null'} does not go with model.decoder.context "
                f"{self.context}: contexts bottom and top need a score (additive, dot, general or concat), none and "
                "summary have no attention."
            )
        refuse_idle(self, "model.decoder", "context", _OF_CONTEXTS)
        refuse_idle(self, "model.decoder", "window", {"window_size": ("local_m", "local_p")})


_OF_POSITIONS = {"max_positions": ("learned",), "position_base": ("sinusoidal", "rotary")}


@dataclass(frozen=True)
class ModelConfig:
    """What is trained. `preset` names a combination; every other key given here is laid over it."""

    preset: str | None = option(
        None,
        help="named combination to start from, in place of the model block of what the recipe extends",
        choices=tuple(PRESETS),
    )
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    decoder: DecoderConfig = field(default_factory=DecoderConfig)
    dim: int = option(512, help="width D of embeddings and layers", ge=2)
    ffn_dim: int = option(2048, help="width F of the feed-forward layers", ge=1)
    heads: int = option(8, help="attention heads H of a Transformer; D must be a multiple of H", ge=1)
    kv_heads: int | None = option(
        None, help="heads of keys and values, which heads of queries share in groups; null: as many as heads", ge=1
    )
    norm: str = option(
        "layer", help="layer (Ba et al. 2016) or rms (Zhang and Sennrich 2019)", choices=("layer", "rms")
    )
    norm_position: str = option(
        "post",
        help="the norm after each residual sum (Vaswani et al. 2017) or before each part",
        choices=("post", "pre"),
    )
    positions: str = option(
        "sinusoidal",
        help="added to embeddings: sinusoidal, learned; inside attention: rotary (Su et al. 2021), alibi (Press et al. "
        "2022), relative (Shaw et al. 2018), buckets (T5); or none",
        choices=("sinusoidal", "learned", "rotary", "alibi", "relative", "buckets", "none"),
    )
    position_base: float = option(
        10000.0, help="N of sinusoidal and rotary positions: wavelengths run from 2 pi to 2 pi N", gt=1
    )
    max_positions: int = option(
        1024, help="learned positions; what is longer is split or cut, as decode.long_source has it", ge=1
    )
    attention_window: int | None = option(
        None, help="a Transformer's positions see so many on each side; null: all", ge=1
    )
    activation: str = option("relu", help="of the feed-forward layers", choices=("relu", "gelu", "swiglu", "geglu"))
    bias: bool = option(True, help="biases in a Transformer's linear layers and layer norms")
    dropout: float = option(0.1, help="on embeddings and on the output of each part", ge=0, lt=1)
    attention_dropout: float = option(0.0, help="on attention weights", ge=0, lt=1)
    activation_dropout: float = option(0.0, help="inside the feed-forward layers", ge=0, lt=1)
    word_dropout: float = option(
        0.0, help="share of tokens of source and target whose embedding is read as 0 in training", ge=0, lt=1
    )
    layer_drop: float = option(0.0, help="share of a Transformer's layers left out in training", ge=0, lt=1)
    tie: str = option(
        "all",
        help="matrices that are one: none, output (target embedding and output layer), src_tgt (both embeddings), all",
        choices=TIES,
    )
    init: str = option(
        "parts",
        help="how weights begin: parts (each part's own way), uniform (all within init_scale), normal (deviation "
        "init_scale, recurrences orthogonal; Bahdanau et al. 2014)",
        choices=("parts", "uniform", "normal"),
    )
    init_scale: float = option(0.1, help="greatest weight of init uniform, deviation of init normal", gt=0)

    def __post_init__(self) -> None:
        refuse_unread(self)
        if "heads" in keys_read(self):
            self._check_heads()
            self._check_positions()
        self._check_language_model()
        if self.dim % self.decoder.heads:
            raise ConfigError(
                f"model.dim ({self.dim}) must be a multiple of model.decoder.heads ({self.decoder.heads})."
            )
        if self.encoder.bidirectional != "none" and self.dim % 2:
            raise ConfigError(
                f"model.dim ({self.dim}) must be even with model.encoder.bidirectional {self.encoder.bidirectional}: "
                "each direction has half of it."
            )
        if self.decoder.initial == "state" and self._layers(self.encoder) != self._layers(self.decoder):
            raise ConfigError(
                "model.decoder.initial state needs an encoder of the decoder's type and layers, but "
                f"model.encoder has {self._layers(self.encoder)} and model.decoder {self._layers(self.decoder)}: make "
                "them alike, or set model.decoder.initial to summary."
            )

    def _check_language_model(self) -> None:
        if (self.encoder.type == "none") != (self.decoder.type == "language_model"):
            raise ConfigError(
                "model.encoder.type none and model.decoder.type language_model go together: the source is read by the "
                f"decoder, or by an encoder; but the types are {self.encoder.type} and {self.decoder.type}."
            )
        if self.decoder.type == "language_model" and self.tie not in ("src_tgt", "all"):
            raise ConfigError(
                f"model.tie {self.tie}: a language model reads source and target with one embedding; set it to src_tgt "
                "or all."
            )

    def _check_heads(self) -> None:
        if self.dim % self.heads:
            raise ConfigError(f"model.dim ({self.dim}) must be a multiple of model.heads ({self.heads}).")
        if self.kv_heads is not None and self.heads % self.kv_heads:
            raise ConfigError(f"model.heads ({self.heads}) must be a multiple of model.kv_heads ({self.kv_heads}).")

    def _check_positions(self) -> None:
        refuse_idle(self, "model", "positions", _OF_POSITIONS)
        if self.positions == "rotary" and self.dim // self.heads % 2:
            raise ConfigError(
                f"model.positions rotary turns pairs: model.dim / model.heads ({self.dim // self.heads}) must be even."
            )

    def build(self, src_vocab: int, tgt_vocab: int, pad: int) -> EncoderDecoder:
        """Build the model, freshly initialised from torch's global generator."""
        from mt.models.encoder_decoder import EncoderDecoder

        return EncoderDecoder.build(self, src_vocab, tgt_vocab, pad)

    def _layers(self, stack: EncoderConfig | DecoderConfig) -> str:
        return f"{stack.layers} of {stack.type}"
