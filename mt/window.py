"""Lines that are translated together: from requests to sources that an engine searches, and back to translations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from mt.engine import Engine
from mt.lines.alignment import align, copy_unknown, source_words
from mt.lines.bans import says, spellings
from mt.lines.lengths import Lengths
from mt.lines.request import Request
from mt.lines.translation import Alternative, Translation, first_word, joined, repeats
from mt.models.reach import Reach
from mt.scoring.utility import utilities
from mt.search.config import DecodeConfig
from mt.search.hypothesis import Hypothesis, Symbols
from mt.search.options import LineOptions, impossible
from mt.search.penalties import PENALTIES
from mt.search.risk import minimum_bayes_risk
from mt.text.sentences import split_sentences, split_to_fit
from mt.text.tokenizer import Tokenizers

ROUNDS = 8
"""Searches of a line at most, where banned phrases come back in other spellings."""


@dataclass
class Source:
    """What an engine searches a translation of: a line, or a part of one."""

    text: str
    ids: list[int]
    first_word: int
    """The number of its first word in the line."""
    options: LineOptions
    found: list[tuple[str, Hypothesis]] = field(default_factory=list)
    """Its translations, best first, each with another text."""
    described: list[Alternative] = field(default_factory=list)
    """The same, with all that is said of them."""


@dataclass
class Line:
    """A request under way."""

    request: Request
    sources: list[Source]
    """None for a blank line, several for one that is too long."""
    cut_from: int | None = None
    error: str | None = None


def _lengths(config: DecodeConfig, usual: Lengths | None, reach: Reach) -> Lengths | None:
    """When a source is too long; None: never."""
    lengths = Lengths.at_most(config.max_source_length) if config.max_source_length else usual
    if lengths is None and isfinite(reach.source):
        return Lengths.at_most(int(reach.source))
    return lengths and lengths.within(reach.source)


class Window:
    """Translates requests that have the same settings."""

    def __init__(self, engine: Engine, tokenizers: Tokenizers, config: DecodeConfig, lengths: Lengths | None) -> None:
        """`lengths`: those of training, where the config does not say when a source is too long."""
        self.engine = engine
        self.src, self.tgt = tokenizers.src, tokenizers.tgt
        self.config = config
        self.reach = engine.reach
        self.lengths = _lengths(config, lengths, engine.reach)
        self.symbols = Symbols(self.tgt.bos, self.tgt.eos, self.tgt.pad, len(self.tgt))

    def translate(self, requests: Sequence[Request], numbers: Sequence[int], alignments: bool) -> list[Translation]:
        """The translation of each request; `numbers` are those of their lines in the whole input, from 0."""
        ids = self.src.encode_batch([request.text for request in requests])
        lines = [self._begin(*line) for line in zip(requests, numbers, ids, strict=True)]
        pairs = [(line, source) for line in lines for source in line.sources]
        sources = [source for _, source in pairs]
        if sources and (alignments or self.config.unknown == "copy"):
            self.engine.attention([sources[0].ids], [[]])  # a model that has none is refused before it searches
        self._search(pairs)
        self._describe(sources, alignments)
        return [self._end(line) for line in lines]

    def _begin(self, request: Request, number: int, ids: list[int]) -> Line:
        if not request.text.strip() or not ids:
            wishes = request.prefix or request.constraints
            return Line(request, [], error="A blank line has no translation to hold anything." if wishes else None)
        if request.wishes and self.engine.without_wishes:
            return Line(request, [], error=self.engine.without_wishes)
        banned = [tuple(self.tgt.encode(phrase)) for phrase in request.banned]
        banned += [(self.tgt.unk,)] * (self.config.unknown == "forbid")
        prefix, *required = (tuple(self.tgt.encode(phrase)) for phrase in (request.prefix, *request.constraints))
        for phrase, pieces in zip((request.prefix, *request.constraints), (prefix, *required), strict=True):
            if self.tgt.unk in pieces or (phrase.strip() and not pieces):
                return Line(request, [], error=f"'{phrase}' cannot be spelled with the pieces of the target side.")
        options = LineOptions(number, prefix=prefix, required=tuple(required), forbidden=tuple(filter(None, banned)))
        sources, cut_from = self._sources(request, ids, options)
        if (longest := max((len(source.ids) for source in sources), default=0)) > self.reach.source:
            return Line(request, [], error=self._too_long(longest))
        return Line(request, sources, cut_from)

    def _too_long(self, pieces: int) -> str:
        return (
            f"It has {pieces} pieces, but the model can hold {self.reach.source:.0f}: let decode.long_source split it, "
            "where it has no constraints, or cut it."
        )

    def _sources(self, request: Request, ids: list[int], options: LineOptions) -> tuple[list[Source], int | None]:
        """The line as one source; or several, or cut, where it is too long."""
        texts = self._parts(request, ids)
        if self.config.long_source == "cut" and self.lengths and len(ids) > self.lengths.longest:
            return [Source(request.text, ids[: self.lengths.longest], 0, options)], len(ids)
        if len(texts) == 1:
            return [Source(request.text, ids, 0, options)], None
        parts, place = list[Source](), 0
        for text, pieces in zip(texts, self.src.encode_batch(texts), strict=True):
            place = request.text.index(text, place)
            if pieces:
                wishes = options if not parts else replace(options, prefix=())
                parts.append(Source(text, pieces, first_word(request.text, place), wishes))
            place += len(text)
        return parts, None

    def _parts(self, request: Request, ids: list[int]) -> list[str]:
        """What a line is split into; itself alone, where it is not."""
        lengths = self.lengths
        if lengths is None or self.config.long_source != "split" or request.constraints:
            return [request.text]
        if len(ids) <= lengths.pieces and len(split_sentences(request.text)) <= (lengths.sentences or len(ids)):
            return [request.text]
        return split_to_fit(request.text, lambda text: len(self.src.encode(text)) <= lengths.longest)

    def _search(self, todo: list[tuple[Line, Source]]) -> None:
        """Find the translations of sources; again, with more banned, where a banned phrase was spelled otherwise."""
        for _ in range(ROUNDS):
            if not todo:
                return
            searched = self.engine.search(
                [source.ids for _, source in todo], self.config, [source.options for _, source in todo]
            )
            again = []
            for (line, source), hypotheses in zip(todo, searched, strict=True):
                if not hypotheses:
                    line.error = line.error or self._reason(source)
                elif more := self._banned(line.request.banned, hypotheses):
                    source.options = replace(source.options, forbidden=(*source.options.forbidden, *more))
                    again.append((line, source))
                else:
                    source.found = self._different(hypotheses)
            todo = again
        for line, _ in todo:
            line.error = line.error or "The model says what is banned in ever new spellings."

    def _reason(self, source: Source) -> str:
        limit = self.config.limit(len(source.ids), self.reach.translation(len(source.ids)))
        wishes = replace(source.options, min_length=self.config.shortest(len(source.ids)))
        why = impossible(wishes, limit, self.symbols, self.config)
        return f"What is asked for cannot be met: {why or f'no translation of up to {limit} pieces does'}."

    def _banned(self, phrases: Sequence[str], hypotheses: Sequence[Hypothesis]) -> set[tuple[int, ...]]:
        if not phrases:
            return set()
        texts = self.tgt.decode_batch([one.tokens for one in hypotheses])
        return {
            spelling
            for text, one in zip(texts, hypotheses, strict=True)
            for phrase in phrases
            if says(text, phrase)
            for spelling in spellings(one.tokens, phrase, self.tgt)
        }

    def _utility(self, hypotheses: Sequence[Hypothesis]) -> list[list[float]]:
        assert self.config.mbr_metric is not None
        texts = self.tgt.decode_batch([hypothesis.tokens for hypothesis in hypotheses])
        return utilities(texts, self.config.mbr_metric)

    def _different(self, hypotheses: Sequence[Hypothesis]) -> list[tuple[str, Hypothesis]]:
        """The best `n_best` with different texts; a text is one line, whatever pieces the model chose."""
        if self.config.mbr_metric is not None:
            hypotheses = minimum_bayes_risk(hypotheses, self.config.search == "sample", self._utility)
        texts = self.tgt.decode_batch([hypothesis.tokens for hypothesis in hypotheses])
        best: dict[str, Hypothesis] = {}
        for text, found in zip(texts, hypotheses, strict=True):
            best.setdefault(text.replace("\n", " ").replace("\r", " "), found)
        return list(best.items())[: self.config.n_best]

    def _describe(self, sources: Sequence[Source], alignments: bool) -> None:
        """Say all that there is to say of the translations that were found."""
        pairs = [(source, text, found) for source in sources for text, found in source.found]
        looked = [(source, found) for source, _, found in pairs if alignments or self._copies(found)]
        attention = iter(
            self.engine.attention([source.ids for source, _ in looked], [list(found.tokens) for _, found in looked])
        )
        for source, text, found in pairs:
            one = self._alternative(source, text, found)
            if alignments or self._copies(found):
                one = self._aligned(one, source, found, next(attention))
            source.described.append(one if alignments else replace(one, alignment=None))

    def _aligned(
        self, one: Alternative, source: Source, found: Hypothesis, attention: NDArray[np.float32]
    ) -> Alternative:
        """With an alignment, and with the words that are to be copied by it."""
        targets = self.tgt.words_of(found.tokens, decoded=True)
        links = align(attention, source_words(self.src, source.text, source.ids), targets)
        if not self._copies(found):
            return replace(one, alignment=links)
        unknown = [targets[place][0] for place, token in enumerate(found.tokens) if token == self.tgt.unk]
        return replace(one, alignment=links, text=copy_unknown(one.text, unknown, links, source.text))

    def _copies(self, found: Hypothesis) -> bool:
        return self.config.unknown == "copy" and self.tgt.unk in found.tokens

    def _alternative(self, source: Source, text: str, found: Hypothesis) -> Alternative:
        tokens = [*found.tokens, *[self.tgt.eos] * (not found.truncated)]
        return Alternative(
            text,
            found.score,
            found.log_prob,
            found.truncated,
            tuple(self.tgt.pieces[token] for token in tokens),
            found.token_log_probs,
            bool(repeats(found.tokens)) and not repeats(source.ids),
        )

    def _end(self, line: Line) -> Translation:
        """The best of each part make the best translation, the next best the next; a part with fewer, its last."""
        of_parts = [source.described for source in line.sources]
        if line.error is not None or not of_parts:
            return Translation("", 0.0, 0.0, source=line.request.text, error=line.error)
        starts, weights = [source.first_word for source in line.sources], self._weights(of_parts)
        different: dict[str, Alternative] = {}
        for rank in range(max(map(len, of_parts))):
            one = joined([found[min(rank, len(found) - 1)] for found in of_parts], starts, weights)
            different.setdefault(one.text, one)
        best, *others = different.values()
        parts = [(source.text, len(source.described[0].tokens)) for source in line.sources if len(of_parts) > 1]
        return Translation(
            **vars(best),
            source=line.request.text,
            alternatives=tuple(others),
            cut_from=line.cut_from,
            parts=tuple(text for text, _ in parts),
            part_tokens=tuple(count for _, count in parts),
        )

    def _weights(self, of_parts: Sequence[Sequence[Alternative]]) -> list[float]:
        """Of the scores of a line's parts, by the lengths of the best, so that its n best have falling scores, too.

        That of the best is its log-probability divided by the length penalty; or a mean of expected utilities.
        """
        penalty = self.config.length_penalty
        by_length = self.config.mbr_metric is not None
        lengths = [max(1, len(found[0].tokens)) for found in of_parts]
        whole, *divisors = (
            length if by_length else PENALTIES[penalty.kind](length, penalty.alpha)
            for length in (sum(lengths), *lengths)
        )
        return [divisor / whole for divisor in divisors]
