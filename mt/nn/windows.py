"""Which source positions attention looks at: all, or a window around one (Luong et al. 2015, sections 3.1 and 3.2)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mt.nn.loops import StepLinear


@dataclass(frozen=True)
class Window:
    """Source positions of each query."""

    place: Tensor
    """(B, T, W) int64, inside the source; where `real` is False it means nothing."""
    real: Tensor
    """(B, T, W) bool."""
    factor: Tensor | None
    """(B, T, W): what weights are multiplied with; None: nothing."""

    def gather(self, x: Tensor) -> Tensor:
        """Of `x` (B, S, D) the window of each query: (B, T, W, D)."""
        rows = torch.arange(x.size(0), device=x.device)[:, None, None]
        return x[rows, self.place]

    def spread(self, weights: Tensor, length: int) -> Tensor:
        """Weights (B, H, T, W) over a source of S = `length`: (B, H, T, S)."""
        whole = weights.new_zeros(*weights.shape[:3], length)
        return whole.scatter_add(3, self.place.unsqueeze(1).expand_as(weights), weights)


class LocalMonotonic(nn.Module):
    """`local_m`: the window around the target's own position t (p_t = t), which stops at the source's end."""

    def __init__(self, dim: int, size: int) -> None:  # noqa: ARG002 (the sign of WINDOWS)
        super().__init__()
        self.size = size

    def forward(self, query: Tensor, length: Tensor, position: Tensor) -> Window:
        """The windows of `query` (B, T, D), at target `position` (T,) or (), in sources of `length` (B, 1) tokens."""
        centre = torch.minimum(position, (length - 1).clamp(min=0))
        return around(centre.expand(query.shape[:2]), length, self.size)


class LocalPredictive(nn.Module):
    """`local_p`: p_t = L sigmoid(v . tanh(W q)), weights times exp(-(s - p_t)^2 / (2 sigma^2)), sigma = size / 2.

    L is the number of source tokens. The window is around the position nearest to p_t (equations 9 and 10).
    """

    def __init__(self, dim: int, size: int) -> None:
        super().__init__()
        self.size = size
        self.inner = StepLinear(dim, dim, bias=False)
        self.outer = StepLinear(dim, 1, bias=False)
        nn.init.xavier_uniform_(self.inner.weight)
        nn.init.normal_(self.outer.weight, std=1 / math.sqrt(dim))

    def forward(self, query: Tensor, length: Tensor, position: Tensor) -> Window:  # noqa: ARG002
        """The windows of `query` (B, T, D) in sources of `length` (B, 1) tokens, whatever its `position`."""
        share = self.outer(self.inner(query).tanh()).squeeze(2).float().sigmoid()
        centre = length * share  # (B, T)
        nearest = torch.minimum(centre.detach().round().long(), (length - 1).clamp(min=0))
        window = around(nearest, length, self.size)
        distance = window.place - centre.unsqueeze(2)
        return Window(window.place, window.real, (-2 * (distance / self.size).square()).exp())


def around(centre: Tensor, length: Tensor, size: int) -> Window:
    """`size` positions on each side of `centre` (B, T), of those that sources of `length` (B, 1) tokens have."""
    place = centre.unsqueeze(2) + torch.arange(-size, size + 1, device=centre.device)  # (B, T, W)
    last = (length - 1).unsqueeze(2)
    real = (place >= 0) & (place <= last)
    return Window(place.clamp(min=0).minimum(last.clamp(min=0)), real, None)


WINDOWS: dict[str, type[LocalMonotonic] | type[LocalPredictive]] = {
    "local_m": LocalMonotonic,
    "local_p": LocalPredictive,
}
