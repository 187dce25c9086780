"""The tokenizers of the two sides: made from text, kept in a folder, found again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from mt.errors import ConfigError, DataError
from mt.text.base import Tokenizer
from mt.text.config import TokenizerConfig
from mt.text.files import make_folder, read_json, write_aside, write_json

__all__ = ["Tokenizer", "Tokenizers"]

_FORMAT = 1
_INDEX = "tokenizer.json"
_REMEDY = "prepare again or restore the file"


def _class_of(type: str) -> Callable[[str, str, bytes], Tokenizer]:
    """The class behind a type of the recipe; SentencePiece is imported where it is needed only."""
    if type == "word":
        from mt.text.words import WordTokenizer

        return WordTokenizer
    from mt.text.subword import SubwordTokenizer

    return SubwordTokenizer


def _train_one(config: TokenizerConfig, texts: Iterable[str], origin: str) -> Tokenizer:
    if config.type == "word":
        from mt.text.words import train_words

        return train_words(config, texts, origin)
    from mt.text.subword import train_subword

    return train_subword(config, texts, origin)


@dataclass(frozen=True)
class Tokenizers:
    """One tokenizer for each side; the same object twice where the vocabulary is shared."""

    src: Tokenizer
    tgt: Tokenizer
    shared: bool

    @property
    def fingerprint(self) -> str:
        """SHA-256 of both sides' fingerprints."""
        return hashlib.sha256(f"{self.src.fingerprint}\n{self.tgt.fingerprint}".encode()).hexdigest()

    @classmethod
    def train(
        cls, config: TokenizerConfig, sources: Iterable[str], targets: Iterable[str], origins: tuple[str, str]
    ) -> Tokenizers:
        """Learn the vocabularies; `origins` name the two texts in messages."""
        if config.shared:
            both = _train_one(config, chain(sources, targets), " and ".join(origins))
            return cls(both, both, True)
        return cls(_train_one(config, sources, origins[0]), _train_one(config, targets, origins[1]), False)

    def save(self, folder: Path) -> None:
        """Write the folder: a model file a vocabulary, and `tokenizer.json`, which is written last."""
        make_folder(folder)
        sides = {"src": self.src, "tgt": self.tgt}
        names = {side: f"{'shared' if self.shared else side}.{_suffix(one)}" for side, one in sides.items()}
        for side, one in sides.items():
            with write_aside(folder / names[side]) as file:
                file.write(one.model)
        index = {"format": _FORMAT, "type": self.src.type, "normalization": self.src.normalization}
        prints = {side: one.fingerprint for side, one in sides.items()}
        write_json(folder / _INDEX, {**index, "shared": self.shared, "files": names, "fingerprints": prints})

    @classmethod
    def load(cls, folder: Path) -> Tokenizers:
        """Read a folder that `save` wrote; `DataError` where it is missing, of another version or damaged."""
        index = read_json(Path(folder) / _INDEX, _REMEDY)
        if not isinstance(index, dict) or index.get("format") != _FORMAT:
            raise DataError(f"{Path(folder) / _INDEX} is not of tokenizer format {_FORMAT}, which this version reads.")
        try:
            src = _load_one(Path(folder), index, "src")
            return cls(src, src if index["shared"] else _load_one(Path(folder), index, "tgt"), index["shared"])
        except (KeyError, TypeError):
            raise DataError(f"{Path(folder) / _INDEX} is damaged: entries are missing; {_REMEDY}.") from None

    @classmethod
    def reuse(cls, config: TokenizerConfig, folder: Path) -> Tokenizers:
        """Take over the tokenizer of a run folder, a prepared corpus or a tokenizer folder, byte for byte."""
        places = [place for place in (folder / "tokenizer", folder) if (place / _INDEX).is_file()]
        if not places:
            raise ConfigError(f"tokenizer.reuse: {folder} holds no tokenizer; name the folder of a run or a tokenizer.")
        found = cls.load(places[0])
        for key, wanted, there in (("type", config.type, found.src.type), ("shared", config.shared, found.shared)):
            if wanted != there:
                said, should = str(wanted).lower(), str(there).lower()
                raise ConfigError(
                    f"tokenizer.{key} is {said}, but in {folder}, which tokenizer.reuse names, it is {should}; "
                    f"set tokenizer.{key}: {should}."
                )
        return found


def _suffix(tokenizer: Tokenizer) -> str:
    return "json" if tokenizer.type == "word" else "model"


def _load_one(folder: Path, index: dict[str, dict[str, str]], side: str) -> Tokenizer:
    path = folder / index["files"][side]
    try:
        tokenizer = _class_of(str(index["type"]))(str(index["type"]), str(index["normalization"]), path.read_bytes())
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise DataError(f"{path} is damaged ({error}); {_REMEDY}.") from None
    if tokenizer.fingerprint != index["fingerprints"][side]:
        raise DataError(f"{path} is not the file that {folder / _INDEX} describes; prepare again or restore it.")
    return tokenizer
