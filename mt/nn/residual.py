"""The residual connection around each part of a layer, with its dropout and its norm."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from mt.nn.dropout import add_dropout


class Residual(nn.Module):
    """post: norm(x + dropout(part(x))) (Vaswani et al. 2017); pre: x + dropout(part(norm(x))) (Xiong et al. 2020)."""

    def __init__(self, norm: nn.Module, dropout: float, norm_position: str) -> None:
        super().__init__()
        self.pre = norm_position == "pre"
        self.dropout = dropout
        self.norm = norm

    def forward(self, x: Tensor, part: Callable[[Tensor], Tensor]) -> Tensor:
        """Run `part` on `x` (B, T, D) and add what it gives."""
        return self.after(x, part(self.before(x)))

    def before(self, x: Tensor) -> Tensor:
        """What the part reads, of `x` (B, T, D)."""
        read: Tensor = self.norm(x) if self.pre else x
        return read

    def after(self, x: Tensor, part: Tensor) -> Tensor:
        """`x` (B, T, D) with what the part gave, `part` (B, T, D)."""
        added = add_dropout(x, part, self.dropout, self.training)
        return added if self.pre else self.norm(added)
