"""SentencePiece models (Kudo and Richardson 2018): bpe, unigram and char."""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property

import numpy as np
import sentencepiece
from numpy.typing import NDArray

from mt.errors import ConfigError, DataError
from mt.text.base import Tokenizer, cleaner
from mt.text.bpe_dropout import BpeDropout
from mt.text.config import TokenizerConfig
from mt.text.segmentation import Cut, Segmenter, Vocabulary
from mt.text.unigram_sampling import UnigramSampling

_SPACE = "\u2581"  # in pieces
_QUIET = 2  # SentencePiece's log level: errors only, which become exceptions
_ANY_LENGTH = 2**30  # bytes of a line; SentencePiece's default of 4192 leaves longer lines out without a word
_ANY_NUMBER = 2_000_000  # more characters than Unicode has


class SubwordTokenizer(Tokenizer):
    """A trained SentencePiece model."""

    def __init__(self, type: str, normalization: str, model: bytes) -> None:
        """Raises `ValueError` where `model` is no SentencePiece model."""
        super().__init__(type, normalization, model)
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
            size = len(self._processor)
            self.pieces = [self._processor.id_to_piece(index) for index in range(size)]
        except RuntimeError:  # which names lines of SentencePiece's source
            raise ValueError("it is no SentencePiece model") from None
        self.unk, self.bos = self._processor.unk_id(), self._processor.bos_id()
        self.eos, self.pad = self._processor.eos_id(), self._processor.pad_id()

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        if len(texts) == 1:  # SentencePiece starts a thread for a list, which takes longer than a line
            return [self._processor.encode(self.clean(texts[0]))]
        ids: list[list[int]] = self._processor.encode(list(map(self.clean, texts)), num_threads=1)
        return ids

    def decode_batch(self, batch: Sequence[Sequence[int]]) -> list[str]:
        if not batch:
            return []
        numbers = [[int(index) for index in ids] for ids in batch]
        if len(numbers) == 1:
            return [self._processor.decode(numbers[0])]
        texts: list[str] = self._processor.decode(numbers, num_threads=1)
        return texts

    def sample_batch(self, texts: Sequence[str], seed: int, config: TokenizerConfig) -> list[list[int]]:
        strength = {"bpe": config.dropout, "unigram": config.alpha}.get(self.type, 0.0)
        if not strength:
            return self.encode_batch(texts)
        normalized: list[str] = self._processor.normalize(list(map(self.clean, texts)))
        return self._segmenter.sample(normalized, seed, strength)

    @cached_property
    def _segmenter(self) -> Segmenter:
        cuts: dict[str, Callable[[Vocabulary], Cut]] = {"bpe": BpeDropout, "unigram": UnigramSampling}
        vocabulary = self._vocabulary()
        return Segmenter(vocabulary, cuts[self.type](vocabulary))

    def _vocabulary(self) -> Vocabulary:
        processor, size = self._processor, len(self)
        scores = np.array([processor.get_score(index) for index in range(size)])
        special = {index for index in range(size) if processor.is_unknown(index) or processor.is_control(index)}
        ids = {piece: index for index, piece in enumerate(self.pieces) if index not in special}
        symbols = {piece: index for piece, index in ids.items() if scores[index] == 0 and self._is_symbol(piece)}
        normal = {piece: index for piece, index in ids.items() if piece not in symbols and not processor.is_byte(index)}
        return Vocabulary(size, normal, symbols, self.spelled[1:], self.unk, scores)

    def _is_symbol(self, piece: str) -> bool:
        """Whether a piece of score 0 is a user symbol, which SentencePiece tells in its model file only.

        There (`sentencepiece_model.proto`) field 2 of a piece, a float, is its score, and 4 in field 3 a user symbol.
        """
        return piece.encode() + b"\x15" + struct.pack("<f", 0.0) + b"\x18\x04" in self.model

    def normalize(self, text: str) -> str:
        normalized: str = self._processor.normalize(self.clean(text))
        return normalized.replace(_SPACE, " ").strip(" ")

    def words_of(self, ids: Sequence[int], decoded: bool = False) -> list[tuple[int, ...]]:
        found: list[tuple[int, ...]] = []
        word, inside = -1, False
        for index in ids:
            alone = decoded and index == self.unk
            inside = inside and not alone
            numbers = []
            for character in self.pieces[index]:
                word += character != _SPACE and not inside
                inside = character != _SPACE
                numbers += [word] * (inside and word not in numbers)
            inside = inside and not alone
            found.append(tuple(numbers))
        return found

    @cached_property
    def spelled(self) -> NDArray[np.int64]:
        byte_pieces = [index for index in range(len(self)) if self._processor.is_byte(index)]
        return np.array([self.unk, *byte_pieces], np.int64)

    @cached_property
    def alphabet(self) -> frozenset[str]:
        return frozenset(piece for piece in self.pieces if len(piece) == 1)


def train_subword(config: TokenizerConfig, texts: Iterable[str], origin: str) -> SubwordTokenizer:
    """Learn a vocabulary from `texts`, which come from `origin` (for messages).

    The model is the same, byte for byte, for the same texts and settings. Raises `DataError` where there is no text and
    `ConfigError` where `vocab_size` does not fit it.
    """
    feed = _Feed(config, texts)
    try:
        model = _train(config, feed)
    except RuntimeError as error:
        feed.reraise()
        if not feed.lines:
            raise DataError(f"no non-empty lines in {origin}: there is nothing to learn a vocabulary from.") from None
        raise _explained(config, origin, str(error)) from None
    feed.reraise()
    tokenizer = SubwordTokenizer(config.type, config.normalization, model)
    if len(tokenizer) > config.vocab_size:
        raise _too_small(config, origin, len(tokenizer))
    return tokenizer


class _Feed:
    """The texts on their way to the trainer, which would swallow an exception raised by its iterator."""

    def __init__(self, config: TokenizerConfig, texts: Iterable[str]) -> None:
        self.lines = 0
        self._clean = cleaner(config.type, config.normalization)
        self._texts = texts
        self._error: Exception | None = None

    def __iter__(self) -> Iterator[str]:
        try:
            for text in self._texts:
                if text and not text.isspace():
                    self.lines += 1
                    yield self._clean(text)
        except Exception as error:
            self._error = error

    def reraise(self) -> None:
        if self._error is not None:
            raise self._error


def _train(config: TokenizerConfig, feed: _Feed) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(feed),
        model_writer=model,
        model_type=config.type,
        vocab_size=_ANY_NUMBER if config.type == "char" else config.vocab_size,
        hard_vocab_limit=not config.soft_vocab_limit and config.type != "char",
        character_coverage=config.character_coverage,
        byte_fallback=config.byte_fallback,
        normalization_rule_name="identity" if config.normalization == "nfc" else config.normalization,
        user_defined_symbols=list(config.user_symbols),
        max_sentence_length=_ANY_LENGTH,
        num_threads=1,  # the model depends on it
        unk_id=0,
        bos_id=1,
        eos_id=2,
        pad_id=3,
        minloglevel=_QUIET,
    )
    return model.getvalue()


def _explained(config: TokenizerConfig, origin: str, message: str) -> ConfigError | DataError:
    """SentencePiece's message in words of the recipe."""
    if found := re.search(r"size too high \(\d+\).*value <= (\d+)", message):
        return ConfigError(
            f"tokenizer.vocab_size {config.vocab_size} is more than the text of {origin} supports; set it to at most "
            f"{found[1]}, or set tokenizer.soft_vocab_limit: true to take what there is."
        )
    if found := re.search(r"required_chars\. \d+ vs (\d+)", message):
        return _too_small(config, origin, int(found[1]))
    if "all_chars_count" in message:
        return DataError(f"no text is left in {origin} after tokenizer.normalization {config.normalization}.")
    return DataError(f"SentencePiece cannot learn a vocabulary from {origin}: {message}")


def _too_small(config: TokenizerConfig, origin: str, needed: int) -> ConfigError:
    return ConfigError(
        f"tokenizer.vocab_size {config.vocab_size} is less than the {needed} characters and special symbols that "
        f"the text of {origin} needs; set it to at least {needed} or lower tokenizer.character_coverage."
    )
