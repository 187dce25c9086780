"""Attention of a recurrent decoder to the source: one head, scores of several kinds, everywhere or in a window."""

from __future__ import annotations

from torch import Tensor, nn

from mt.nn.attention import KeysValues, mask_bias
from mt.nn.dropout import dropout
from mt.nn.scores import SCORES
from mt.nn.windows import WINDOWS


class SourceAttention(nn.Module):
    """softmax of scores, and the mean of the encoder's states that it weighs.

    `window` is `global` or of `WINDOWS`; then only `size` positions on each side of a centre are compared.
    """

    def __init__(self, dim: int, score: str, window: str = "global", size: int = 10, dropout: float = 0.0) -> None:
        super().__init__()
        self.score = SCORES[score](dim)
        self.window = WINDOWS[window](dim, size) if window in WINDOWS else None
        self.dropout = dropout

    def keys_values(self, memory: Tensor) -> KeysValues:
        """Project `memory` (B, S, D) once, for any number of queries; both (B, S, D)."""
        return KeysValues(self.score.keys(memory), memory)

    def forward(self, query: Tensor, memory: KeysValues, mask: Tensor, position: Tensor) -> tuple[Tensor, Tensor]:
        """Attend from `query` (B, T, D), at target `position` (T,) or one for all (), by `mask` (B, S).

        Returns the context (B, T, D) and the weights (B, T, S), before dropout; both 0 where a source has no token.
        """
        if self.window is None:
            weights = _weigh(self.score(query, memory.key), mask.unsqueeze(1))  # (B, T, S)
            return self._dropped(weights, memory.value) @ memory.value, weights
        window = self.window(query, mask.sum(1, keepdim=True), position)
        scores = self.score(query.unsqueeze(2), window.gather(memory.key)).squeeze(2)  # (B, T, 1, W) -> (B, T, W)
        weights = _weigh(scores, window.real)
        if window.factor is not None:
            weights = weights * window.factor
        value = window.gather(memory.value)
        context = (self._dropped(weights, value).unsqueeze(2) @ value).squeeze(2)
        return context, window.spread(weights, mask.size(1))

    def _dropped(self, weights: Tensor, value: Tensor) -> Tensor:
        return dropout(weights, self.dropout, self.training).to(value.dtype)


def _weigh(scores: Tensor, mask: Tensor) -> Tensor:
    """softmax over what `mask` allows, float32; zeros where it allows nothing."""
    return (scores.float() + mask_bias(mask)).softmax(dim=-1) * mask
