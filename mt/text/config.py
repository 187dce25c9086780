"""The recipe's `tokenizer` block, and the `filters` of its `data` block."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from pathlib import Path

from mt.config import option, refuse_idle
from mt.errors import ConfigError

SPECIALS = ("<unk>", "<s>", "</s>", "<pad>")
"""Unknown, begin, end and padding: the first pieces of each vocabulary made here, in this order."""


@dataclass(frozen=True)
class Filters:
    """What is left out of the training text. Validation and test text are never filtered."""

    max_length: int | None = option(
        250, help="most pieces a side, specials not counted, inclusive; null: no limit", ge=1
    )
    max_ratio: float | None = option(None, help="longer side / shorter side in pieces, at most; null: no limit", ge=1)
    identical: bool = option(False, help="drop pairs of which both sides are the same")
    non_text: bool = option(False, help="drop pairs of which a side has no letter")


_OF_TYPES = {
    "dropout": ("bpe",),
    "alpha": ("unigram",),
    "byte_fallback": ("bpe", "unigram"),
    "character_coverage": ("bpe", "unigram", "char"),
}


@dataclass(frozen=True)
class TokenizerConfig:
    """How text becomes pieces: a SentencePiece model, or the words between spaces.

    Normalisations: nfc composes accents and changes nothing else; nfkc and nmt_nfkc also fold compatibility characters
    (a ligature into its letters) and change the text for good; _cf folds case, too. A control character, such as a
    tab, becomes a space, save under identity, and save with type word, where it stays a part of its word under nfc and
    nfkc. A NUL always becomes a space. Runs of spaces count as one. Of white space only U+0020 separates words, as do
    the characters that the normalisation turns into it.
    """

    type: str = option(
        "bpe",
        help="bpe, unigram, char (SentencePiece) or word (between spaces)",
        choices=("bpe", "unigram", "char", "word"),
    )
    vocab_size: int = option(
        8000, help="pieces of a vocabulary, the 4 specials included; for char and word an upper bound", ge=5
    )
    soft_vocab_limit: bool = option(
        False, help="where the text supports fewer pieces than vocab_size, take what it supports"
    )
    shared: bool = option(True, help="one vocabulary for both sides, or one for each")
    character_coverage: float = option(1.0, help="share of the text's characters that get a piece", ge=0.98, le=1)
    byte_fallback: bool = option(False, help="spell characters without a piece as bytes (bpe and unigram)")
    normalization: str = option(
        "nfc",
        help="what happens to characters before segmentation",
        choices=("nfc", "identity", "nfkc", "nfkc_cf", "nmt_nfkc", "nmt_nfkc_cf"),
    )
    user_symbols: tuple[str, ...] = option((), help="symbols that are always one piece, such as <2de>")
    sample_size: int = option(
        100_000, help="most lines a side that the vocabulary is learned from, drawn evenly from the training text", ge=1
    )
    reuse: Path | None = option(
        None, help="run folder whose tokenizer is taken as it is; of this block only type, shared, dropout, alpha count"
    )
    dropout: float = option(
        0.0, help="bpe: probability of dropping a merge in training (Provilkov et al. 2020)", ge=0, lt=1
    )
    alpha: float = option(
        0.0, help="unigram: smoothing of sampled segmentations in training (Kudo 2018); 0: none", ge=0
    )

    def __post_init__(self) -> None:
        refuse_idle(self, "tokenizer", "type", _OF_TYPES)
        for position, symbol in enumerate(self.user_symbols):
            if wrong := self._fault_of_symbol(position, symbol):
                raise ConfigError(f"tokenizer.user_symbols: '{symbol}' {wrong}.")

    @property
    def resamples(self) -> bool:
        """Whether training segments the text anew each epoch."""
        return bool(self.dropout or self.alpha)

    def _fault_of_symbol(self, position: int, symbol: str) -> str | None:
        if symbol in self.user_symbols[:position]:
            return "is given twice; each symbol may stand there once"
        if symbol in SPECIALS:
            return "is a symbol of every vocabulary already; leave it out or take another name"
        if symbol in {f"<0x{byte:02X}>" for byte in range(256)}:
            return "is the name of a byte piece; take another name"
        if not symbol or not symbol.isprintable() or " " in symbol or "\u2581" in symbol:
            return "may not be empty nor hold white space, control characters or U+2581"
        if self.normalization != "identity" and unicodedata.normalize("NFC", symbol) != symbol:
            return "is not composed (Unicode NFC), as the normalised text will be; write it composed"
        return None
