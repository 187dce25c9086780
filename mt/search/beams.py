"""Searches over beams: beam search, and diverse beam search.

Diverse beam search (Vijayakumar et al. 2018, algorithm 1, with Hamming diversity): the beam is cut into groups, each a
beam search of its own. At each step the groups choose one after another: from the log-probability of a token is taken
`diversity_penalty` for each hypothesis of the groups before that has just gone on with it. That decides what goes on,
and nothing else: sums and scores are the model's. One group is plain beam search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from mt.search.beam import Beam
from mt.search.config import DecodeConfig
from mt.search.coverage import Coverage
from mt.search.grid import Grid
from mt.search.hypothesis import Hypothesis, Symbols
from mt.search.options import LineOptions
from mt.seq2seq import StateT, Step


def beam_search(
    step: Step[StateT],
    state: StateT,
    limits: Tensor,
    symbols: Symbols,
    config: DecodeConfig,
    lines: Sequence[LineOptions] = (),
) -> list[list[Hypothesis]]:
    """Find the `config.n_best` best targets of each sentence; see `mt.search.guide.Search`.

    What happens at a step stands in mt/search/beam.py; where lines require phrases, in mt/search/grid.py.
    """
    beam = beam_of(limits, symbols, config, lines)
    coverage = Coverage.start(state, config, lines)
    while beam.tokens.numel():
        log_probs, state = step(beam.tokens, state)
        coverage = coverage and coverage.add(state)
        rows = beam.advance(log_probs, bonus=coverage.bonus() if coverage else None)
        if rows is not None and len(rows):
            state = state.select(rows)
            coverage = coverage and coverage.select(rows)
    return beam.trace.best(len(limits), config.n_best)


def diverse_beam_search(
    step: Step[StateT],
    state: StateT,
    limits: Tensor,
    symbols: Symbols,
    config: DecodeConfig,
    lines: Sequence[LineOptions] = (),
) -> list[list[Hypothesis]]:
    """The best of all groups together; see `mt.search.guide.Search`."""
    size = config.group_size
    of_group = replace(config, beam_groups=1, beam_size=size, n_best=size)
    groups = [beam_of(limits, symbols, of_group, lines) for _ in range(config.beam_size // size)]
    state = state.select(torch.arange(len(limits), device=limits.device).repeat(len(groups)))
    coverage = Coverage.start(state, config, list(lines) * len(groups))
    while sum(counts := [len(group.tokens) for group in groups]):
        log_probs, state = step(torch.cat([group.tokens for group in groups]), state)
        coverage = coverage and coverage.add(state)
        bonus = coverage.bonus() if coverage else None
        taken = log_probs.new_zeros(len(limits), log_probs.size(1))
        kept = []
        for group, rows in zip(groups, _ranges(counts, limits.device), strict=True):
            if not len(rows):
                continue
            of_rows = group.sentences.repeat_interleave(group.sums.size(1))
            discouraged = config.diversity_penalty * taken[of_rows]
            moved = group.advance(log_probs[rows], discouraged, None if bonus is None else bonus[rows])
            kept.append(rows if moved is None else rows[moved])
            _take(taken, group)
        state = state.select(torch.cat(kept))
        coverage = coverage and coverage.select(torch.cat(kept))
    found = [group.trace.best(len(limits), size) for group in groups]
    return [_merged(of_line)[: config.n_best] for of_line in zip(*found, strict=True)]


def beam_of(limits: Tensor, symbols: Symbols, config: DecodeConfig, lines: Sequence[LineOptions]) -> Beam:
    """The beams of `lines`, before the first step."""
    if any(line.required for line in lines):
        return Grid(limits, symbols, config, lines)
    return Beam(limits, symbols, config)


def _ranges(counts: Sequence[int], device: torch.device) -> list[Tensor]:
    """The rows of each group."""
    return [torch.arange(count, device=device) + sum(counts[:place]) for place, count in enumerate(counts)]


def _take(taken: Tensor, group: Beam) -> None:
    """Count in `taken` (B, V) the tokens with which the hypotheses of a group have just gone on."""
    sentences = group.sentences.repeat_interleave(group.sums.size(1))
    alive = group.sums.view(-1).isfinite()
    taken.index_put_((sentences[alive], group.tokens[alive]), taken.new_ones(()), accumulate=True)


def _merged(found: Sequence[Sequence[Hypothesis]]) -> list[Hypothesis]:
    """The different hypotheses of all groups: finished before truncated, in falling score, the earlier group first."""
    different = {(one.tokens, one.truncated): one for of_group in reversed(found) for one in of_group}
    earlier_first = reversed(different.values())
    return sorted(earlier_first, key=lambda one: (one.truncated, -one.score))
