"""A generated corpus: the same dates, sums, lists and numbers said in two languages by Unicode CLDR and num2words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from mt.corpora.kinds import KINDS, Draw
from mt.corpora.language import Language, UnsayableError, tidy
from mt.errors import DataError

_ATTEMPTS = 20  # draws a phrase wanted; kinds with few phrases run dry long before


@dataclass
class Phrases:
    """Generated pairs, each source once, and what was left out while they were drawn."""

    pairs: list[tuple[str, str]] = field(default_factory=list)
    ambiguous: int = 0
    """Sources left out because two targets were drawn for them."""
    unsayable: dict[str, int] = field(default_factory=dict)
    """Draws left out, by kind, because Babel or num2words cannot say them in one of the languages."""


def generate_phrases(source: Language, target: Language, count: int, seed: int) -> Phrases:
    """Draw `count` pairs of which no source has two translations: the corpus is a function from source to target.

    The same on every Python version and machine, given the versions of Babel and num2words. DataError where the two
    languages have too few phrases in common.
    """
    phrases = Phrases()
    translations: dict[str, str | None] = {}
    for said, translation in _draw(source, target, count * _ATTEMPTS, seed, phrases.unsayable):
        known = translations.setdefault(said, translation)
        if known is not None and known != translation:
            translations[said] = None
            phrases.ambiguous += 1
        if len(translations) - phrases.ambiguous == count:
            phrases.pairs = [(key, value) for key, value in translations.items() if value is not None]
            return phrases
    raise DataError(
        f"Only {len(translations) - phrases.ambiguous} different phrases from {source.code} to {target.code} can be "
        f"generated, but data.generate asks for {count} (pairs and twice held_out); ask for fewer."
    )


def _draw(
    source: Language, target: Language, attempts: int, seed: int, unsayable: dict[str, int]
) -> Iterator[tuple[str, str]]:
    draw = Draw(seed)
    lots = [name for name, (_, weight) in KINDS.items() for _ in range(weight)]
    for _ in range(attempts):
        name = draw.pick(lots)
        say = KINDS[name][0](draw)
        try:
            yield tidy(say(source)), tidy(say(target))
        except (KeyError, UnsayableError):  # CLDR lacks the name or format, num2words the words
            unsayable[name] = unsayable.get(name, 0) + 1
