"""Word alignments from attention: which source word each word of a translation comes from.

The attention of a piece is that of the step that generated it; which layer and heads it is taken from, the model says
(`mt.seq2seq.Attentive`). A target word's attention is the mean over its pieces, a source word's share the sum over its
pieces; the end mark has none. Each target word is linked to the source word with the largest share, of equals the
first.

Words are what stands between spaces (U+0020): of the translation, and of the source line as it was given.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mt.lines.translation import Links
from mt.text.base import Tokenizer

Words = Sequence[tuple[int, ...]]
"""For each piece the numbers of the words that it is part of."""


def align(attention: NDArray[np.float32], source: Words, target: Words) -> Links:
    """Links of `attention` (T, S), T target and S source pieces, without end marks."""
    sources, targets = _membership(source), _membership(target)
    if not sources.shape[1]:
        return ()
    shares = targets.T @ attention[: len(target), : len(source)] @ sources  # (target words, source words)
    best = shares.argmax(1)
    found = [(int(best[word]), word) for word in range(targets.shape[1]) if targets[:, word].any()]
    return tuple(sorted(found))


def source_words(tokenizer: Tokenizer, line: str, ids: Sequence[int]) -> Words:
    """The words of the line that each piece is part of, also where normalisation made two words of one, or none."""
    given = [word for word in line.split(" ") if word]
    made = [tokenizer.normalize(word).split() for word in given]
    words = tokenizer.words_of(ids)
    if [part for parts in made for part in parts] != tokenizer.normalize(line).split():
        return words  # normalisation looked across a space
    origin = [number for number, parts in enumerate(made) for _ in parts]
    return [tuple(origin[word] for word in of_piece if word < len(origin)) for of_piece in words]


def copy_unknown(text: str, unknown: Sequence[int], links: Links, source: str) -> str:
    """The translation with each of its words `unknown` replaced by the source word that it is linked to."""
    given = [word for word in source.split(" ") if word]
    words = [word for word in text.split(" ") if word]
    origin = {target: place for place, target in links}
    for word in unknown:
        if word in origin:
            words[word] = given[origin[word]]
    return " ".join(words)


def _membership(words: Words) -> NDArray[np.float32]:
    """(pieces, words): 1 where the piece is part of the word."""
    found = np.zeros((len(words), 1 + max((max(of, default=-1) for of in words), default=-1)), np.float32)
    for piece, numbers in enumerate(words):
        found[piece, list(numbers)] = 1
    return found
