"""A corpus in memory, for tests of what is built upon a store."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mt.data.layout import Sequences
from mt.data.store import ParallelIds, TextSequences
from mt.text.config import TokenizerConfig
from mt.text.tokenizer import Tokenizers

WORDS = ["eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn", "elf", "zwölf", "hundert"]


def packed(sequences: Sequence[Sequence[int]], dtype: str) -> Sequences[np.generic]:
    """Sequences as they lie in a store."""
    lengths = [len(sequence) for sequence in sequences]
    items = np.array([item for sequence in sequences for item in sequence], dtype)
    return Sequences(items, np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]))


def lines(size: int, seed: int) -> list[str]:
    """Numbered lines of 0 to 12 more words, each another."""
    generator = np.random.default_rng(seed)
    return [
        " ".join([*WORDS[: generator.integers(0, 12)][:: 1 if number % 2 else -1], *str(number)])
        for number in range(size)
    ]


def tokenizers_of(config: TokenizerConfig, texts: list[str]) -> Tokenizers:
    return Tokenizers.train(config, texts, texts, ("a", "b"))


def corpus_of(sources: list[str], targets: list[str], tokenizers: Tokenizers, *, with_text: bool = True) -> ParallelIds:
    """The corpus that preparing these texts gives."""
    sides = (tokenizers.src.encode_batch(sources), tokenizers.tgt.encode_batch(targets))
    texts = [TextSequences(packed([list(line.encode()) for line in side], "u1")) for side in (sources, targets)]  # type: ignore[arg-type]
    src, tgt = (packed(side, "u2") for side in sides)
    return ParallelIds(src, tgt, *(texts if with_text else (None, None)))
