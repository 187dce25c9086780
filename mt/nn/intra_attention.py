"""An LSTM that attends to its own past: the LSTMN of Cheng et al. 2016, "Long Short-Term Memory-Networks"."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from mt.nn.recurrent import LayerState, Recurrence, RecurrentLayer, last_real, whole_precision


class IntraAttentionLayer(Recurrence):
    """In place of its last state a step reads a mean of all its past ones (section 3.1, equations 4 to 9).

    a_i = v . tanh(W_h h_i + W_x x_t + W_s s), with s the mean of the step before; softmax of a weighs the past h and c,
    and what comes out is the state from which an LSTM goes on. The state with which a sequence begins is the first of
    its past. Its state is (h, c, s, past h, past c, past W_h h), the last three (B, t, D).
    """

    parts = 2

    def __init__(self, input_dim: int, dim: int) -> None:
        super().__init__()
        self.lstm = RecurrentLayer("lstm", input_dim, dim)
        self.input = nn.Linear(input_dim, dim, bias=False)
        self.key = nn.Linear(dim, dim, bias=False)
        self.mean = nn.Linear(dim, dim, bias=False)
        self.score = nn.Parameter(torch.empty(dim))
        for linear in (self.input, self.key, self.mean):
            nn.init.xavier_uniform_(linear.weight)
        nn.init.normal_(self.score, std=1 / math.sqrt(dim))

    def begin(self, parts: LayerState) -> LayerState:
        """The state before the first step from h and c, both (B, D)."""
        hidden, cell = (part.to(self.score.dtype) for part in parts)
        with whole_precision(hidden):
            return hidden, cell, hidden, hidden.unsqueeze(1), cell.unsqueeze(1), self.key(hidden).unsqueeze(1)

    def forward(self, x: Tensor, state: LayerState, mask: Tensor | None = None) -> tuple[Tensor, LayerState]:
        """Run over `x` (B, T, I) from `state`: outputs (B, T, D), and h and c after the last real step by `mask`."""
        before = state[3].size(1)
        for position in range(x.size(1)):
            _, state = self.step(x[:, position], state)
        hiddens, cells = state[3][:, before:], state[4][:, before:]
        final = state if mask is None else (last_real(hiddens, mask), last_real(cells, mask))
        return hiddens, final

    def step(self, x: Tensor, state: LayerState) -> tuple[Tensor, LayerState]:
        """Read `x` (N, I) in `state`: the output (N, D), and the state after it."""
        _, _, mean, hiddens, cells, keys = state
        with whole_precision(x):
            x = x.to(self.score.dtype)
            query = self.input(x) + self.mean(mean)
            weights = ((keys + query.unsqueeze(1)).tanh() @ self.score).softmax(dim=1).unsqueeze(1)  # (N, 1, t)
            mean = (weights @ hiddens).squeeze(1)
            hidden, (_, cell) = self.lstm.step(x, (mean, (weights @ cells).squeeze(1)))
            now = (hidden, cell, self.key(hidden))
        past = (torch.cat((old, new.unsqueeze(1)), 1) for old, new in zip((hiddens, cells, keys), now, strict=True))
        return hidden, (hidden, cell, mean, *past)
