"""Position-wise feed-forward layers (Vaswani et al. 2017, section 3.3) and their gated kin (Shazeer 2020)."""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from mt.nn.dropout import dropout
from mt.nn.linear import Linear, rows_of, shaped


class FeedForward(nn.Module):
    """W2 f(W1 x + b1) + b2, or W2 (f(W1 x + b1) * (W3 x + b3)) + b2 where the activation is gated."""

    def __init__(self, dim: int, ffn_dim: int, activation: str, dropout: float = 0.0, bias: bool = True) -> None:
        super().__init__()
        self.activation, self.gated = ACTIVATIONS[activation]
        self.dropout = dropout
        self.inner = Linear(dim, 2 * ffn_dim if self.gated else ffn_dim, bias=bias)
        self.outer = Linear(ffn_dim, dim, bias=bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Glorot and Bengio 2010; a gated layer's two matrices each by itself; biases 0."""
        for weight in (*self.inner.weight.chunk(2 if self.gated else 1), self.outer.weight):
            nn.init.xavier_uniform_(weight)
        for linear in (self.inner, self.outer):
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        inner = self.inner(rows_of(x))
        if self.gated:
            gate, linear = inner.chunk(2, dim=-1)
            inner = self.activation(gate) * linear
        else:
            inner = self.activation(inner)
        return shaped(self.outer(dropout(inner, self.dropout, self.training)), x)


# name -> (function, whether a second product gates it)
ACTIVATIONS: dict[str, tuple[Callable[[Tensor], Tensor], bool]] = {
    "relu": (F.relu, False),
    "gelu": (F.gelu, False),
    "swiglu": (F.silu, True),
    "geglu": (F.gelu, True),
}
