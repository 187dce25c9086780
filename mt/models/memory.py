"""The encoded source as search sees it: one copy a sentence, however many hypotheses read it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mt.nn.attention import KeysValues, MultiHeadAttention


@dataclass(frozen=True)
class Memory:
    """Keys and values of U sentences, a layer each, read by N hypotheses that lie sentence by sentence."""

    layers: tuple[KeysValues, ...]
    """Each (U, H, S, K)."""
    mask: Tensor
    """(U, 1, 1, S) bool, True at real tokens."""
    sentence: Tensor
    """(N,) int64: the sentence, 0 to U - 1, that each hypothesis reads; N / U hypotheses in a row read the same."""

    @classmethod
    def start(cls, layers: list[KeysValues], mask: Tensor) -> Memory:
        """Memory of B sentences with `mask` (B, S), one hypothesis each."""
        return cls(tuple(layers), mask[:, None, None, :], torch.arange(mask.size(0), device=mask.device))

    def grouped(self, x: Tensor) -> Tensor:
        """`x` (N, D) or (N, 1, D) by the sentence that each row reads: (U, N / U, D)."""
        return x.view(self.mask.size(0), -1, x.size(-1))

    def attend(self, attention: MultiHeadAttention, x: Tensor, layer: int) -> Tensor:
        """Attend from `x` (N, 1, D) to `layer`'s memory; (N, 1, D). A sentence's hypotheses share one product."""
        out: Tensor = attention(self.grouped(x), self.layers[layer], self.mask)
        return out.reshape(x.shape)

    def weights(self, attention: MultiHeadAttention, x: Tensor, layer: int) -> Tensor:
        """Where `attend` looks: (N, S) float32, the mean over heads."""
        heads = attention.weights(self.grouped(x), self.layers[layer], self.mask)  # (U, H, N / U, S)
        return heads.mean(1).flatten(0, 1)

    def select(self, rows: Tensor) -> Memory:
        """Keep `rows` (N',). A reorder within sentences copies nothing."""
        sentence = self.sentence[rows]
        if torch.equal(sentence, self.sentence):
            return self
        kept, counts = torch.unique_consecutive(sentence, return_counts=True)
        if bool((counts != counts[:1]).any()):
            kept, counts = sentence, torch.ones_like(sentence)
        if not torch.equal(kept, torch.arange(self.mask.size(0), device=kept.device)):
            return self._of(kept, counts)
        return Memory(self.layers, self.mask, sentence)

    def _of(self, kept: Tensor, counts: Tensor) -> Memory:
        sentence = torch.arange(kept.numel(), device=kept.device).repeat_interleave(counts)
        mask = self.mask.index_select(0, kept)
        return Memory(tuple(layer.select(kept) for layer in self.layers), mask, sentence)
