"""What encoders give and decoders read."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from mt.nn.recurrent import LayerState


@dataclass(frozen=True)
class Encoded:
    """A batch of sources."""

    memory: Tensor
    """(B, S, D); at padding it means nothing."""
    mask: Tensor
    """(B, S) bool, True at real tokens."""
    final: tuple[LayerState, ...] = ()
    """Of a recurrent encoder each layer's state after its last word, tensors (B, D)."""

    @property
    def summary(self) -> Tensor:
        """A vector a sentence (B, D): a recurrent encoder's last state, else the mean of `memory`; 0 if it is empty."""
        if self.final:
            return self.final[-1][0]
        mask = self.mask.unsqueeze(2).to(self.memory.dtype)
        return (self.memory * mask).sum(1) / mask.sum(1).clamp(min=1)
