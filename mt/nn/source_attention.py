"""Attention of a recurrent decoder to the source: scores of several kinds, everywhere or in a window."""

from __future__ import annotations

from torch import Tensor, nn

from mt.nn.attention import KeysValues
from mt.nn.dropout import dropout
from mt.nn.linear import Linear
from mt.nn.masks import mask_bias
from mt.nn.scores import SCORES, by_head
from mt.nn.small_products import product_of_any_size, widened
from mt.nn.windows import WINDOWS


class SourceAttention(nn.Module):
    """softmax of scores, and the mean of the encoder's states that it weighs.

    `window` is `global` or of `WINDOWS`; then only `size` positions on each side of a centre are compared. With several
    `heads` each weighs its own part of a projection of the states (Chen et al. 2018, section 4.1).
    """

    def __init__(
        self, dim: int, score: str, window: str = "global", size: int = 10, dropout: float = 0.0, heads: int = 1
    ) -> None:
        super().__init__()
        self.heads = heads
        self.score = SCORES[score](dim, heads)
        self.value = None
        if heads > 1:
            self.value = Linear(dim, dim, bias=False)
            nn.init.xavier_uniform_(self.value.weight)
        self.window = WINDOWS[window](dim, size) if window in WINDOWS else None
        self.dropout = dropout

    def keys_values(self, memory: Tensor) -> KeysValues:
        """Project `memory` (B, S, D) once, for any number of queries; both (B, S, D)."""
        return KeysValues(self.score.keys(memory), widened(memory if self.value is None else self.value(memory)))

    def forward(self, query: Tensor, memory: KeysValues, mask: Tensor, position: Tensor) -> tuple[Tensor, Tensor]:
        """Attend from `query` (B, T, D), at target `position` (T,) or one for all (), by `mask` (B, S).

        Returns the context (B, T, D) and the weights (B, H, T, S), before dropout; both 0 where a source has no token.
        """
        if self.window is None:
            return self._look(query, memory.key, memory.value, mask.unsqueeze(1))
        window = self.window(query, mask.sum(1, keepdim=True), position)
        key, value = window.gather(memory.key), window.gather(memory.value)
        factor = None if window.factor is None else window.factor.unsqueeze(2)
        context, weights = self._look(query.unsqueeze(2), key, value, window.real.unsqueeze(2), factor)
        return context.squeeze(2), window.spread(weights.squeeze(3).transpose(1, 2), mask.size(1))

    def _look(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor, factor: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """From `query` (..., T, D) at `key` and `value` (..., S, D): the context (..., T, D), weights (..., H, T, S).

        `mask` and `factor`, with which weights are multiplied, broadcast to (..., T, S).
        """
        weights = _weigh(self.score(query, key), mask.unsqueeze(-3))
        if factor is not None:
            weights = weights * factor.unsqueeze(-3)
        kept = dropout(weights, self.dropout, self.training).to(value.dtype)
        found = product_of_any_size(kept, by_head(value, self.heads))
        return found.transpose(-2, -3).flatten(-2), weights


def _weigh(scores: Tensor, mask: Tensor) -> Tensor:
    """softmax over what `mask` allows, float32; zeros where it allows nothing."""
    return (scores.float() + mask_bias(mask)).softmax(dim=-1) * mask
