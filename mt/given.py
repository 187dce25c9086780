"""Translations that are given: how probable the model finds each, and each of its pieces.

The score is the one that `mt translate` would print for the same pieces: natural logarithms, the end mark included.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from mt.engine import Engine
from mt.errors import DataError
from mt.lines.request import check_text
from mt.search.config import DecodeConfig
from mt.search.penalties import PENALTIES
from mt.text.tokenizer import Tokenizers


@dataclass(frozen=True)
class Given:
    """A translation to be scored. Raises DataError where it is no text."""

    source: str
    translation: str
    tokens: tuple[str, ...] | None = None
    """The pieces that spell it, end marks included, where they are known; None: those of the tokenizer."""
    parts: tuple[str, ...] = ()
    """What the source was split into."""
    part_tokens: tuple[int, ...] = ()
    """How many of `tokens` the translation of each of `parts` has."""
    place: str = ""
    """What errors call it, such as `FILE, line 3: `."""

    def __post_init__(self) -> None:
        for name in ("source", "translation"):
            check_text(name, getattr(self, name))


@dataclass(frozen=True)
class Scored:
    """A translation and its score."""

    source: str
    translation: str
    score: float
    """`log_prob` divided by the length penalty."""
    log_prob: float
    """Sum of `token_scores`."""
    tokens: tuple[str, ...]
    """Its pieces, the end mark included; none where source and translation are blank."""
    token_scores: tuple[float, ...]
    """Natural log-probability of each of `tokens`, given the source and the tokens before it."""
    unknown: int
    """Pieces of the translation that the vocabulary does not have."""


@dataclass(frozen=True)
class _Segment:
    """A source and the ids of its target; `ends`: the end mark counts."""

    source: str
    target: list[int]
    ends: bool


class Scoring:
    """Scores translations with a model."""

    def __init__(self, engine: Engine, tokenizers: Tokenizers, config: DecodeConfig) -> None:
        """`config` has the length penalty."""
        self.engine, self.config = engine, config
        self.src, self.tgt = tokenizers.src, tokenizers.tgt
        self.ids = {piece: index for index, piece in enumerate(self.tgt.pieces)}

    def score(self, lines: Sequence[Given]) -> list[Scored]:
        """Score lines that are all there.

        Raises:
            DataError: `tokens` holds what is no piece of the vocabulary, or the model cannot hold a line.
        """
        segments = [self._segments(line) for line in lines]
        flat = [segment for of_line in segments for segment in of_line]
        sources = self.src.encode_batch([segment.source for segment in flat])
        owners = (line for line, of_line in zip(lines, segments, strict=True) for _ in of_line)
        for line, source, segment in zip(owners, sources, flat, strict=True):
            self._check(line, len(source), len(segment.target))
        found = iter(self.engine.log_probs(sources, [segment.target for segment in flat]))
        return [
            self._scored(line, of_line, [next(found) for _ in of_line])
            for line, of_line in zip(lines, segments, strict=True)
        ]

    def _check(self, line: Given, source: int, target: int) -> None:
        """Refuse a source and a translation of so many pieces where the model cannot hold them."""
        most, room = self.engine.reach.source, self.engine.reach.translation(source)
        if source > most or target > room:
            which, pieces, most = ("source", source, most) if source > most else ("translation", target, room)
            raise DataError(
                f"{line.place}the {which} has {pieces} pieces, but the model can hold {most:.0f}: leave the line out, "
                "or score it in parts."
            )

    def _segments(self, line: Given) -> list[_Segment]:
        if line.tokens is None:
            blank = not line.source.strip() and not line.translation.strip()
            return [] if blank else [_Segment(line.source, self.tgt.encode(line.translation), ends=True)]
        for token in line.tokens:
            if token not in self.ids:
                raise DataError(
                    f"{line.place}'{token}' is no piece of this model's target vocabulary; score it as plain text."
                )
        ids = map(self.ids.__getitem__, line.tokens)
        parts = zip(line.parts, line.part_tokens, strict=True) if line.parts else [(line.source, len(line.tokens))]
        return [self._segment(source, list(islice(ids, count))) for source, count in parts if count]

    def _segment(self, source: str, ids: list[int]) -> _Segment:
        ends = ids[-1] == self.tgt.eos
        return _Segment(source, ids[:-1] if ends else ids, ends)

    def _scored(self, line: Given, segments: Sequence[_Segment], found: Sequence[list[float]]) -> Scored:
        ids = [index for one in segments for index in (*one.target, *[self.tgt.eos] * one.ends)]
        scores = [
            score for one, scores in zip(segments, found, strict=True) for score in scores[: len(one.target) + one.ends]
        ]
        penalty = PENALTIES[self.config.length_penalty.kind](max(len(ids), 1), self.config.length_penalty.alpha)
        log_prob = sum(scores)
        return Scored(
            line.source,
            line.translation,
            log_prob / penalty,
            log_prob,
            tuple(self.tgt.pieces[index] for index in ids),
            tuple(scores),
            ids.count(self.tgt.unk),
        )


def given_of(fields: Mapping[str, Any], place: str) -> Given:
    """What a line that `mt translate --format jsonl` wrote says; `DataError` with its place where it says nothing."""
    for name in ("source", "translation"):
        if not isinstance(fields.get(name), str):
            raise DataError(f'{place}: "{name}" must be there and be text.')
    for name in ("tokens", "parts"):
        value = fields.get(name, [])
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise DataError(f'{place}: "{name}" must be a list of texts.')
    if fields.get("tokens") == [] and fields["translation"].strip():
        raise DataError(f'{place}: "tokens" is empty, but "translation" is not; leave "tokens" out to score the text.')
    if not fields.get("tokens"):  # a line that has no translation is no sure thing
        return Given(fields["source"], fields["translation"], place=f"{place}: ")
    tokens, parts, counts = (fields.get(name, []) for name in ("tokens", "parts", "part_tokens"))
    if not _are_counts(counts, len(parts), len(tokens) if parts else 0):
        raise DataError(f'{place}: "part_tokens" must say of each of "parts" how many of "tokens" are its own.')
    return Given(fields["source"], fields["translation"], tuple(tokens), tuple(parts), tuple(counts), f"{place}: ")


def _are_counts(counts: Any, number: int, total: int) -> bool:
    """Whether these are so many numbers with that sum."""
    if not isinstance(counts, list) or not all(isinstance(one, int) and one >= 0 for one in counts):
        return False
    return (len(counts), sum(counts)) == (number, total)
