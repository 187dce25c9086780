"""Recurrent encoders: the source word by word, in one direction or both."""

from __future__ import annotations

from torch import Tensor, nn

from mt.models.config import ModelConfig
from mt.models.embedding import Embedding
from mt.models.encoded import Encoded
from mt.nn.recurrent import BidirectionalLayer, Recurrence, reverse
from mt.nn.recurrent_stack import RECURRENCES, RecurrentStack

RESIDUAL_FROM = 2
"""Residual connections begin at the third layer (Wu et al. 2016, section 3.2)."""


class RecurrentEncoder(nn.Module):
    """A stack of recurrent layers.

    `encoder.bidirectional` says which of them are: `none` (Sutskever et al. 2014), `all` (Bahdanau et al. 2014) or the
    `first` (Wu et al. 2016). Either direction has the width D / 2, so that each word's state has D.
    """

    embedding = Embedding

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.reverse_source = config.encoder.reverse_source
        residual_from = RESIDUAL_FROM if config.encoder.residual else None
        self.stack = RecurrentStack(_layers(config), config.dropout, residual_from)

    def forward(self, x: Tensor, mask: Tensor) -> Encoded:
        """Embedded source `x` (B, S, D) with `mask` (B, S).

        With `reverse_source` all words but the end mark are read backwards (Sutskever et al. 2014, section 3.3); the
        memory is in the order of the source all the same.
        """
        if self.reverse_source:
            x = reverse(x, mask, keep_last=True)
        memory, final = self.stack(x, self.stack.nothing(x), mask=mask)
        if self.reverse_source:
            memory = reverse(memory, mask, keep_last=True)
        empty = ~mask.any(1, keepdim=True)
        return Encoded(memory, mask, tuple(tuple(part.masked_fill(empty, 0) for part in state) for state in final))


def _layers(config: ModelConfig) -> list[Recurrence]:
    kind, dim = config.encoder.type, config.dim
    both = {"none": 0, "first": 1, "all": config.encoder.layers}[config.encoder.bidirectional]
    return [
        BidirectionalLayer(kind, dim, dim) if index < both else RECURRENCES[kind](dim, dim)
        for index in range(config.encoder.layers)
    ]
