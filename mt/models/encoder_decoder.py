"""An encoder, a decoder, embeddings and an output layer: the model that most recipes train."""

from __future__ import annotations

import math

from torch import Tensor, nn

from mt.data.batching import Batch
from mt.errors import ConfigError
from mt.models.config import ModelConfig
from mt.models.transformer import TransformerDecoder, TransformerEncoder, TransformerState
from mt.nn.dropout import dropout
from mt.nn.positions import POSITIONS, SinusoidalPositions

ENCODERS = {"transformer": TransformerEncoder}
DECODERS = {"transformer": TransformerDecoder}


class EncoderDecoder(nn.Module):
    """p(target | source): the `Seq2Seq` of mt/seq2seq.py."""

    def __init__(self, config: ModelConfig, src_embedding: Embedding, tgt_embedding: Embedding) -> None:
        super().__init__()
        self.src_embedding = src_embedding
        self.tgt_embedding = tgt_embedding
        self.encoder = ENCODERS[config.encoder.type](config)
        self.decoder = DECODERS[config.decoder.type](config)
        self.output = nn.Linear(config.dim, tgt_embedding.tokens.num_embeddings, bias=False)
        if config.tie in ("output", "all"):
            self.output.weight = tgt_embedding.tokens.weight
        else:
            nn.init.normal_(self.output.weight, std=config.dim**-0.5)

    @classmethod
    def build(cls, config: ModelConfig, src_vocab: int, tgt_vocab: int, pad: int) -> EncoderDecoder:
        """Build and initialise.

        Raises:
            ConfigError: the embeddings are tied, but the vocabularies' sizes differ.
        """
        shared = config.tie in ("src_tgt", "all")
        if shared and src_vocab != tgt_vocab:
            raise ConfigError(
                f"model.tie {config.tie} makes the embeddings of source and target one, but the source vocabulary has "
                f"{src_vocab} entries and the target vocabulary {tgt_vocab}: train one shared vocabulary, or set "
                "model.tie to output or none."
            )
        src_embedding = Embedding(config, src_vocab, pad)
        return cls(config, src_embedding, src_embedding if shared else Embedding(config, tgt_vocab, pad))

    def forward(self, batch: Batch) -> Tensor:
        """Logits (B, T, V) of each next target token."""
        out: Tensor = self.output(self.hidden(batch))
        return out

    def hidden(self, batch: Batch) -> Tensor:
        """Decoder states (B, T, D) before the output layer."""
        memory = self.encoder(self.src_embedding(batch.src), batch.src_mask)
        out: Tensor = self.decoder(self.tgt_embedding(batch.tgt_in), memory, batch.src_mask)
        return out

    def start(self, src: Tensor, src_mask: Tensor, attention: bool = False) -> TransformerState:
        """Encode `src` (B, S) with `src_mask` (B, S): the state before the first target token.

        With `attention` each state says where its step looked.
        """
        return self.decoder.start(self.encoder(self.src_embedding(src), src_mask), src_mask, attention)

    def step(self, tokens: Tensor, state: TransformerState) -> tuple[Tensor, TransformerState]:
        """Log-probabilities (N, V) float32 after reading `tokens` (N,), and the state after them."""
        x = self.tgt_embedding(tokens.unsqueeze(1), offset=state.position)
        hidden, state = self.decoder.step(x, state)
        return self.output(hidden.squeeze(1)).float().log_softmax(-1), state


class Embedding(nn.Module):
    """Token embeddings times sqrt(D), plus positions, with dropout (Vaswani et al. 2017, sections 3.4, 3.5 and 5.4)."""

    def __init__(self, config: ModelConfig, vocab: int, pad: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocab, config.dim, padding_idx=pad)
        self.positions: SinusoidalPositions = POSITIONS[config.positions](config.dim, config.position_base)
        self.scale = math.sqrt(config.dim)
        self.dropout = config.dropout
        nn.init.normal_(self.tokens.weight, std=config.dim**-0.5)
        nn.init.zeros_(self.tokens.weight[pad])

    def forward(self, tokens: Tensor, offset: int = 0) -> Tensor:
        """`tokens` (B, T) int64, the first of them at position `offset` -> (B, T, D)."""
        x = self.positions.embed(self.tokens(tokens) * self.scale, offset)
        return dropout(x, self.dropout, self.training)
