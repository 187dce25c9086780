"""What one line asks of its translation; no part of it is text, and nothing here imports torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mt.search.config import DecodeConfig
from mt.search.hypothesis import Symbols
from mt.search.phrases import Phrase, Phrases, holds


@dataclass(frozen=True)
class LineOptions:
    """Wishes of one line, in ids of the target vocabulary; the default wishes nothing.

    A search gets one for each row of its start state, or none at all.
    """

    number: int = 0
    """The line's number in the input, or any other name of it: samples are a function of it and of `decode.seed`."""
    source_length: int = 0
    """Positions of the source that hold something, its end mark included; the coverage penalty reads it."""
    min_length: int = 0
    """Fewest tokens, the end mark not counted."""
    prefix: Phrase = ()
    """What the translation begins with."""
    required: tuple[Phrase, ...] = ()
    """Each occurs in the translation, as neighbouring tokens; occurrences may overlap."""
    forbidden: tuple[Phrase, ...] = ()
    """None occurs in the translation."""


def numbered(lines: Sequence[LineOptions], count: int) -> Sequence[LineOptions]:
    """`lines`; where there are none, `count` that wish nothing, numbered from 0."""
    return lines or [LineOptions(number) for number in range(count)]


def impossible(line: LineOptions, limit: int, symbols: Symbols, config: DecodeConfig) -> str | None:
    """Why no translation of at most `limit` tokens is what `line` wishes, as part of a sentence; None if one may be.

    For such a line, and for one whose search fails because of its wishes, a search returns no hypothesis.
    """
    if line.required and config.search == "sample":
        return "decode.search sample cannot require phrases; beam, greedy, diverse and alternatives can"
    specials = {symbols.bos, symbols.eos, symbols.pad}
    wishes = {"prefix": (line.prefix,), "required phrase": line.required, "forbidden phrase": line.forbidden}
    for name, phrases in wishes.items():
        for phrase in phrases:
            if not phrase and name != "prefix":
                return f"a {name} is empty"
            if specials & set(phrase) or any(not 0 <= token < symbols.size for token in phrase):
                return f"the {name} holds a token that is never generated"
    needed = max(line.min_length, _needed(line))
    if needed > limit:
        return f"it needs {needed} pieces and the limit is {limit}"
    for name in ("prefix", "required phrase"):
        if any(holds(phrase, forbidden) for phrase in wishes[name] for forbidden in line.forbidden):
            return f"the {name} holds a forbidden phrase"
    return None


def _needed(line: LineOptions) -> int:
    """Fewest tokens of a translation with the prefix and the required phrases."""
    phrases = Phrases(line.required)
    progress = phrases.start
    for token in line.prefix:
        progress = phrases.after(progress, token)
    return len(line.prefix) + phrases.need(progress)


def fulfils(tokens: Sequence[int], line: LineOptions) -> bool:
    """Whether a translation has what the line wishes; a cut one may be too short."""
    return (
        tuple(tokens[: len(line.prefix)]) == line.prefix
        and all(holds(tokens, phrase) for phrase in line.required)
        and not any(holds(tokens, phrase) for phrase in line.forbidden)
    )
