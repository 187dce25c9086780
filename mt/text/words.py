"""Words: what stands between two spaces (U+0020), for text that is tokenised already."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mt.errors import ConfigError, DataError
from mt.text.base import Tokenizer
from mt.text.config import SPECIALS, TokenizerConfig

_UNKNOWN_TEXT = "\u2047"  # as SentencePiece shows it


class WordTokenizer(Tokenizer):
    """A list of words; every other word is unknown."""

    def __init__(self, type: str, normalization: str, model: bytes) -> None:
        """Raises `ValueError` where `model` is no JSON list of distinct words that begins with the specials."""
        super().__init__(type, normalization, model)
        pieces = json.loads(model)
        if not isinstance(pieces, list) or tuple(pieces[:4]) != SPECIALS or len(set(pieces)) != len(pieces):
            raise ValueError("no list of distinct words that begins with " + " ".join(SPECIALS))
        self.pieces = pieces
        self.unk, self.bos, self.eos, self.pad = range(4)
        # A special's name in the text is a word like any other, not the special.
        self._ids = {piece: index for index, piece in enumerate(pieces) if index > 3}
        self._normalize = _folding(normalization)

    def words(self, text: str) -> list[str]:
        """The words of a line; never an empty one."""
        return [word for word in self._normalize(self.clean(text)).split(" ") if word]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        ids, unk = self._ids, self.unk
        return [[ids.get(word, unk) for word in self.words(text)] for text in texts]

    def decode_batch(self, batch: Sequence[Sequence[int]]) -> list[str]:
        shown = [_UNKNOWN_TEXT, "", "", "", *self.pieces[4:]]
        return [" ".join(word for index in ids if (word := shown[index])) for ids in batch]

    def sample_batch(self, texts: Sequence[str], seed: int, config: TokenizerConfig) -> list[list[int]]:  # noqa: ARG002
        return self.encode_batch(texts)

    def normalize(self, text: str) -> str:
        return " ".join(self.words(text))

    def words_of(self, ids: Sequence[int], decoded: bool = False) -> list[tuple[int, ...]]:  # noqa: ARG002
        return [(number,) for number in range(len(ids))]

    @cached_property
    def spelled(self) -> NDArray[np.int64]:
        return np.array([self.unk], np.int64)

    @property
    def alphabet(self) -> None:
        return None


def _folding(normalization: str):  # type: ignore[no-untyped-def]
    """SentencePiece's normaliser of that name, or nothing where `clean` has done it all."""
    if normalization in ("identity", "nfc"):
        return str
    import sentencepiece

    return sentencepiece.SentencePieceNormalizer(
        rule_name=normalization, add_dummy_prefix=False, escape_whitespaces=False, remove_extra_whitespaces=False
    ).normalize


def train_words(config: TokenizerConfig, texts: Iterable[str], origin: str) -> WordTokenizer:
    """Take the `vocab_size` most frequent words, or all where they are fewer; ties go in alphabetical order."""
    none = WordTokenizer(config.type, config.normalization, json.dumps(SPECIALS).encode())
    _check_symbols(config, none)
    counts = Counter(word for text in texts if not text.isspace() for word in none.words(text))
    if not counts:
        raise DataError(f"no non-empty lines in {origin}: there is nothing to learn a vocabulary from.")
    for name in (*SPECIALS, *config.user_symbols):
        del counts[name]
    room = config.vocab_size - len(SPECIALS) - len(config.user_symbols)
    words = sorted(counts, key=lambda word: (-counts[word], word))[:room]
    pieces = [*SPECIALS, *config.user_symbols, *words]
    return WordTokenizer(config.type, config.normalization, json.dumps(pieces, ensure_ascii=False).encode())


def _check_symbols(config: TokenizerConfig, tokenizer: WordTokenizer) -> None:
    """There is room for a word beside the symbols, and text can name each of them."""
    needed = len(SPECIALS) + len(config.user_symbols) + 1
    if config.vocab_size < needed:
        raise ConfigError(
            f"tokenizer.vocab_size {config.vocab_size} has no room for words beside the special symbols and "
            f"tokenizer.user_symbols; set it to at least {needed}."
        )
    for symbol in config.user_symbols:
        if (read := tokenizer.normalize(symbol)) != symbol:
            raise ConfigError(
                f"tokenizer.user_symbols: '{symbol}' can never occur, since tokenizer.normalization "
                f"{config.normalization} makes it '{read}'; take another name."
            )
