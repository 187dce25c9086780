"""Alternatives at a position: the most probable next tokens after each line's prefix, each completed by beam search."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from mt.search.beams import beam_search
from mt.search.config import DecodeConfig
from mt.search.guide import GuidedState, guided, guided_step
from mt.search.hypothesis import Hypothesis, Symbols
from mt.search.options import LineOptions, numbered
from mt.search.processors import Asked
from mt.seq2seq import StateT, Step


def alternatives(
    step: Step[StateT],
    state: StateT,
    limits: Tensor,
    symbols: Symbols,
    config: DecodeConfig,
    lines: Sequence[LineOptions] = (),
) -> list[list[Hypothesis]]:
    """The `config.n_best` most probable next tokens, the most probable first, and the best translation with each.

    The end mark is not one of them. See `mt.search.guide.Search`.
    """
    lines = numbered(lines, len(limits))
    asked = Asked(config, symbols, lines, limits)
    possible = asked.possible()
    following = _following(step, state.select(_tensor(possible, limits)), asked.of(possible))
    rows = [row for row, tokens in zip(possible, following, strict=True) for _ in tokens]
    tokens = [token for of_line in following for token in of_line]
    wishes = [replace(lines[row], prefix=(*lines[row].prefix, token)) for row, token in zip(rows, tokens, strict=True)]
    best = replace(config, search="beam", n_best=1)
    found: list[list[Hypothesis]] = [[] for _ in lines]
    for first in range(0, len(rows), max(1, len(lines))):  # no more rows at once than the lines have
        part = rows[first : first + len(lines)]
        chosen, asking = _tensor(part, limits), wishes[first : first + len(lines)]
        completed = guided(beam_search)(step, state.select(chosen), limits[chosen], symbols, best, asking)
        for row, of_prefix in zip(part, completed, strict=True):
            found[row] += of_prefix
    return found


def _tensor(rows: Sequence[int], like: Tensor) -> Tensor:
    return torch.tensor(rows, dtype=torch.int64, device=like.device)


def _following(step: Step[StateT], state: StateT, asked: Asked) -> list[list[int]]:
    """Of each line the `n_best` most probable tokens after its prefix, but for the end mark."""
    guiding, reading = guided_step(step, asked), GuidedState.start(state, asked)
    symbols, lines = asked.symbols, asked.lines
    never = _tensor([symbols.bos, symbols.eos, symbols.pad], asked.limits)
    tokens = torch.full_like(asked.limits, symbols.bos)
    found: list[list[int]] = [[] for _ in lines]
    for length in range(max((len(line.prefix) for line in lines), default=-1) + 1):
        log_probs, reading = guiding(tokens, reading)
        log_probs = log_probs[:, : symbols.size].index_fill(1, never, -math.inf)
        values, order = log_probs.sort(dim=1, descending=True, stable=True)
        for row, line in enumerate(lines):
            if len(line.prefix) == length:
                alive = order[row, values[row].isfinite()]
                found[row] = alive[: asked.config.n_best].tolist()
        after = [(*line.prefix, *[symbols.eos] * (length + 1))[length] for line in lines]
        tokens = _tensor(after, asked.limits)
    return found
