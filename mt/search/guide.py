"""Wishes and penalties as a step and a state around those of the model, so that every search obeys them.

A search knows nothing of them: `guided` wraps the model's state into one that also remembers what each row has read,
and the step into one that changes its log-probabilities. Where nothing is wished nothing is wrapped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol

import torch
from torch import Tensor

from mt.search.config import DecodeConfig
from mt.search.hypothesis import Hypothesis, Symbols
from mt.search.options import LineOptions, fulfils, numbered
from mt.search.phrases import Phrases
from mt.search.processors import PROCESSORS, Asked, Prefix, Read, unpenalised
from mt.seq2seq import StateT, Step


class Search(Protocol):
    """How a search is called."""

    def __call__(
        self,
        step: Step[StateT],
        state: StateT,
        limits: Tensor,
        symbols: Symbols,
        config: DecodeConfig,
        lines: Sequence[LineOptions] = (),
    ) -> list[list[Hypothesis]]:
        """Find the `config.n_best` best targets of each line, best first; fewer where fewer exist.

        Args:
            step: the model.
            state: its start, one row a line, that has read nothing.
            limits: (B,) int64, on the state's device: most tokens of each target, the end mark not counted.
            symbols: the special ids of the vocabulary.
            config: the recipe's `decode` block.
            lines: what each line wishes; none at all: nothing, and rows are numbered from 0.

        Returns:
            For each line its hypotheses; none where its wishes cannot be met (`mt.search.options.impossible`).
        """
        ...


@dataclass(frozen=True)
class GuidedState(Generic[StateT]):
    """The model's state, and what its rows have read."""

    inner: StateT
    read: Read

    @classmethod
    def start(cls, state: StateT, asked: Asked) -> GuidedState[StateT]:
        """Of `state`, one row a line, that has read nothing."""
        return cls(state, Read.start(len(asked.lines), asked.limits.device))

    @property
    def attention(self) -> Tensor | None:
        """The model's; see `mt.seq2seq.Attentive`."""
        attention: Tensor | None = getattr(self.inner, "attention", None)
        return attention

    def select(self, rows: Tensor) -> GuidedState[StateT]:
        """Keep `rows` (N',), in that order."""
        return GuidedState(self.inner.select(rows), self.read.select(rows))


def guided(core: Search) -> Search:
    """A search that does what `core` does, under the penalties of the recipe and the wishes of the lines."""

    def search(
        step: Step[StateT],
        state: StateT,
        limits: Tensor,
        symbols: Symbols,
        config: DecodeConfig,
        lines: Sequence[LineOptions] = (),
    ) -> list[list[Hypothesis]]:
        lines = numbered(lines, len(limits))
        if not any(_wishes(line) for line in lines) and not _penalises(config):
            return core(step, state, limits, symbols, config, lines)
        asked = Asked(config, symbols, lines, limits)
        found: list[list[Hypothesis]] = [[] for _ in lines]
        for rows in _parts(lines, asked.possible()):
            for row, of_line in zip(rows, _search_rows(core, step, state, asked, rows), strict=True):
                found[row] = of_line
        return found

    return search


def _parts(lines: Sequence[LineOptions], possible: Sequence[int]) -> Iterator[list[int]]:
    """The lines `possible` in parts that are searched together.

    Required phrases make a search wider (mt/search/grid.py). Lines without any do not pay for it; of the others so many
    go together that they take no more rows than all lines would without phrases.
    """
    if plain := [row for row in possible if not lines[row].required]:
        yield plain
    width = {row: 1 + Phrases(lines[row].required).least for row in possible if lines[row].required}
    part: list[int] = []
    for row in sorted(width, key=width.__getitem__):
        if part and (len(part) + 1) * width[row] > len(lines):
            yield part
            part = []
        part.append(row)
    if part:
        yield part


def _search_rows(
    core: Search, step: Step[StateT], state: StateT, asked: Asked, rows: Sequence[int]
) -> list[list[Hypothesis]]:
    """What is found for the lines `rows` of those that are asked for."""
    asked = asked.of(rows)
    guiding = GuidedState.start(state.select(torch.tensor(rows, device=asked.limits.device)), asked)
    found = core(guided_step(step, asked), guiding, asked.limits, asked.symbols, asked.config, asked.lines)
    return [
        [unpenalised(one, asked.config, line.prefix) for one in of_line if fulfils(one.tokens, line)]
        for line, of_line in zip(asked.lines, found, strict=True)
    ]


def _wishes(line: LineOptions) -> bool:
    return bool(line.min_length or line.prefix or line.required or line.forbidden)


def _penalises(config: DecodeConfig) -> bool:
    return config.repetition_penalty != 1 or config.no_repeat_ngram_size is not None


def guided_step(step: Step[StateT], asked: Asked) -> Step[GuidedState[StateT]]:
    """`step`, with its log-probabilities changed by what is asked."""
    processors = [processor for make in PROCESSORS.values() if (processor := make(asked)) is not None]
    prefix = Prefix.of(asked)

    def guided_step(tokens: Tensor, state: GuidedState[StateT]) -> tuple[Tensor, GuidedState[StateT]]:
        log_probs, inner = step(tokens, state.inner)
        read = state.read.append(tokens)
        changed = log_probs
        for processor in processors:
            changed = processor(changed, read)
        if prefix is not None:
            changed = prefix.force(log_probs, changed, read)
        return changed, GuidedState(inner, read)

    return guided_step
