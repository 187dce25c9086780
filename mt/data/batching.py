"""Batches of token ids. (TokenBatches and collate are being built.)"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """Padded sentence pairs. Masks are True at real tokens, the end mark included."""

    src: Tensor
    """(B, S) int64: pieces, eos, padding."""
    src_mask: Tensor
    """(B, S) bool."""
    tgt_in: Tensor
    """(B, T) int64: bos, pieces, padding."""
    tgt_out: Tensor
    """(B, T) int64: pieces, eos, padding."""
    tgt_mask: Tensor
    """(B, T) bool."""
