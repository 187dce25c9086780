"""The recipe's `model` block. It imports no torch: recipes are read and checked before any is needed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mt.config import option
from mt.errors import ConfigError

if TYPE_CHECKING:
    from mt.models.encoder_decoder import EncoderDecoder

STACKS = ("transformer",)
TIES = ("none", "output", "src_tgt", "all")

# A preset is a named combination: the recipe's own keys are laid over it.
PRESETS: dict[str, dict[str, Any]] = {
    # Transformer-Tiny of Wu et al. 2021, "Good for Misconceived Reasons", section 4.1.
    "transformer_tiny": {
        "encoder": {"layers": 4},
        "decoder": {"layers": 4},
        "dim": 128,
        "ffn_dim": 256,
        "heads": 4,
        "dropout": 0.3,
    },
    "transformer_small": {"dim": 512, "ffn_dim": 1024, "heads": 4, "dropout": 0.3},
    # Vaswani et al. 2017, table 3.
    "transformer_base": {"dim": 512, "ffn_dim": 2048, "heads": 8, "dropout": 0.1},
    "transformer_big": {"dim": 1024, "ffn_dim": 4096, "heads": 16, "dropout": 0.3},
}


@dataclass(frozen=True)
class StackConfig:
    """One of the two stacks of layers."""

    type: str = option("transformer", help="kind of the stack's layers", choices=STACKS)
    layers: int = option(6, help="number of layers", ge=1)


@dataclass(frozen=True)
class ModelConfig:
    """What is trained. `preset` names a combination; every other key given here is laid over it."""

    preset: str | None = option(None, help="named combination to start from", choices=tuple(PRESETS))
    encoder: StackConfig = field(default_factory=StackConfig)
    decoder: StackConfig = field(default_factory=StackConfig)
    dim: int = option(512, help="width D of embeddings and layers", ge=2)
    ffn_dim: int = option(2048, help="width F of the feed-forward layers", ge=1)
    heads: int = option(8, help="attention heads H; D must be a multiple of H", ge=1)
    norm_position: str = option(
        "post",
        help="layer norm after each residual sum (Vaswani et al. 2017) or before each part",
        choices=("post", "pre"),
    )
    positions: str = option("sinusoidal", help="how positions reach the model", choices=("sinusoidal",))
    position_base: float = option(10000.0, help="N of the sinusoids: wavelengths run from 2 pi to 2 pi N", gt=1)
    activation: str = option("relu", help="of the feed-forward layers", choices=("relu", "gelu", "swiglu"))
    dropout: float = option(0.1, help="on embeddings and on the output of each part", ge=0, lt=1)
    attention_dropout: float = option(0.0, help="on attention weights", ge=0, lt=1)
    activation_dropout: float = option(0.0, help="inside the feed-forward layers", ge=0, lt=1)
    tie: str = option(
        "all",
        help="matrices that are one: none, output (target embedding and output layer), src_tgt (both embeddings), all",
        choices=TIES,
    )

    def __post_init__(self) -> None:
        if self.dim % self.heads:
            raise ConfigError(f"model.dim ({self.dim}) must be a multiple of model.heads ({self.heads}).")

    def build(self, src_vocab: int, tgt_vocab: int, pad: int) -> EncoderDecoder:
        """Build the model, freshly initialised from torch's global generator."""
        from mt.models.encoder_decoder import EncoderDecoder

        return EncoderDecoder.build(self, src_vocab, tgt_vocab, pad)
