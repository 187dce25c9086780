"""Random segmentations by a SentencePiece model, drawn with numpy and so the same in every process.

SentencePiece (0.2.3) draws them, too, but from more than the seed that it is given: another process, another
segmentation. Here all words of a batch are segmented at once: the normalised text is cut before each U+2581, its
characters become the ids of their pieces, and words of about the same length become the rows of a matrix (W, L), which
a `Cut` turns into pieces. All else is as SentencePiece does it: a user symbol is one piece, and unknown characters are
spelled as bytes, or a run of them is one unknown piece.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

_MARK = 0x2581  # begins a word in normalised text
_SHORT = 8  # characters of the words in the narrowest matrix; each next one is twice as wide
_CELLS = 2**17  # of a matrix at most, so that it stays in the processor's cache


class Cut(Protocol):
    """A way to segment words."""

    def __call__(self, words: Ints, strength: float, draw: np.random.Generator) -> Ints:
        """Words (W, L) of character pieces, padded at the right with V, to the piece that begins at each character.

        V stands where none begins. An id that no rule of the vocabulary names, such as a user symbol's, stays.
        """
        ...


@dataclass(frozen=True)
class Vocabulary:
    """What a SentencePiece model of V pieces knows; `normal` are those that text is made of, id by piece."""

    size: int
    normal: Mapping[str, int]
    symbols: Mapping[str, int]
    byte_ids: Ints
    """Of each byte (256,); empty where unknown characters are not spelled."""
    unk: int
    scores: NDArray[np.float64]
    """(V,)"""


class PairTable:
    """A mapping of pairs of ids, the second below `size`, for many pairs at once."""

    def __init__(self, entries: Mapping[tuple[int, int], int], size: int, missing: int) -> None:
        keys = np.array([first * size + second for first, second in entries], np.int64)
        order = keys.argsort()
        self._keys = np.append(keys[order], np.iinfo(np.int64).max)
        self._values = np.append(np.array(list(entries.values()), np.int64)[order], missing)
        self._size, self._missing = size, missing

    def find(self, first: Ints, second: Ints) -> Ints:
        """The value of each pair, or `missing`."""
        wanted = first * self._size + second
        places = self._keys.searchsorted(wanted)
        return np.where(self._keys[places] == wanted, self._values[places], self._missing)


class Segmenter:
    """Segments normalised text with a `Cut`."""

    def __init__(self, vocabulary: Vocabulary, cut: Cut) -> None:
        self._vocabulary, self._cut = vocabulary, cut
        self._starts = np.full(0x110000, vocabulary.unk, np.int64)
        for piece, index in vocabulary.normal.items():
            if len(piece) == 1:
                self._starts[ord(piece)] = index
        longest_first = sorted(vocabulary.symbols, key=len, reverse=True)
        self._symbols = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def sample(self, texts: Sequence[str], seed: int, strength: float) -> list[list[int]]:
        """Ids of the pieces of each normalised line: a pure function of the arguments."""
        codes, ids, lines = self._characters(texts)
        draw = np.random.Generator(np.random.PCG64(seed))
        is_first = (codes == _MARK) | (np.diff(lines, prepend=-1) > 0)
        begins = np.flatnonzero(is_first)
        for places, inside in _matrices(begins, np.diff(begins, append=len(codes))):
            words = np.where(inside, ids.take(places, mode="clip"), self._vocabulary.size)
            ids[places[inside]] = self._cut(words, strength, draw)[inside]
        stays = ids != self._vocabulary.size
        return _split(*self._spell(codes[stays], ids[stays], lines[stays]), len(texts))

    def _characters(self, texts: Sequence[str]) -> tuple[Ints, Ints, Ints]:
        """Code, piece and line of each character; a user symbol is one, with its first code."""
        joined = "".join(texts)
        codes = np.frombuffer(joined.encode("utf-32-le"), "<u4").astype(np.int64)
        lines = np.repeat(np.arange(len(texts)), np.fromiter(map(len, texts), np.int64, len(texts)))
        ids = self._starts[codes]
        if self._symbols is None:
            return codes, ids, lines
        for match in self._symbols.finditer(joined):  # none spans two lines, as each line begins with U+2581
            ids[match.start() : match.end()] = self._vocabulary.size
            ids[match.start()] = self._vocabulary.symbols[match[0]]
        stays = ids != self._vocabulary.size
        return codes[stays], ids[stays], lines[stays]

    def _spell(self, codes: Ints, ids: Ints, lines: Ints) -> tuple[Ints, Ints]:
        """Pieces and their lines, with unknown characters as bytes, or each run of them as one piece."""
        unknown = ids == self._vocabulary.unk
        if not unknown.any():
            return ids, lines
        if not len(self._vocabulary.byte_ids):
            goes_on = unknown[1:] & unknown[:-1] & (lines[1:] == lines[:-1])
            begins = ~np.insert(goes_on, 0, False)
            return ids[begins], lines[begins]
        spelled = codes[unknown].astype("<u4").tobytes().decode("utf-32-le").encode()
        counts = np.where(unknown, 1 + (codes >= 0x80) + (codes >= 0x800) + (codes >= 0x10000), 1)  # bytes of UTF-8
        pieces = ids.repeat(counts)
        pieces[unknown.repeat(counts)] = self._vocabulary.byte_ids[np.frombuffer(spelled, np.uint8)]
        return pieces, lines.repeat(counts)


def _matrices(begins: Ints, lengths: Ints) -> Iterator[tuple[Ints, NDArray[np.bool_]]]:
    """Places of the characters of words of about equal length (W, L), and which of them lie inside their word."""
    shortest, width = 0, _SHORT
    while shortest < lengths.max(initial=0):
        chosen = np.flatnonzero((shortest < lengths) & (lengths <= width))
        rows = max(1, _CELLS // width)
        for part in (chosen[start : start + rows] for start in range(0, len(chosen), rows)):
            columns = np.arange(lengths[part].max())
            yield begins[part, None] + columns, columns < lengths[part, None]
        shortest, width = width, 2 * width


def _split(pieces: Ints, lines: Ints, count: int) -> list[list[int]]:
    """The pieces of each of `count` lines."""
    flat = pieces.tolist()
    ends = np.bincount(lines, minlength=count).cumsum().tolist()
    return [flat[start:end] for start, end in zip([0, *ends], ends, strict=False)]
