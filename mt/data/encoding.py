"""Blocks of text to ids, in this process or in several others. It imports no torch.

The blocks are cut the same way and their results come in their order, however many processes work on them: what is
written does not depend on that number.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mt.data.layout import narrowest
from mt.data.processes import CONTEXT, serve_parent, unguarded
from mt.data.seen import digests
from mt.errors import RunError
from mt.text import filters
from mt.text.config import Filters
from mt.text.files import Block
from mt.text.tokenizer import Tokenizer, Tokenizers

Result = TypeVar("Result")


@dataclass
class SideCounts:
    """What was seen on one side, in the text as read, before any filter."""

    lines: int = 0
    pieces: int = 0
    unknown: int = 0
    characters: int = 0
    changed: int = 0
    """Lines that normalisation changed."""
    markers: int = 0
    """Lines with U+2581, which SentencePiece takes for a space."""
    replaced: int = 0
    """Lines with U+FFFD, which stands for text that was lost when somebody decoded it."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Characters without a piece, and how often they occurred."""

    def add(self, other: SideCounts) -> None:
        """Add the counts of more text."""
        for name in ("lines", "pieces", "unknown", "characters", "changed", "markers", "replaced"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.left_out.update(other.left_out)


@dataclass
class Encoded:
    """One side of a block: the kept sequences one after the other, and the counts of all."""

    ids: NDArray[np.unsignedinteger]
    lengths: NDArray[np.int64]
    text: NDArray[np.uint8]
    """UTF-8 of the kept lines; empty unless asked for."""
    text_lengths: NDArray[np.int64]
    counts: SideCounts

    def keep(self, mask: NDArray[np.bool_]) -> None:
        """Keep only the sequences where `mask` (sequences,) is True."""
        if mask.all():
            return
        self.ids = self.ids[np.repeat(mask, self.lengths)]
        self.lengths = self.lengths[mask]
        if len(self.text_lengths):
            self.text = self.text[np.repeat(mask, self.text_lengths)]
            self.text_lengths = self.text_lengths[mask]


@dataclass
class EncodedPairs:
    """Both sides of a block."""

    src: Encoded
    tgt: Encoded
    read: int
    dropped: dict[str, int]
    keys: NDArray[np.uint64]
    """A hash of each kept pair where duplicates are to be dropped, else empty."""

    def keep(self, mask: NDArray[np.bool_]) -> int:
        """Keep only the pairs where `mask` (kept pairs,) is True; how many went."""
        self.src.keep(mask)
        self.tgt.keep(mask)
        return len(mask) - int(mask.sum())


@dataclass(frozen=True)
class Encoder:
    """What is done to each block of pairs. `limits` None keeps all pairs, as validation text needs it."""

    limits: Filters | None
    drop_invalid: bool
    dedup: bool
    keep_text: bool

    def __call__(self, tokenizers: Tokenizers, sources: Block, targets: Block) -> EncodedPairs:
        """Encode, filter and count the pairs of two blocks."""
        src_lines, tgt_lines, invalid = self._lines(sources, targets)
        src, tgt = self._side(tokenizers.src, src_lines), self._side(tokenizers.tgt, tgt_lines)
        dropped = {"not UTF-8": invalid} if invalid else {}
        if self.limits is not None:
            keep, counts = filters.apply(self.limits, filters.Chunk(src_lines, tgt_lines, src.lengths, tgt.lengths))
            src.keep(keep)
            tgt.keep(keep)
            dropped.update(counts)
            if self.dedup:
                src_lines, tgt_lines = _kept(src_lines, keep), _kept(tgt_lines, keep)
        keys = digests(src_lines, tgt_lines) if self.dedup and self.limits else np.zeros(0, np.uint64)
        return EncodedPairs(src, tgt, len(sources), dropped, keys)

    def _lines(self, sources: Block, targets: Block) -> tuple[list[str], list[str], int]:
        if not self.drop_invalid:
            return sources.lines(), targets.lines(), 0
        both = zip(sources.lines_or_none(), targets.lines_or_none(), strict=True)
        valid = [(source, target) for source, target in both if source is not None and target is not None]
        return [source for source, _ in valid], [target for _, target in valid], len(sources) - len(valid)

    def _side(self, tokenizer: Tokenizer, lines: list[str]) -> Encoded:
        batch = tokenizer.encode_batch(lines)
        lengths = np.fromiter(map(len, batch), np.int64, len(batch))
        ids = np.fromiter(chain.from_iterable(batch), narrowest(len(tokenizer)), int(lengths.sum()))
        raw = [line.encode() for line in lines] if self.keep_text else []
        text = np.frombuffer(b"".join(raw), np.uint8)
        text_lengths = np.fromiter(map(len, raw), np.int64, len(raw))
        return Encoded(ids, lengths, text, text_lengths, _count(tokenizer, lines, ids, lengths))


def _kept(lines: list[str], keep: NDArray[np.bool_]) -> list[str]:
    return [line for line, stays in zip(lines, keep.tolist(), strict=True) if stays]


def _count(
    tokenizer: Tokenizer, lines: list[str], ids: NDArray[np.unsignedinteger], lengths: NDArray[np.int64]
) -> SideCounts:
    counts = SideCounts(len(lines), len(ids), int((ids == tokenizer.unk).sum()), sum(map(len, lines)))
    counts.changed = sum(map(tokenizer.changes, lines))
    counts.markers = sum("\u2581" in line for line in lines if not line.isascii())
    counts.replaced = sum("\ufffd" in line for line in lines if not line.isascii())
    spelled = np.zeros(len(tokenizer), np.bool_)
    spelled[tokenizer.spelled] = True
    if (alphabet := tokenizer.alphabet) is not None and (found := spelled[ids]).any():
        for index in np.unique(np.repeat(np.arange(len(lines)), lengths)[found]):
            text = tokenizer.normalize(lines[index])
            counts.left_out.update(character for character in text if character not in alphabet and character != " ")
    return counts


def encode_blocks(
    encoder: Encoder, tokenizers: Path, blocks: Iterable[tuple[Block, Block]], workers: int
) -> Iterator[EncodedPairs]:
    """Encode pairs of blocks, in order, with the tokenizers saved in a folder; one worker is this process itself.

    Raises `RunError` where a worker dies, and what a worker raises.
    """
    if workers == 1:
        loaded = Tokenizers.load(tokenizers)
        yield from (encoder(loaded, *pair) for pair in blocks)
        return
    with _Pool(workers, CONTEXT, _start, (encoder, tokenizers)) as pool:
        try:
            yield from in_order(pool, _encode, blocks, 2 * workers + 2)
        except BrokenProcessPool:
            raise RunError(
                "a worker process of mt prepare died, perhaps for want of memory; run it again with fewer workers, "
                "or with 1, which starts none."
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)


class _Pool(ProcessPoolExecutor):
    def submit(self, work: Callable[..., Result], /, *args: Any, **options: Any) -> Future[Result]:
        """As the executor does it; this may start a process."""
        with unguarded():
            return super().submit(work, *args, **options)


def in_order(
    pool: Executor, work: Callable[..., Result], tasks: Iterable[tuple[Any, ...]], ahead: int
) -> Iterator[Result]:
    """`work(*task)` of each task, in their order; at most `ahead` tasks are taken and not yet done with."""
    pending: deque[Future[Result]] = deque()
    for task in tasks:
        pending.append(pool.submit(work, *task))
        if len(pending) == ahead:
            yield pending.popleft().result()
    while pending:
        yield pending.popleft().result()


_worker: tuple[Encoder, Tokenizers]


def _start(encoder: Encoder, tokenizers: Path) -> None:
    global _worker
    serve_parent()
    _worker = encoder, Tokenizers.load(tokenizers)


def _encode(sources: Block, targets: Block) -> EncodedPairs:
    encoder, tokenizers = _worker
    return encoder(tokenizers, sources, targets)
