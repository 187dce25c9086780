"""Searches that follow each row along one path: greedy, and sampling.

Letters: N paths still followed, V entries of the vocabulary. A path ends at its end mark; it is cut where its limit is
reached or no token has any probability left. It then leaves the state at once.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from mt.search.beams import beam_search
from mt.search.config import DecodeConfig
from mt.search.continuations import largest
from mt.search.hypothesis import Hypothesis, Symbols
from mt.search.options import LineOptions, numbered
from mt.search.penalties import PENALTIES
from mt.search.trace import Trace
from mt.seq2seq import StateT, Step

TOGETHER = 8
"""Samples of a line that are drawn at once: memory does not grow with their number."""

Choose = Callable[[Tensor, Tensor, int], Tensor]
"""log-probabilities (N, V), which paths these are (N,), tokens generated before -> the next tokens (N,)."""


def greedy_search(
    step: Step[StateT],
    state: StateT,
    limits: Tensor,
    symbols: Symbols,
    config: DecodeConfig,
    lines: Sequence[LineOptions] = (),
) -> list[list[Hypothesis]]:
    """The most probable token at each step, of equals the lowest.

    Where a line requires phrases it is a beam of one for each number of tokens still missing (mt/search/grid.py).
    """
    if any(line.required for line in lines):
        return beam_search(step, state, limits, symbols, replace(config, beam_size=1), lines)
    trace = _follow(step, state, limits, symbols, config, lambda log_probs, _paths, _length: log_probs.argmax(1))
    return trace.best(len(limits), 1)


def sampling_search(
    step: Step[StateT],
    state: StateT,
    limits: Tensor,
    symbols: Symbols,
    config: DecodeConfig,
    lines: Sequence[LineOptions] = (),
) -> list[list[Hypothesis]]:
    """`config.samples` draws of each line; each different one once, with its count, in falling score.

    Each step draws by one number of a sequence that is a function of (seed, line's number, sample) alone.
    """
    lines = numbered(lines, len(limits))
    drawn: list[list[Hypothesis]] = [[] for _ in lines]
    for first in range(0, config.samples, TOGETHER):
        samples = range(config.samples)[first : first + TOGETHER]
        rows = torch.arange(len(lines), device=limits.device).repeat_interleave(len(samples))
        noise = _noise(lines, limits.tolist(), samples, config.seed).to(limits.device)

        def choose(log_probs: Tensor, paths: Tensor, length: int, noise: Tensor = noise) -> Tensor:
            return draw(log_probs, noise[paths, length], config)

        trace = _follow(step, state.select(rows), limits[rows], symbols, config, choose, rows)
        for of_line, more in zip(drawn, trace.best(len(lines), len(samples)), strict=True):
            of_line += more
    return [_different(of_line)[: config.n_best] for of_line in drawn]


def _noise(lines: Sequence[LineOptions], limits: Sequence[int], samples: range, seed: int) -> Tensor:
    """Numbers in [0, 1) (lines x samples, longest limit + 1) float64."""
    numbers = np.zeros((len(lines) * len(samples), max(limits, default=0) + 1))
    pairs = itertools.product(zip(lines, limits, strict=True), samples)
    for row, ((line, limit), sample) in zip(numbers, pairs, strict=True):
        row[: limit + 1] = np.random.default_rng([seed, line.number, sample]).random(limit + 1)
    return torch.from_numpy(numbers)


def draw(log_probs: Tensor, noise: Tensor, config: DecodeConfig) -> Tensor:
    """A token (N,) of each row of `log_probs` (N, V), by a number in [0, 1) of `noise` (N,) float64.

    From p^(1 / temperature), renormalised over the `top_k` most probable tokens (Fan et al. 2018, section 5), and over
    the fewest of these that hold `top_p` of their mass, and what equals the last of them (Holtzman et al. 2020, section
    3.1). The sum is inverted.
    """
    values, tokens = log_probs, None
    if config.top_k is not None:
        values, tokens = largest(values, config.top_k)
    greatest = values.amax(1, keepdim=True)
    weights = ((values - greatest.masked_fill(greatest.isneginf(), 0)) / config.temperature).exp()
    if config.top_p < 1:
        weights = weights.masked_fill(weights < _least(weights, config.top_p), 0)
    total = weights.cumsum(1, dtype=torch.float64)
    place = torch.searchsorted(total, noise[:, None] * total[:, -1:], right=True).clamp(max=weights.size(1) - 1)
    return (place if tokens is None else tokens.gather(1, place)).squeeze(1)


def _least(weights: Tensor, share: float) -> Tensor:
    """The least of the fewest `weights` (N, V) that hold `share` of their sum: (N, 1)."""
    # numpy sorts floats without their places, on a CPU thirty times faster than torch.
    rising = torch.from_numpy(np.sort(weights.numpy())) if weights.is_cpu else weights.sort(dim=1).values
    falling = rising.flip(1)
    total = falling.cumsum(1, dtype=torch.float64)
    last = (total < total[:, -1:] * share).sum(1, keepdim=True)
    return falling.gather(1, last)


def _different(drawn: Sequence[Hypothesis]) -> list[Hypothesis]:
    """Each different one once, with its count: finished before truncated, in falling score."""
    counts = Counter((one.tokens, one.truncated) for one in drawn)
    first = {(one.tokens, one.truncated): one for one in reversed(drawn)}
    return sorted(
        (replace(first[key], count=count) for key, count in counts.items()), key=lambda one: (one.truncated, -one.score)
    )


def _follow(
    step: Step[StateT],
    state: StateT,
    limits: Tensor,
    symbols: Symbols,
    config: DecodeConfig,
    choose: Choose,
    lines: Tensor | None = None,
) -> Trace:
    """Follow the rows of `state` to their ends; `limits` (N,), and `lines` (N,): of which line each row is a path."""
    trace, penalty = Trace(), PENALTIES[config.length_penalty.kind]
    paths = torch.arange(len(limits), device=limits.device)
    lines = paths if lines is None else lines
    tokens, sums = torch.full_like(paths, symbols.bos), torch.zeros(len(paths), device=limits.device)
    while len(paths):
        log_probs, state = step(tokens, state)
        length = len(trace.tokens)
        log_probs = symbols.possible(log_probs)
        tokens = choose(log_probs, paths, length)
        after = sums + log_probs.gather(1, tokens[:, None]).squeeze(1)
        ends = (tokens == symbols.eos) & after.isfinite()
        cut = ~ends & ((limits[paths] <= length) | after.isneginf())
        for rows, total, longer, truncated in ((ends, after, 1, False), (cut, sums, 0, True)):
            where = rows.nonzero().squeeze(1)
            scores = total[where] / penalty(max(length + longer, 1), config.length_penalty.alpha)
            trace.end(lines[paths[where]], where, scores, total[where], truncated=truncated)
        going = (~ends & ~cut).nonzero().squeeze(1)
        if len(going) < len(paths):
            tokens, after, paths = tokens[going], after[going], paths[going]
            state = state.select(going) if len(going) else state
        sums = after
        trace.extend(tokens, going, sums)
    return trace
