"""Wishes and penalties as a step and a state around those of the model, so that every search obeys them.

A search knows nothing of them: `guided` wraps the model's state into one that also remembers what each row has read,
and the step into one that changes its log-probabilities. Where nothing is wished nothing is wrapped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol

import torch
from torch import Tensor

from mt.search.config import DecodeConfig
from mt.search.hypothesis import Hypothesis, Symbols
from mt.search.options import LineOptions, fulfils, impossible
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
        lines = lines or [LineOptions(number) for number in range(len(limits))]
        if not any(_wishes(line) for line in lines) and not _penalises(config):
            return core(step, state, limits, symbols, config, lines)
        most = limits.tolist()
        possible = [row for row, line in enumerate(lines) if impossible(line, most[row], symbols) is None]
        rows = torch.tensor(possible, dtype=torch.int64, device=limits.device)
        asked = Asked(config, symbols, [lines[row] for row in possible], limits.device)
        inner = GuidedState(state.select(rows), Read.start(len(rows), limits.device))
        hypotheses = core(_guided_step(step, asked), inner, limits[rows], symbols, config, asked.lines)
        found: list[list[Hypothesis]] = [[] for _ in lines]
        for row, of_line in zip(possible, hypotheses, strict=True):
            own = [unpenalised(one, config, lines[row].prefix) for one in of_line]
            found[row] = [one for one in own if fulfils(one.tokens, lines[row])]
        return found

    return search


def _wishes(line: LineOptions) -> bool:
    return bool(line.min_length or line.prefix or line.required or line.forbidden)


def _penalises(config: DecodeConfig) -> bool:
    return config.repetition_penalty != 1 or config.no_repeat_ngram_size is not None


def _guided_step(step: Step[StateT], asked: Asked) -> Step[GuidedState[StateT]]:
    processors = [processor for make in PROCESSORS.values() if (processor := make(asked)) is not None]
    prefix = Prefix.of(asked.lines, asked.device)

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
