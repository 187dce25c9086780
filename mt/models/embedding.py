"""From token ids to vectors."""

from __future__ import annotations

import math

from torch import Tensor, nn

from mt.models.config import ModelConfig
from mt.models.parts import positions
from mt.nn.dropout import dropout
from mt.nn.places import Places


def token_table(config: ModelConfig, vocab: int, pad: int) -> nn.Embedding:
    """A vector (D,) a token, of variance 1 / D; that of `pad` is 0 and learns nothing."""
    table = nn.Embedding(vocab, config.dim, padding_idx=pad)
    nn.init.normal_(table.weight, std=config.dim**-0.5)
    nn.init.zeros_(table.weight[pad])
    return table


class Embedding(nn.Module):
    """A token's vector times sqrt(D), with dropout: what recurrences read, which have an order of their own.

    So what is read has numbers of variance 1 at first, and learns fast, while one table may serve the output layer too.
    """

    def __init__(self, config: ModelConfig, tokens: nn.Embedding) -> None:
        super().__init__()
        self.tokens = tokens
        self.dropout, self.word_dropout = config.dropout, config.word_dropout
        self.scale = math.sqrt(config.dim)

    def forward(self, tokens: Tensor, offset: int = 0) -> Tensor:  # noqa: ARG002 (the sign of PositionedEmbedding)
        """`tokens` (B, T) int64, the first of them at position `offset` -> (B, T, D)."""
        return dropout(self._read(tokens), self.dropout, self.training)

    def _read(self, tokens: Tensor) -> Tensor:
        x: Tensor = self.tokens(tokens) * self.scale
        if not self.training or self.word_dropout == 0:
            return x
        return x * dropout(x.new_ones(*tokens.shape, 1), self.word_dropout, training=True)


class ScaledEmbedding(Embedding):
    """Token vectors times sqrt(D), for stacks that do the rest themselves."""

    def forward(self, tokens: Tensor, offset: int = 0) -> Tensor:  # noqa: ARG002
        """`tokens` (B, T) int64 -> (B, T, D)."""
        return self._read(tokens)


class PositionedEmbedding(Embedding):
    """Token vectors times sqrt(D), plus positions, with dropout (Vaswani et al. 2017, sections 3.4, 3.5 and 5.4)."""

    def __init__(self, config: ModelConfig, tokens: nn.Embedding) -> None:
        super().__init__(config, tokens)
        self.positions = positions(config)

    def forward(self, tokens: Tensor, offset: int = 0) -> Tensor:
        """`tokens` (B, T) int64, the first of them at position `offset` -> (B, T, D)."""
        return self.at(tokens, Places.following(offset, tokens.size(1), tokens.device))

    def at(self, tokens: Tensor, places: Places) -> Tensor:
        """`tokens` (B, T) int64 at `places` -> (B, T, D)."""
        x = self.positions.embed(self._read(tokens), places)
        return dropout(x, self.dropout, self.training)
