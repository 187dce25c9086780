"""What every tokenizer is, and what happens to text before any of them segments it."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mt.text.config import TokenizerConfig

_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f]")
"""Unicode's category Cc."""


class Tokenizer(ABC):
    """Text of one side to ids of its vocabulary and back. Ids hold no specials: `mt.data.batching` adds them."""

    def __init__(self, type: str, normalization: str, model: bytes) -> None:
        self.type = type
        self.normalization = normalization
        self.model = model
        """The vocabulary as it lies on disk."""
        self.pieces: list[str] = []
        self.unk = self.bos = self.eos = self.pad = 0
        self.clean = cleaner(type, normalization)

    def __len__(self) -> int:
        """Size of the vocabulary: rows of the embedding."""
        return len(self.pieces)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of all that says which id a text becomes: equal vocabularies have equal ones."""
        head = f"{self.type}\n{self.normalization}\n".encode()
        return hashlib.sha256(head + self.model).hexdigest()

    def encode(self, text: str) -> list[int]:
        """Ids of the pieces of one line."""
        return self.encode_batch([text])[0]

    def decode(self, ids: Sequence[int]) -> str:
        """Text of the ids; what specials among them say is documented at `decode_batch`."""
        return self.decode_batch([ids])[0]

    @abstractmethod
    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of the pieces of each line; always the same for the same text."""

    @abstractmethod
    def decode_batch(self, batch: Sequence[Sequence[int]]) -> list[str]:
        """Text of each sequence: begin, end and padding give nothing, an unknown piece gives U+2047 (⁇)."""

    @abstractmethod
    def sample_batch(self, texts: Sequence[str], seed: int, config: TokenizerConfig) -> list[list[int]]:
        """A random segmentation of each line, as `config.dropout` or `config.alpha` asks.

        A pure function of its arguments, in any process; a line's segmentation depends on the other lines, too.
        """

    @abstractmethod
    def normalize(self, text: str) -> str:
        """The text that is segmented: `decode(encode(text))` wherever no piece is unknown and U+2581 does not occur."""

    @abstractmethod
    def words_of(self, ids: Sequence[int], decoded: bool = False) -> list[tuple[int, ...]]:
        """Which words, counted from 0, each id is part of; words are what stands between spaces (U+0020).

        They are those of the normalised text that became `ids`. With `decoded` those of the text that `ids` become,
        where an unknown piece stands by itself.
        """

    def changes(self, text: str) -> bool:
        """Whether normalisation changes more of the text than its spacing."""
        if text.isascii() and text.isprintable() and not self.normalization.endswith("_cf"):
            return False
        if self.normalization in ("identity", "nfc"):
            return self.clean(text) != text
        return self.normalize(text) != " ".join(word for word in text.split(" ") if word)

    @property
    @abstractmethod
    def spelled(self) -> NDArray[np.int64]:
        """Ids that stand for text without a piece of its own: the unknown piece, and those of bytes."""

    @property
    @abstractmethod
    def alphabet(self) -> frozenset[str] | None:
        """Characters that have a piece of their own; None where pieces are whole words."""


def cleaner(type: str, normalization: str) -> Callable[[str], str]:
    """What is done to text before SentencePiece's own normaliser sees it; see `TokenizerConfig` for the rule.

    SentencePiece deletes most control characters under nmt_nfkc, so that two words become one, and knows no NFC.
    """
    keeps_controls = normalization == "identity" or (type == "word" and not normalization.startswith("nmt"))
    composes = normalization == "nfc"

    def clean(text: str) -> str:
        if not text.isprintable():
            text = text.replace("\0", " ") if keeps_controls else _CONTROLS.sub(" ", text)
        return unicodedata.normalize("NFC", text) if composes and not text.isascii() else text

    return clean
