"""Recurrent layers on top of each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from mt.nn.dropout import dropout
from mt.nn.intra_attention import IntraAttentionLayer
from mt.nn.recurrent import LayerState, Recurrence, RecurrentLayer

# kind -> a layer of an input width and a width D.
RECURRENCES: dict[str, Callable[[int, int], Recurrence]] = {
    "lstm": partial(RecurrentLayer, "lstm"),
    "gru": partial(RecurrentLayer, "gru"),
    "intra_attention": IntraAttentionLayer,
}

Advance = Callable[[Recurrence, Tensor, LayerState], "tuple[Tensor, LayerState]"]


class RecurrentStack(nn.Module):
    """Layers of which each reads the output of the one below, with dropout on it (Zaremba et al. 2014).

    Those with an index of at least `residual_from` add what they read to what they give (Wu et al. 2016, section 3.1).
    """

    def __init__(self, layers: Sequence[Recurrence], dropout: float, residual_from: int | None = None) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.dropout = dropout
        self.residual_from = len(layers) if residual_from is None else residual_from

    @property
    def parts(self) -> int:
        """Tensors from which each layer's state begins."""
        return self._typed_layers()[0].parts

    def begin(self, parts: Sequence[LayerState]) -> tuple[LayerState, ...]:
        """Each layer's state before the first step."""
        return tuple(layer.begin(own) for layer, own in zip(self._typed_layers(), parts, strict=True))

    def nothing(self, x: Tensor) -> tuple[LayerState, ...]:
        """Each layer's state of zeros before it reads `x` (B, T, D), whose width must be that of the layers."""
        zeros = x.new_zeros(x.size(0), x.size(2))
        return self.begin([(zeros,) * layer.parts for layer in self._typed_layers()])

    def forward(
        self, x: Tensor, states: Sequence[LayerState], context: Tensor | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, tuple[LayerState, ...]]:
        """Run over `x` (B, T, I), beside `context` (B, T, C) in each layer: outputs and states, as those of a layer."""
        return self._through(x, states, context, lambda layer, x, state: layer(x, state, mask))

    def step(
        self, x: Tensor, states: Sequence[LayerState], context: Tensor | None = None
    ) -> tuple[Tensor, tuple[LayerState, ...]]:
        """Read `x` (N, I), beside `context` (N, C) in each layer; output (N, D), and the states after it."""
        return self._through(x, states, context, lambda layer, x, state: layer.step(x, state))

    def _through(
        self, x: Tensor, states: Sequence[LayerState], context: Tensor | None, advance: Advance
    ) -> tuple[Tensor, tuple[LayerState, ...]]:
        after = []
        for index, (layer, state) in enumerate(zip(self._typed_layers(), states, strict=True)):
            out, state = advance(layer, x if context is None else torch.cat((x, context), -1), state)
            out = dropout(out, self.dropout, self.training)
            x = x + out if index >= self.residual_from else out
            after.append(state)
        return x, tuple(after)

    def _typed_layers(self) -> list[Recurrence]:
        return [layer for layer in self.layers if isinstance(layer, Recurrence)]
