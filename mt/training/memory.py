"""Batches that do not fit into memory: cut in halves, and remembered."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from mt.data.batching import Batch
from mt.errors import RunError


class PairTooLargeError(RunError):
    """A single pair does not fit into memory."""

    def __init__(self, batch: Batch) -> None:
        src, tgt = (int(mask.sum()) for mask in (batch.src_mask, batch.tgt_mask))
        self.source = batch.src[batch.src_mask].tolist()
        """Ids of its source, the end mark included."""
        super().__init__(
            f"A pair of {src} source and {tgt} target tokens does not fit into memory even alone: leave it out by "
            "data.filters.max_length and prepare again, make the model smaller, or train on a larger device."
        )


class CommittedError(RunError):
    """Memory ran out when other processes were already at work on the same pass."""

    def __init__(self, batch: Batch) -> None:
        rows, length = batch.src.shape
        super().__init__(
            f"A batch of {rows} pairs with {length} source and {batch.tgt_in.size(1)} target positions does not fit "
            "into memory, and cannot be done in halves while other processes wait for it: begin anew with a lower "
            "train.batch_tokens and a higher train.accumulate, or go on with train.sharding full or larger devices."
        )


def size_of(batch: Batch) -> int:
    """Positions of both sides, padding included."""
    return batch.src.numel() + batch.tgt_in.numel()


def halves(batch: Batch) -> tuple[Batch, Batch]:
    """The first and the second half of a batch's B rows, each as wide as its own longest row."""
    middle = batch.src.size(0) // 2
    return _rows(batch, slice(middle)), _rows(batch, slice(middle, None))


def _rows(batch: Batch, rows: slice) -> Batch:
    def narrowed(tensor: Tensor, mask: Tensor) -> Tensor:
        return tensor[rows, : int(mask[rows].sum(1).max())]

    sides = (batch.src_mask, batch.src_mask, batch.tgt_mask, batch.tgt_mask, batch.tgt_mask)
    tensors = (batch.src, batch.src_mask, batch.tgt_in, batch.tgt_out, batch.tgt_mask)
    return Batch(*map(narrowed, tensors, sides))


class MemoryLimit:
    """What is known of the batches that fit: those of `size` positions do not, nor do larger ones."""

    def __init__(self) -> None:
        self.size: int | None = None

    def parts(self, batch: Batch) -> Iterator[Batch]:
        """`batch` as it is, or in halves of halves where it is known to be too large."""
        if self.size is not None and size_of(batch) >= self.size and batch.src.size(0) > 1:
            for half in halves(batch):
                yield from self.parts(half)
        else:
            yield batch

    def exceeded(self, batch: Batch) -> str:
        """Note that `batch`, one of `parts`, did not fit; return a sentence about it.

        Raises:
            PairTooLargeError: it cannot be cut any more.
        """
        rows, length = batch.src.shape
        if rows == 1:
            raise PairTooLargeError(batch)
        self.size = size_of(batch)
        return (
            f"A batch of {rows} pairs with {length} source and {batch.tgt_in.size(1)} target positions does not fit "
            "into memory: it is done in halves, as are all of its size or more; a lower train.batch_tokens needs none."
        )
