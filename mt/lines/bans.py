"""Banned phrases as people mean them: words of the text, whatever pieces spell them.

A search bans sequences of pieces. The same word can be spelled by others, which a model takes at once when the usual
one is closed. So each translation is read as text, and a spelling that got through is banned, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from mt.text.base import Tokenizer


def says(text: str, phrase: str) -> bool:
    """Whether the phrase is there: as whole words, where it begins and ends with letters or digits of such a script."""
    return re.search(_pattern(phrase), text) is not None


def spellings(tokens: Sequence[int], phrase: str, tokenizer: Tokenizer) -> Iterator[tuple[int, ...]]:
    """The shortest stretches of `tokens` that say the phrase."""
    first = 0
    for end in range(1, len(tokens) + 1):
        starts = range(end - 1, first - 1, -1)
        start = next((start for start in starts if says(tokenizer.decode(tokens[start:end]), phrase)), None)
        if start is not None:
            yield tuple(tokens[start:end])
            first = start + 1


def _pattern(phrase: str) -> str:
    """Whole words only; in scripts without spaces between words anything that reads so."""
    before = r"(?<!\w)" if re.match(r"[^\W\u2E80-\u9FFF\uAC00-\uD7AF]", phrase) else ""
    after = r"(?!\w)" if re.search(r"[^\W\u2E80-\u9FFF\uAC00-\uD7AF]\Z", phrase) else ""
    return before + re.escape(phrase) + after
