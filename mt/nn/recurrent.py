"""Layers of LSTM (Hochreiter and Schmidhuber 1997) and GRU (Cho et al. 2014), run over time at once or a step.

They are torch's: its LSTM has no peepholes, and its GRU resets after the recurrent product, so that
h' = (1 - z) tanh(W x + r (U h)) + z h. Products are in the type that autocast asks for; what a step remembers is in
that of the weights, but inside torch's own loop over time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from mt.nn.gates import gru_gates, lstm_gates
from mt.nn.linear import linear
from mt.nn.loops import loop, step_linear
from mt.nn.products import product_dtype

LayerState: TypeAlias = "tuple[Tensor, ...]"
"""What a layer remembers, each (B, ...); the first is its output h (B, D)."""

SATURATING = 1e4
"""An input at which a sigmoid is exactly 0 or 1 in every precision, and finite in all of them."""


@dataclass(frozen=True)
class Cell:
    """One kind of recurrence."""

    module: type[nn.LSTM] | type[nn.GRU]
    """What holds the weights."""
    run: Callable[..., Any]
    """torch's loop over time."""
    step: Callable[..., Any]
    """torch's step."""
    gates: Callable[[Tensor, Tensor, LayerState], LayerState]
    """Our step, from its two products."""
    parts: int
    """Tensors of its state: h and c, or h."""
    keep: tuple[int, ...]
    """What to add to each gate, in torch's order, times `SATURATING`, so that a step changes the last part of the state
    not at all: LSTM closes the input gate and opens the forget gate; GRU opens z."""


CELLS: dict[str, Cell] = {
    "lstm": Cell(nn.LSTM, torch.lstm, torch.lstm_cell, lstm_gates, 2, keep=(-1, 1, 0, 0)),
    "gru": Cell(nn.GRU, torch.gru, torch.gru_cell, gru_gates, 1, keep=(0, 1, 0)),
}


class Recurrence(nn.Module, ABC):
    """What a layer does."""

    parts: int
    """Tensors (B, D) from which its state begins; the first is its output."""

    def begin(self, parts: LayerState) -> LayerState:
        """The state before the first step from `parts` tensors (B, D)."""
        return parts

    @abstractmethod
    def forward(self, x: Tensor, state: LayerState, mask: Tensor | None = None) -> tuple[Tensor, LayerState]:
        """Run over `x` (B, T, I) from `state`: outputs (B, T, D), and the state after the last real step.

        `mask` (B, T), True at real steps, which come first; None: all are. Outputs at padding mean nothing.
        """

    @abstractmethod
    def step(self, x: Tensor, state: LayerState) -> tuple[Tensor, LayerState]:
        """Read `x` (N, I) in `state`: the output (N, D), and the state after it."""


class RecurrentLayer(Recurrence):
    """A layer of LSTM or GRU."""

    def __init__(self, kind: str, input_dim: int, dim: int) -> None:
        super().__init__()
        self.cell = CELLS[kind]
        self.parts = self.cell.parts
        self.rnn = self.cell.module(input_dim, dim, batch_first=True)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Each gate by itself: inputs Glorot and Bengio 2010, recurrences orthogonal (Saxe et al. 2014); biases 0.

        The forget gate of an LSTM begins with a bias of 1 (Jozefowicz et al. 2015, section 4.3).
        """
        inputs, recurrence, bias, other_bias = self.weights
        for gate in inputs.chunk(len(self.cell.keep)):
            nn.init.xavier_uniform_(gate)
        for gate in recurrence.chunk(len(self.cell.keep)):
            nn.init.orthogonal_(gate)
        nn.init.zeros_(bias)
        nn.init.zeros_(other_bias)
        if self.cell.parts == 2:
            nn.init.ones_(bias.chunk(4)[1])

    @property
    def weights(self) -> tuple[Tensor, ...]:
        """Matrices of the input and of the recurrence, and a bias of each; gate under gate."""
        return tuple(self.rnn.parameters())

    def forward(self, x: Tensor, state: LayerState, mask: Tensor | None = None) -> tuple[Tensor, LayerState]:
        """As `Recurrence.forward`: by torch's own loop, but for GRU on a CPU, where that is slow."""
        first, *others = self.weights
        if mask is not None:
            padding = ~mask.unsqueeze(2)
            x = torch.cat((x.masked_fill(padding, 0), padding), 2)
            first = torch.cat((first, self._keeping(first)), 1)
        run = self._run if self.cell.parts == 2 or not x.is_cpu else self._loop
        out, final = run(x, state, (first, *others))
        return out, final if mask is None else (last_real(out, mask).to(first.dtype), *final[1:])

    def step(self, x: Tensor, state: LayerState) -> tuple[Tensor, LayerState]:
        """Read `x` (N, I) in `state`: the output (N, D), and the state after it."""
        inputs, _, bias, _ = self.weights
        if x.is_cpu:
            after = self._advance(step_linear(x, inputs, bias), state)
        else:
            found = self.cell.step(x.to(inputs.dtype), self._torch_state(state, inputs.dtype), *self.weights)
            after = found if isinstance(found, tuple) else (found,)
        return after[0], after

    def _run(self, x: Tensor, state: LayerState, weights: tuple[Tensor, ...]) -> tuple[Tensor, LayerState]:
        dtype = product_dtype(x) if x.is_cpu else weights[0].dtype  # elsewhere autocast knows these loops
        hidden = self._torch_state(tuple(part.unsqueeze(0) for part in state), dtype)
        low = [weight.to(dtype) for weight in weights]
        # Biases, one layer, no dropout, one direction, batch first.
        out, *final = self.cell.run(x.to(dtype), hidden, low, True, 1, 0.0, self.training, False, True)
        return out, tuple(part.squeeze(0).to(weights[0].dtype) for part in final)

    def _loop(self, x: Tensor, state: LayerState, weights: tuple[Tensor, ...]) -> tuple[Tensor, LayerState]:
        inputs, _, bias, _ = weights
        outs = []
        with loop():
            for now in linear(x, inputs, bias).unbind(1):
                state = self._advance(now, state)
                outs.append(state[0])
        return torch.stack(outs, 1), state

    def _advance(self, inputs: Tensor, state: LayerState) -> LayerState:
        """The state after `inputs` W x + b (N, G D), on a CPU."""
        _, recurrence, _, bias = self.weights
        after = self.cell.gates(inputs, step_linear(state[0], recurrence, bias), state)
        return tuple(part.to(recurrence.dtype) for part in after)

    def _torch_state(self, state: LayerState, dtype: torch.dtype) -> Any:
        typed = tuple(part.to(dtype).contiguous() for part in state)  # CUDA's kernels ask for it
        return typed if self.cell.parts == 2 else typed[0]

    def _keeping(self, weight: Tensor) -> Tensor:
        """The column of an input that is 1 at padding: it lets the state be (see `Cell.keep`)."""
        gates = torch.tensor(self.cell.keep, dtype=weight.dtype, device=weight.device)
        return SATURATING * gates.repeat_interleave(weight.size(0) // len(self.cell.keep)).unsqueeze(1)


class BidirectionalLayer(Recurrence):
    """A layer in each direction (Schuster and Paliwal 1997), of half the width each, side by side."""

    def __init__(self, kind: str, input_dim: int, dim: int) -> None:
        super().__init__()
        self.ahead = RecurrentLayer(kind, input_dim, dim // 2)
        self.back = RecurrentLayer(kind, input_dim, dim // 2)
        self.parts = self.ahead.parts

    def forward(self, x: Tensor, state: LayerState, mask: Tensor | None = None) -> tuple[Tensor, LayerState]:
        """As `Recurrence.forward`; the state is each direction's after its last step, side by side."""
        mask = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device) if mask is None else mask
        halves = [part.chunk(2, dim=-1) for part in state]
        ahead, ahead_state = self.ahead(x, tuple(half[0] for half in halves), mask)
        back, back_state = self.back(reverse(x, mask), tuple(half[1] for half in halves), mask)
        final = tuple(torch.cat(pair, -1) for pair in zip(ahead_state, back_state, strict=True))
        return torch.cat((ahead, reverse(back, mask)), -1), final

    def step(self, x: Tensor, state: LayerState) -> tuple[Tensor, LayerState]:  # noqa: ARG002
        """There is none: the other direction begins at the end."""
        raise TypeError("a bidirectional layer cannot be run step by step.")


def reverse(x: Tensor, mask: Tensor, keep_last: bool = False) -> Tensor:
    """Turn the real steps of `x` (B, T, I), by `mask` (B, T), around; with `keep_last` all but the last of them."""
    step = torch.arange(x.size(1), device=x.device)
    count = mask.sum(1, keepdim=True) - int(keep_last)
    place = torch.where(step < count, count - 1 - step, step)  # (B, T)
    return x.gather(1, place.unsqueeze(2).expand_as(x))


def last_real(x: Tensor, mask: Tensor) -> Tensor:
    """The last real step of each row of `x` (B, T, D) by `mask` (B, T): (B, D)."""
    last = (mask.sum(1) - 1).clamp(min=0)
    return x[torch.arange(x.size(0), device=x.device), last]
