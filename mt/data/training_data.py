"""What the training loop iterates over: the batches of an epoch, made ahead of it in the background."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from types import TracebackType

from mt.data.batching import POOL_SIZE, Batch, Ints, TokenBatches, by_length, collate, longest_sides
from mt.data.prefetch import prefetched
from mt.data.resampling import CHUNK, Examples, Holds, Pool, StoredExamples, all_held, examples_of
from mt.data.store import ParallelIds
from mt.errors import DataError
from mt.text.config import TokenizerConfig
from mt.text.tokenizer import Tokenizers

AHEAD = 16
"""Batches made ahead."""


@dataclass(frozen=True)
class Elsewhere:
    """A batch that another rank makes: what all must know of it."""

    pairs: int
    tokens: int
    """Target tokens, end marks included."""


@dataclass(frozen=True)
class _Numbered:
    """A batch and the place after it."""

    batch: Batch | Elsewhere
    after: tuple[int, int]
    """Epoch, and number of the batch in it."""


class TrainingData:
    """The training pairs, batch by batch; `budget` tokens a batch, rows x longest side.

    `ahead` is how many batches are made beside the training step; 0 makes each when it is asked for, by no thread. The
    batches are the same. One epoch can be iterated over at a time. Close it when training ends (or use `with`).

    `holds` tells what the model can hold: every pair as it is stored, but perhaps not as it is segmented anew.

    Of several `ranks` each goes through the same sequence, but makes only every `ranks`-th batch, from its number
    `rank` on; the others are `Elsewhere`. So the order of an epoch does not depend on how many share it.
    """

    def __init__(
        self,
        corpus: ParallelIds,
        tokenizers: Tokenizers,
        config: TokenizerConfig,
        budget: int,
        seed: int,
        *,
        ahead: int = AHEAD,
        pool_size: int = POOL_SIZE,
        holds: Holds = all_held,
        rank: int = 0,
        ranks: int = 1,
    ) -> None:
        self._corpus = corpus
        self._examples = examples_of(corpus, tokenizers, config, holds, ahead=ahead > 0)
        self._order = TokenBatches(len(corpus), budget, seed, pool_size)
        self._specials = tokenizers.tgt
        self._ahead = ahead * ranks
        self._rank, self._ranks = rank, ranks
        self._running: Generator[_Numbered, None, None] | None = None
        self._next = (0, 0)

    def __len__(self) -> int:
        """Pairs of an epoch."""
        return len(self._corpus)

    def epoch(self, epoch: int, start_batch: int = 0) -> Iterator[Batch | Elsewhere]:
        """The batches of `epoch` (the first is 0) from number `start_batch` on: a pure function of the two.

        To skip to `start_batch` no batch is made; but the pools before it are counted, which takes about 30 ms for each
        2**17 pairs, or some seconds where they are segmented anew, since that changes their number of batches.
        """
        if self._running is None or self._next != (epoch, start_batch):
            self.close()
            self._running = prefetched(self._batches(epoch, start_batch), self._ahead)
        try:
            yield from self._until_the_end_of(epoch, self._running)
        except BaseException:  # GeneratorExit among them: whoever stops in mid-epoch needs no more batches
            self.close()
            raise

    def _until_the_end_of(self, epoch: int, running: Generator[_Numbered, None, None]) -> Iterator[Batch | Elsewhere]:
        for numbered in running:
            self._next = numbered.after
            yield numbered.batch
            if numbered.after[0] != epoch:
                return
        raise RuntimeError("Another epoch was begun before this one was done: iterate over one at a time.")

    def _batches(self, epoch: int, skip: int) -> Generator[_Numbered, None, None]:
        """Batches from number `skip` of `epoch` on, epoch after epoch without end."""
        number, last_pool = 0, (len(self) - 1) // self._order.pool_size
        with closing(self._examples.pools(self._order, epoch)) as pools:
            for pool in pools:
                first, lengths = skip if pool.epoch == epoch else 0, pool.lengths()
                batches = self._order.batches(*lengths, pool.epoch, pool.number)
                for left, positions in zip(reversed(range(len(batches))), batches, strict=True):
                    number += 1
                    after = (pool.epoch, number) if left or pool.number < last_pool else (pool.epoch + 1, 0)
                    if number > first:
                        own = (number - first - 1) % self._ranks == self._rank
                        batch = self._collated(pool, positions) if own else _elsewhere(lengths[1][positions])
                        yield _Numbered(batch, after)
                if pool.number == last_pool:
                    _check_reached(epoch, skip, number if pool.epoch == epoch else None)
                    number = 0

    def _collated(self, pool: Pool, positions: Ints) -> Batch:
        return collate(*pool.examples(positions), self._specials.pad, self._specials.bos, self._specials.eos)

    def batches_in_epoch(self) -> int:
        """About how many batches an epoch has: exact for a corpus of one pool whose stored ids are used."""
        stored = self._first_lengths(StoredExamples(self._corpus), self._order)
        batches = len(by_length(*stored, self._order.budget)) * len(self) / len(stored[0])
        # The same examples as they come, a chunk of them for the sake of time.
        drawn = self._first_lengths(self._examples, replace(self._order, pool_size=min(self._order.pool_size, CHUNK)))
        growth = int(longest_sides(*drawn).sum()) / int(longest_sides(*stored)[: len(drawn[0])].sum())
        return round(batches * growth)

    def _first_lengths(self, examples: Examples, order: TokenBatches) -> tuple[Ints, Ints]:
        with closing(examples.pools(order, 0)) as pools:
            return next(pools).lengths()

    def close(self) -> None:
        """End the threads."""
        if self._running is not None:
            self._running.close()
            self._running = None

    def __enter__(self) -> TrainingData:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self.close()


def _elsewhere(tgt_lengths: Ints) -> Elsewhere:
    return Elsewhere(len(tgt_lengths), int(tgt_lengths.sum()) + len(tgt_lengths))


def _check_reached(epoch: int, skip: int, batches: int | None) -> None:
    if batches is not None and batches <= skip:
        raise DataError(
            f"Epoch {epoch + 1} ends with batch {batches}, so training cannot go on after batch {skip} of it: "
            "corpus, seed or train.batch_tokens changed."
        )


def batches_of(corpus: ParallelIds, tokenizers: Tokenizers, budget: int) -> Iterator[Batch]:
    """All pairs of a corpus once, in order of length; rows x longest side <= `budget` tokens. For validation."""
    specials = tokenizers.tgt
    for rows in by_length(corpus.src.lengths, corpus.tgt.lengths, budget):
        sources, targets = ([side[row] for row in rows.tolist()] for side in (corpus.src, corpus.tgt))
        yield collate(sources, targets, specials.pad, specials.bos, specials.eos)


def longest_pair(corpus: ParallelIds) -> int:
    """Tokens of the longest side of all pairs of a corpus, as they are stored, its special token included."""
    return 1 + max(int(max(src.max(), tgt.max())) for _, src, tgt in corpus.windows())


def over_budget(corpus: ParallelIds, budget: int) -> int:
    """How many pairs of a corpus are longer than the budget of a batch, as they are stored: each is one of its own."""
    return sum(int((longest_sides(src, tgt) > budget).sum()) for _, src, tgt in corpus.windows())
