"""How recurrent decoders begin, and what they remember between two steps."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mt.models.config import ModelConfig
from mt.models.encoded import Encoded
from mt.models.memory import Memory
from mt.nn.linear import Linear
from mt.nn.recurrent import LayerState


@dataclass(frozen=True)
class RecurrentState:
    """A fixed number of vectors a hypothesis, however much it has read (LSTM and GRU)."""

    position: int
    """Target tokens read."""
    layers: tuple[LayerState, ...]
    carried: Tensor | None = None
    """(N, D): what each step reads beside its token: the summary of the source, or the last attentional vector."""
    memory: Memory | None = None
    attention: Tensor | None = None
    """(N, S): see `mt.seq2seq.Attentive`."""

    def after(
        self, layers: tuple[LayerState, ...], weights: Tensor | None = None, carried: Tensor | None = None
    ) -> RecurrentState:
        """The state after one more token, which was read with attention `weights` (N, S)."""
        attention = None if self.attention is None else weights
        return RecurrentState(self.position + 1, layers, carried, self.memory, attention)

    def select(self, rows: Tensor) -> RecurrentState:
        """Keep `rows` (N',), in that order."""
        return RecurrentState(
            self.position,
            tuple(tuple(part.index_select(0, rows) for part in layer) for layer in self.layers),
            None if self.carried is None else self.carried.index_select(0, rows),
            None if self.memory is None else self.memory.select(rows),
            None if self.attention is None else self.attention.index_select(0, rows),
        )


class Bridge(nn.Module):
    """From a source to the states with which a decoder's layers begin, `parts` tensors (B, D) each.

    `decoder.initial` is `state`: each layer goes on where the encoder's layer ended (Sutskever et al. 2014); or
    `summary`: each tensor is tanh(W s) of a summary s of the source (Cho et al. 2014, appendix A.1; Bahdanau et al.
    2014, appendix A.2.2, whose s is the backward state alone), which any encoder has.
    """

    def __init__(self, config: ModelConfig, parts: int) -> None:
        super().__init__()
        self.parts = parts
        self.project = None
        if config.decoder.initial == "summary":
            self.project = Linear(config.dim, config.decoder.layers * parts * config.dim)
            for weight in self.project.weight.chunk(config.decoder.layers * parts):
                nn.init.xavier_uniform_(weight)
            nn.init.zeros_(self.project.bias)

    def forward(self, encoded: Encoded) -> list[LayerState]:
        """The states of all layers, bottom first."""
        if self.project is None:
            return list(encoded.final)
        tensors = self.project(encoded.summary).tanh().chunk(self.project.out_features // encoded.memory.size(-1), -1)
        return [tuple(tensors[start : start + self.parts]) for start in range(0, len(tensors), self.parts)]


class Maxout(nn.Module):
    """The larger of each pair of W [x_1; x_2; ...] (Goodfellow et al. 2013): the deep output of Cho and Bahdanau."""

    def __init__(self, dim: int, inputs: int) -> None:
        super().__init__()
        self.linear = Linear(inputs * dim, 2 * dim)
        nn.init.xavier_uniform_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Tensors (..., D) -> (..., D)."""
        pairs: Tensor = self.linear(torch.cat(inputs, -1)).unflatten(-1, (-1, 2))
        return pairs.amax(-1)
