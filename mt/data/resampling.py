"""Where the ids of training batches come from: as they are stored, or segmented anew from the stored text each epoch.

Subword regularisation (Kudo 2018; BPE-dropout, Provilkov et al. 2020) draws another segmentation of every sentence each
epoch. A pool of examples is segmented before it is cut into batches, so that a pair that grew still fits its batch, and
while the pool before it is trained on: numpy does most of it without holding Python's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from itertools import chain, count
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mt.data.batching import Ids, Ints, TokenBatches
from mt.data.layout import Sequences, end_offsets
from mt.data.prefetch import prefetched
from mt.data.store import ParallelIds, TextSequences
from mt.errors import DataError
from mt.text.config import TokenizerConfig
from mt.text.tokenizer import Tokenizer, Tokenizers

CHUNK = 4096
"""Examples segmented in one go, from one seed: about 80 ms a side."""

Holds = Callable[[Ints, Ints], NDArray[np.bool_]]
"""Pieces of sources and of targets -> whether the model can hold each pair."""


@dataclass(frozen=True)
class Pool:
    """Examples that are cut into batches together; example k lies at row `rows[k]` of both sides."""

    epoch: int
    number: int
    """Of the pool in its epoch."""
    src: Sequences[Any]
    tgt: Sequences[Any]
    rows: Ints

    def lengths(self) -> tuple[Ints, Ints]:
        """Pieces of each source and of each target."""
        return _lengths(self.src, self.rows), _lengths(self.tgt, self.rows)

    def examples(self, positions: Ints) -> tuple[list[Ids], list[Ids]]:
        """Sources and targets of the examples at `positions`."""
        rows = self.rows[positions].tolist()
        return [self.src[row] for row in rows], [self.tgt[row] for row in rows]


def _lengths(sequences: Sequences[Any], rows: Ints) -> Ints:
    """Lengths of some sequences, without reading those of all."""
    return np.asarray(sequences.offsets[rows + 1] - sequences.offsets[rows])


class Examples(Protocol):
    """A source of ids."""

    def pools(self, order: TokenBatches, epoch: int) -> Generator[Pool, None, None]:
        """The pools from the first one of `epoch` on, epoch after epoch without end: a pure function of both."""
        ...


@dataclass(frozen=True)
class StoredExamples:
    """The ids that are stored."""

    corpus: ParallelIds

    def pools(self, order: TokenBatches, epoch: int) -> Generator[Pool, None, None]:
        for running in count(epoch):
            for number, rows in enumerate(order.pools(running)):
                yield Pool(running, number, self.corpus.src, self.corpus.tgt, rows.astype(np.int64))


@dataclass(frozen=True)
class _Chunk:
    """Newly segmented examples of a pool, and whether they are its `last`."""

    epoch: int
    number: int
    last: bool
    src: Sequences[Any]
    tgt: Sequences[Any]


@dataclass(frozen=True)
class ResampledExamples:
    """Ids drawn anew each epoch: a pure function of (seed, epoch, pool), whether a thread draws them or not.

    A pair that grew beyond what the model can hold is taken as it is stored.
    """

    stored: ParallelIds
    src_text: TextSequences
    tgt_text: TextSequences
    tokenizers: Tokenizers
    config: TokenizerConfig
    holds: Holds
    ahead: bool = True
    """Draw one pool ahead, in a thread."""

    def pools(self, order: TokenBatches, epoch: int) -> Generator[Pool, None, None]:
        depth = -(-min(order.pool_size, order.size) // CHUNK) if self.ahead else 0
        held: list[_Chunk] = []
        with closing(prefetched(self._chunks(order, epoch), depth)) as chunks:
            for chunk in chunks:
                held.append(chunk)
                if chunk.last:
                    src, tgt = _joined([one.src for one in held]), _joined([one.tgt for one in held])
                    yield Pool(chunk.epoch, chunk.number, src, tgt, np.arange(len(src)))
                    held = []

    def _chunks(self, order: TokenBatches, epoch: int) -> Generator[_Chunk, None, None]:
        for running in count(epoch):
            for number, rows in enumerate(order.pools(running)):
                for start in range(0, len(rows), CHUNK):
                    part = rows[start : start + CHUNK].tolist()
                    src_seed, tgt_seed = np.random.SeedSequence([order.seed, running, number, start]).generate_state(2)
                    src = self._drawn(self.tokenizers.src, self.src_text, part, int(src_seed))
                    tgt = self._drawn(self.tokenizers.tgt, self.tgt_text, part, int(tgt_seed))
                    self._shorten(part, src, tgt)
                    yield _Chunk(running, number, start + CHUNK >= len(rows), _packed(src), _packed(tgt))

    def _drawn(self, tokenizer: Tokenizer, text: TextSequences, rows: list[int], seed: int) -> list[list[int]]:
        return tokenizer.sample_batch([text[row] for row in rows], seed, self.config)

    def _shorten(self, rows: list[int], sources: list[list[int]], targets: list[list[int]]) -> None:
        """Put the stored ids in the place of those drawn of `rows` where the model cannot hold these."""
        beyond = np.flatnonzero(~self.holds(_counts(sources), _counts(targets)))
        for place in beyond.tolist():
            sources[place] = self.stored.src[rows[place]].tolist()
            targets[place] = self.stored.tgt[rows[place]].tolist()


def all_held(sources: Ints, _: Ints) -> NDArray[np.bool_]:
    """That of a model which text of any length fits."""
    return np.ones(len(sources), np.bool_)


def examples_of(
    corpus: ParallelIds, tokenizers: Tokenizers, config: TokenizerConfig, holds: Holds = all_held, *, ahead: bool
) -> Examples:
    """The source of ids that `config` asks for, for a model that `holds` what is stored.

    Raises:
        DataError: they are to be segmented anew, but the corpus was prepared without its text.
    """
    if not (config.dropout or config.alpha):
        return StoredExamples(corpus)
    if corpus.src_text is None or corpus.tgt_text is None:
        key = "dropout" if config.dropout else "alpha"
        raise DataError(
            f"tokenizer.{key} segments the training text anew each epoch, but the corpus was prepared without its "
            "text; run mt prepare again."
        )
    return ResampledExamples(corpus, corpus.src_text, corpus.tgt_text, tokenizers, config, holds, ahead)


def _counts(sequences: list[list[int]]) -> NDArray[np.int64]:
    return np.fromiter(map(len, sequences), np.int64, len(sequences))


def _packed(sequences: list[list[int]]) -> Sequences[Any]:
    lengths = _counts(sequences)
    items = np.fromiter(chain.from_iterable(sequences), np.int32, int(lengths.sum()))
    return Sequences(items, np.concatenate([[0], end_offsets(lengths)]))


def _joined(parts: list[Sequences[Any]]) -> Sequences[Any]:
    lengths = np.concatenate([part.lengths for part in parts])
    return Sequences(np.concatenate([part.items for part in parts]), np.concatenate([[0], end_offsets(lengths)]))
