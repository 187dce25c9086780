"""Recurrent decoders with attention: who asks the source, and where the answer goes."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from mt.models.config import ModelConfig
from mt.models.embedding import Embedding
from mt.models.encoded import Encoded
from mt.models.memory import Memory
from mt.models.recurrent_encoder import RESIDUAL_FROM
from mt.models.recurrent_state import Bridge, Maxout, RecurrentState
from mt.nn.dropout import dropout
from mt.nn.loops import StepLinear, loop
from mt.nn.recurrent import LayerState
from mt.nn.recurrent_stack import RECURRENCES, RecurrentStack
from mt.nn.source_attention import SourceAttention


def recurrent_stack(config: ModelConfig, input_dim: int, context_dim: int) -> RecurrentStack:
    """A decoder's layers; the bottom one reads `input_dim` numbers, and each `context_dim` more."""
    inputs = [input_dim, *[config.dim] * (config.decoder.layers - 1)]
    layers = [RECURRENCES[config.decoder.type](width + context_dim, config.dim) for width in inputs]
    return RecurrentStack(layers, config.dropout, RESIDUAL_FROM if config.decoder.residual else None)


class AttentionDecoder(nn.Module):
    """What decoders with attention to the source share."""

    embedding = Embedding

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        decoder = config.decoder
        assert decoder.attention is not None
        self.attention = SourceAttention(
            config.dim, decoder.attention, decoder.window, decoder.window_size, config.attention_dropout, decoder.heads
        )
        self.dropout = config.dropout

    def _begin(self, encoded: Encoded, layers: tuple[LayerState, ...], attention: bool) -> RecurrentState:
        memory = Memory.start([self.attention.keys_values(encoded.memory)], encoded.mask)
        looked = torch.zeros(encoded.mask.shape, device=encoded.mask.device) if attention else None
        return RecurrentState(0, layers, memory=memory, attention=looked)

    def _attend(self, query: Tensor, state: RecurrentState) -> tuple[Tensor, Tensor]:
        """From `query` (N, D): the context (N, D) and the weights (N, S)."""
        assert state.memory is not None
        memory, mask = state.memory.layers[0], state.memory.mask[:, 0, 0]
        position = torch.tensor(state.position, device=query.device)
        context, weights = self.attention(state.memory.grouped(query), memory, mask, position)
        return context.flatten(0, 1), weights.mean(1).flatten(0, 1)


class BottomAttentionDecoder(AttentionDecoder):
    """The bottom layer's last state asks; the answer is an input of every layer.

    With one layer of GRU and `maxout` this is Bahdanau et al. 2014, appendix A.2.2 (our deep output reads s_i, as in
    section 3.1, not s_(i-1)); with more layers of LSTM and residual connections Wu et al. 2016, section 3, or the
    decoder of Chen et al. 2018. Only the bottom layer goes step by step in training; those above run over time at once.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        kind, dim, layers = config.decoder.type, config.dim, config.decoder.layers
        self.bottom = RECURRENCES[kind](2 * dim, dim)
        above = [RECURRENCES[kind](2 * dim, dim) for _ in range(layers - 1)]
        self.above = RecurrentStack(above, config.dropout, RESIDUAL_FROM - 1 if config.decoder.residual else None)
        self.bridge = Bridge(config, self.bottom.parts)
        self.maxout = Maxout(dim, 3) if config.decoder.maxout else None

    def forward(self, x: Tensor, encoded: Encoded) -> Tensor:
        """Embedded target `x` (B, T, D) -> decoder states (B, T, D)."""
        state = self.start(encoded)
        outs, contexts = [], []
        with loop():
            for token in x.unbind(1):
                out, context, state = self._step_bottom(token, state)
                outs.append(out)
                contexts.append(context)
        out, context = torch.stack(outs, 1), torch.stack(contexts, 1)
        out, _ = self.above(dropout(out, self.dropout, self.training), state.layers[1:], context)
        return self._read_out(out, x, context)

    def start(self, encoded: Encoded, attention: bool = False) -> RecurrentState:
        """The state before the first target token, of B rows."""
        bottom, *above = self.bridge(encoded)
        return self._begin(encoded, (self.bottom.begin(bottom), *self.above.begin(above)), attention)

    def step(self, x: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        """An embedded token each, `x` (N, 1, D) -> decoder states (N, 1, D), and the state after it."""
        out, context, after = self._step_bottom(x.squeeze(1), state)
        out, above = self.above.step(dropout(out, self.dropout, self.training), after.layers[1:], context)
        out = self._read_out(out, x.squeeze(1), context)
        return out.unsqueeze(1), replace(after, layers=(after.layers[0], *above))

    def _step_bottom(self, x: Tensor, state: RecurrentState) -> tuple[Tensor, Tensor, RecurrentState]:
        """Read `x` (N, D): the bottom layer's output, the context, both (N, D), and the state after it."""
        bottom, *above = state.layers
        context, weights = self._attend(bottom[0], state)
        out, bottom = self.bottom.step(torch.cat((x, context), 1), bottom)
        return out, context, state.after((bottom, *above), weights)

    def _read_out(self, out: Tensor, x: Tensor, context: Tensor) -> Tensor:
        read: Tensor = out if self.maxout is None else self.maxout(out, x, context)
        return read


class TopAttentionDecoder(AttentionDecoder):
    """The top layer's new state asks; the answer joins it: h~ = tanh(W [c; h]) (Luong et al. 2015, section 3).

    With `input_feeding` the last h~ is an input of the bottom layer (section 3.3), and training goes step by step;
    without it all runs over time at once.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.feeding = config.decoder.input_feeding
        self.stack = recurrent_stack(config, input_dim=(2 if self.feeding else 1) * config.dim, context_dim=0)
        self.bridge = Bridge(config, self.stack.parts)
        self.join = StepLinear(2 * config.dim, config.dim, bias=False)
        nn.init.xavier_uniform_(self.join.weight)

    def forward(self, x: Tensor, encoded: Encoded) -> Tensor:
        """Embedded target `x` (B, T, D) -> decoder states (B, T, D)."""
        state = self.start(encoded)
        if not self.feeding:
            out, _ = self.stack(x, state.layers)
            assert state.memory is not None
            position = torch.arange(x.size(1), device=x.device)
            context, _ = self.attention(out, state.memory.layers[0], encoded.mask, position)
            return self._joined(context, out)
        outs = []
        with loop():
            for token in x.unbind(1):
                out, state = self._step(token, state)
                outs.append(out)
        return torch.stack(outs, 1)

    def start(self, encoded: Encoded, attention: bool = False) -> RecurrentState:
        """The state before the first target token, of B rows; h~ begins as 0."""
        state = self._begin(encoded, self.stack.begin(self.bridge(encoded)), attention)
        return replace(state, carried=torch.zeros_like(encoded.memory[:, 0])) if self.feeding else state

    def step(self, x: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        """An embedded token each, `x` (N, 1, D) -> decoder states (N, 1, D), and the state after it."""
        out, state = self._step(x.squeeze(1), state)
        return out.unsqueeze(1), state

    def _step(self, x: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        inputs = x if state.carried is None else torch.cat((x, state.carried.to(x.dtype)), 1)
        out, layers = self.stack.step(inputs, state.layers)
        context, weights = self._attend(out, state)
        joined = self._joined(context, out)
        return joined, state.after(layers, weights, carried=joined if self.feeding else None)

    def _joined(self, context: Tensor, out: Tensor) -> Tensor:
        joined: Tensor = self.join(torch.cat((context, out), -1)).tanh()
        return dropout(joined, self.dropout, self.training)
