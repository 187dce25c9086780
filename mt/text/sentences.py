"""Where a text that is too long can be cut: at the ends of its sentences, else as little inside them as can be.

A sentence ends

- after one or more of . ! ? and the ellipsis, with the quotes and brackets that close behind them, where white space
  follows and then no small letter; not after the full stop of an initial (J.), of letters with stops in between (z.B.),
  of a number of one or two digits (3. Oktober), or of one of `ABBREVIATIONS`;
- after the full-width and other scripts' marks of `OTHER_ENDS`, with what closes behind them, whatever follows;
- only where a letter or digit follows somewhere: in tokenised text the last quote of a line stands apart (. &quot;).

Rules as plain as these are wrong at times. They are asked only about text that would be translated badly as a whole.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator

OTHER_ENDS = "。！？｡．؟۔।॥։።፧។៕။༎"
"""Ends of sentences in Chinese, Japanese, Arabic, Urdu, Hindi, Armenian, Amharic, Khmer, Burmese and Tibetan."""

_ABBREVIATED = (
    "mr mrs ms dr prof st sr jr vs etc no nr vol fig approx ca bzw usw evtl ggf inkl sog mme mlle sra srta ud uds av cf"
    " al gen col capt lt sgt rev hon gov sen rep"
)
ABBREVIATIONS = frozenset(_ABBREVIATED.split())
"""Words that end in a full stop without ending a sentence; small letters, without the last stop."""

_CLOSING = "\"'”’»«›“)\\]}」』）】》〉"
_NO_END = re.compile(r"[^\W\d_](\.[^\W\d_])+|\d\d?")
_END = re.compile(f"[.!?…]+[{_CLOSING}]*(?=\\s)|[{OTHER_ENDS}]+[{_CLOSING}]*")
# A letter or digit, or the name of a character in HTML, which is neither.
_WORD = re.compile(r"&#?\w+;|[^\W_]")
# What can stand inside a sentence, the better places first: after a mark, then at white space, then anywhere.
_BREAKS = (re.compile(r"[;:](?=\s)|[；：]"), re.compile(r"[,–—](?=\s)|[，、،]"), re.compile(r"\s+"))


def split_sentences(text: str) -> list[str]:
    """The sentences of a text, without the white space around them; none for a blank text."""
    last = max((found.start() for found in _WORD.finditer(text) if found.group()[0] != "&"), default=0)
    ends = [found.end() for found in _END.finditer(text) if found.end() <= last and _ends_sentence(text, found)]
    return _cut(text, ends)


def split_to_fit(text: str, fits: Callable[[str], bool]) -> list[str]:
    """The sentences of a text, each that does not fit cut near its middle until its parts do; nothing is lost.

    The cut is made after a semicolon or colon, else after a comma or dash, else at white space, else between any two
    characters. A character that does not fit stays.
    """
    return [part for sentence in split_sentences(text) for part in _halve(sentence, fits)]


def join_translations(parts: list[str]) -> str:
    """One line of the parts' translations: with a space in between, save after wide characters (not Hangul)."""
    text = ""
    for part in filter(None, parts):
        text += (" " if text and not _is_wide(text[-1]) else "") + part
    return text


def _ends_sentence(text: str, found: re.Match[str]) -> bool:
    following = text[found.end() :].lstrip()[:1]
    if found.group()[0] in OTHER_ENDS:
        return True
    if following.islower():
        return False
    if found.group() != ".":
        return True
    word = "".join(text[: found.start()].rsplit(None, 1)[-1:]).lstrip("([\"'“„«‚")
    initial = len(word) == 1 and word.isupper()
    return not (initial or _NO_END.fullmatch(word) or word.lower() in ABBREVIATIONS)


def _cut(text: str, places: list[int]) -> list[str]:
    """The stretches between the places, stripped, without blank ones."""
    parts = (text[start:end].strip() for start, end in zip([0, *places], [*places, len(text)], strict=True))
    return [part for part in parts if part]


def _halve(text: str, fits: Callable[[str], bool]) -> Iterator[str]:
    if len(text) < 2 or fits(text):
        yield text
        return
    for part in _cut(text, [_near_middle(text)]):
        yield from _halve(part, fits)


def _near_middle(text: str) -> int:
    """The best place to cut, 1 to len(text) - 1, of the best kind that there is."""
    for kind in _BREAKS:
        places = [found.end() for found in kind.finditer(text) if found.end() < len(text)]
        if places:
            return min(places, key=lambda place: abs(place - len(text) / 2))
    return len(text) // 2


def _is_wide(character: str) -> bool:
    return unicodedata.east_asian_width(character) in "WF" and "HANGUL" not in unicodedata.name(character, "")
