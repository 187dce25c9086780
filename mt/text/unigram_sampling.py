"""Subword regularisation (Kudo 2018, section 3) over the pieces of a SentencePiece model, many words at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mt.text.segmentation import Ints, PairTable, Vocabulary

Floats = NDArray[np.float64]


class UnigramSampling:
    """A `Cut` that draws from all segmentations of a word, each in proportion to its probability to the power alpha.

    It filters forward and samples backward: first the weight of all segmentations of each beginning of the word, then
    one last piece after the other.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        """Build the tree of pieces: a state is a piece, by its id, or a beginning of pieces that is none, above V."""
        normal, self._nothing = vocabulary.normal, vocabulary.size
        states = dict(normal)
        steps: dict[tuple[int, int], int] = {}
        for piece in normal:
            for end in range(2, len(piece) + 1):
                state = states.setdefault(piece[:end], vocabulary.size + 1 + len(states) - len(normal))
                steps[states[piece[: end - 1]], normal[piece[end - 1]]] = state
        self._steps = PairTable(steps, vocabulary.size + 1, vocabulary.size)
        self._longest = max(map(len, normal), default=1)
        beginnings = len(states) - len(normal)
        self._scores = np.concatenate([vocabulary.scores, np.full(1 + beginnings, -np.inf)])

    def __call__(self, words: Ints, strength: float, draw: np.random.Generator) -> Ints:
        """See `Cut`; `strength` is alpha."""
        pieces = self._pieces(words)
        weights = strength * self._scores[pieces]
        weights[:, :, 0][words == self._nothing] = 0.0  # the padding has one segmentation
        return self._sample(pieces, weights, _filter(weights), draw)

    def _pieces(self, words: Ints) -> Ints:
        """The state that spells the k + 1 characters up to each one (W, L, K): a piece, or one without a score."""
        length = words.shape[1]
        pieces = np.full((*words.shape, min(self._longest, length)), self._nothing)
        pieces[:, :, 0] = state = words
        for more in range(1, pieces.shape[2]):
            state = self._steps.find(state[:, :-1], words[:, more:])
            pieces[:, more:, more] = state
        return pieces

    def _sample(self, pieces: Ints, weights: Floats, totals: Floats, draw: np.random.Generator) -> Ints:
        """Draw the last piece of what is left of each word, until nothing is left."""
        rows, length = pieces.shape[:2]
        cut = np.full((rows, length), self._nothing)
        ends = np.full(rows, length)
        for end in range(length, 0, -1):
            here = np.flatnonzero(ends == end)
            chances = np.exp(_incoming(weights, totals, end)[here] - totals[here, end, None]).cumsum(1)
            more = (chances > draw.random((len(here), 1)) * chances[:, -1:]).argmax(1)
            ends[here] = starts = end - 1 - more
            cut[here, starts] = pieces[here, end - 1, more]
        return cut


def _filter(weights: Floats) -> Floats:
    """Logarithm of the summed weights of all segmentations of the first n characters of each word (W, L + 1)."""
    totals = np.zeros((weights.shape[0], weights.shape[1] + 1))
    for end in range(1, totals.shape[1]):
        incoming = _incoming(weights, totals, end)
        highest = incoming.max(1)
        totals[:, end] = highest + np.log(np.exp(incoming - highest[:, None]).sum(1))
    return totals


def _incoming(weights: Floats, totals: Floats, end: int) -> Floats:
    """Weights of the segmentations of the first `end` characters by the length of their last piece (W, min(end, K))."""
    longest = min(end, weights.shape[2])
    return weights[:, end - 1, :longest] + totals[:, end - longest : end][:, ::-1]
