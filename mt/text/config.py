"""The recipe's `tokenizer` block."""

from __future__ import annotations

from dataclasses import dataclass

from mt.config import option
from mt.errors import ConfigError


@dataclass(frozen=True)
class TokenizerConfig:
    """How text becomes pieces: a SentencePiece model, or white space."""

    type: str = option("bpe", help="bpe, unigram, char (SentencePiece) or word (white space)", choices=("bpe", "unigram", "char", "word"))
    vocab_size: int = option(8000, help="pieces of a vocabulary, specials included", ge=1)
    soft_vocab_limit: bool = option(False, help="where the text supports fewer pieces than vocab_size, take what it supports")
    shared: bool = option(True, help="one vocabulary for both sides, or one for each")
    character_coverage: float = option(1.0, help="share of the text's characters that get a piece", gt=0, le=1)
    byte_fallback: bool = option(False, help="spell characters without a piece as bytes (bpe and unigram)")
    normalization: str = option(
        "nmt_nfkc",
        help="what happens to characters before segmentation; identity changes none",
        choices=("nmt_nfkc", "nmt_nfkc_cf", "nfkc", "nfkc_cf", "nfc", "identity"),
    )
    user_symbols: tuple[str, ...] = option((), help="symbols that are always one piece, such as <2de>")
    sample_size: int = option(2_000_000, help="most lines a side that the vocabulary is learned from, drawn evenly", ge=1)
    dropout: float = option(0.0, help="bpe: probability of dropping a merge in training (Provilkov et al. 2020)", ge=0, lt=1)
    alpha: float = option(0.0, help="unigram: smoothing of sampled segmentations in training (Kudo 2018); 0: none", ge=0)

    def __post_init__(self) -> None:
        if self.dropout and self.type != "bpe":
            raise ConfigError(f"tokenizer.dropout belongs to tokenizer.type bpe, but the type is {self.type}; unigram has alpha.")
        if self.alpha and self.type != "unigram":
            raise ConfigError(f"tokenizer.alpha belongs to tokenizer.type unigram, but the type is {self.type}; bpe has dropout.")
        if self.byte_fallback and self.type not in ("bpe", "unigram"):
            raise ConfigError(f"tokenizer.byte_fallback needs tokenizer.type bpe or unigram, but the type is {self.type}.")
