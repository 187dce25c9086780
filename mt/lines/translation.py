"""What comes back: the best translation of a line, the next best, and what there is to say about them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from mt.text.sentences import join_translations

Links = tuple[tuple[int, int], ...]
"""(number of a source word, number of a target word), both from 0: a word alignment."""


@dataclass(frozen=True)
class Alternative:
    """A translation of a line, one of several."""

    text: str
    score: float
    """What translations are ranked by: `log_prob` divided by the length penalty, unless the search ranks otherwise."""
    log_prob: float
    """Sum of the natural log-probabilities of the pieces and of the end mark."""
    truncated: bool = False
    """Cut at the length limit, before its end."""
    tokens: tuple[str, ...] = ()
    """Its pieces, the end mark included unless it is truncated."""
    token_scores: tuple[float, ...] = ()
    """Natural log-probability of each of `tokens`, whose sum is `log_prob`; empty where the engine keeps them."""
    repetitive: bool = False
    """It says something over and over that the source does not: see `repeats`."""
    alignment: Links | None = None
    """Which source word each word comes from; None where it was not asked for."""


@dataclass(frozen=True)
class Translation(Alternative):
    """The best translation of the line `source`, described as an `Alternative` is, and the next best."""

    source: str = ""
    alternatives: tuple[Alternative, ...] = ()
    """The next best, at most `n_best` - 1, each with another text."""
    cut_from: int | None = None
    """Pieces of a source that was too long, so that only its start was translated."""
    parts: tuple[str, ...] = ()
    """Of a source that was too long: what it was split into. Translated one by one and joined."""
    part_tokens: tuple[int, ...] = ()
    """How many of `tokens` the translation of each of `parts` has."""
    error: str | None = None
    """Why there is no translation of this line, as a sentence; `text` is then empty."""


def joined(parts: Sequence[Alternative], starts: Sequence[int], weights: Sequence[float]) -> Alternative:
    """One translation of the translations of a line's parts; part k begins in the line's word `starts[k]`.

    Its log-probability is their sum, its score the sum of theirs times `weights`.
    """
    if len(parts) == 1:
        return parts[0]
    texts = [part.text for part in parts]
    return Alternative(
        join_translations(texts),
        sum(weight * part.score for weight, part in zip(weights, parts, strict=True)),
        sum(part.log_prob for part in parts),
        any(part.truncated for part in parts),
        tuple(token for part in parts for token in part.tokens),
        tuple(token_score for part in parts for token_score in part.token_scores),
        any(part.repetitive for part in parts),
        _joined_links(parts, starts, texts),
    )


def _joined_links(parts: Sequence[Alternative], starts: Sequence[int], texts: list[str]) -> Links | None:
    if any(part.alignment is None for part in parts):
        return None
    found: set[tuple[int, int]] = set()
    for number, (part, start) in enumerate(zip(parts, starts, strict=True)):
        before, until = join_translations(texts[:number]), join_translations(texts[: number + 1])
        shift = first_word(until, len(until) - len(part.text)) if before else 0
        found.update((start + source, shift + target) for source, target in part.alignment or ())
    return tuple(sorted(found))


def first_word(text: str, place: int) -> int:
    """The number of the word that stands at `place`, or begins there: words are what is between spaces (U+0020)."""
    before = text[:place]
    words = len([word for word in before.split(" ") if word])
    return words - (bool(before) and before[-1] != " ")


MOST_REPEATED = 8
"""Longest sequence of pieces of which `repeats` notices that it comes again and again."""


def repeats(tokens: Sequence[int | str]) -> int:
    """The most pieces in a row of which each group of up to 8 is the one before, said at least 4 times; else 0.

    A loop of fewer than 8 pieces is none: `ha ha ha ha` is no fault.
    """
    if len(tokens) - len(set(tokens)) < MOST_REPEATED - MOST_REPEATED // 4:  # what the shortest loop would say again
        return 0
    return max((length for size in range(1, MOST_REPEATED + 1) for length in _runs(tokens, size)), default=0)


def _runs(tokens: Sequence[int | str], size: int) -> Iterator[int]:
    """Lengths of the stretches in which each token is that of `size` places before, at least 4 x size and 8 long."""
    same = [a == b for a, b in zip(tokens[size:], tokens, strict=False)]
    for run in accumulate(same, lambda length, again: (length + 1) * again, initial=0):
        if run + size >= max(4 * size, MOST_REPEATED):
            yield run + size
