"""A prepared corpus: ids of both sides, memory-mapped, and the tokenizer that made them. It imports no torch.

    store = Store.open(folder)
    train = store.split("train")
    train.src[0]            # ids of the first source, a view of the file
    train.tgt.lengths       # pieces of each target
    store.tokenizers        # the tokenizers, loaded

Opening checks the size and header of every file, and the checksum of each that is small, so that starting takes no
longer for a larger corpus; `verify` checks the checksums of all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mt.data.inputs import Origin
from mt.data.layout import Sequences, read_sequences
from mt.errors import DataError
from mt.text.files import read_json, read_lines, sha256_of
from mt.text.tokenizer import Tokenizers

MANIFEST = "manifest.json"
FORMAT = "mt-prepared"
VERSION = 1
SMALL = 16 << 20
"""Bytes up to which a file's checksum is looked at whenever a store is opened: about 10 ms."""
WINDOW = 2**17
"""Pairs that are looked at together."""

IdSequences = Sequences[Any]


class TextSequences:
    """Memory-mapped lines of text."""

    def __init__(self, lines: Sequences[np.uint8]) -> None:
        self._lines = lines

    def __len__(self) -> int:
        return len(self._lines)

    def __getitem__(self, index: int) -> str:
        return self._lines[index].tobytes().decode()


@dataclass(frozen=True)
class ParallelIds:
    """A part of the corpus: sequence k of `tgt` translates sequence k of `src`."""

    src: IdSequences
    tgt: IdSequences
    src_text: TextSequences | None
    """The text of `src`, where the recipe segments it anew in training."""
    tgt_text: TextSequences | None

    def __len__(self) -> int:
        return len(self.src)

    def windows(self) -> Iterator[tuple[int, NDArray[Any], NDArray[Any]]]:
        """Pieces of each source and of each target, as they are stored, of 2^17 pairs at a time; their first's number.

        Memory does not grow with the corpus.
        """
        for first in range(0, len(self), WINDOW):
            src, tgt = (np.diff(side.offsets[first : first + WINDOW + 1]) for side in (self.src, self.tgt))
            yield first, src, tgt


@dataclass(frozen=True)
class Store:
    """An opened folder."""

    folder: Path
    manifest: dict[str, Any]
    origin: Origin
    fingerprint: str
    """Of the tokenizers that made the ids."""

    @classmethod
    def open(cls, folder: Path) -> Store:
        """Open a prepared corpus; `DataError` naming what is missing, cut, foreign or damaged."""
        if not (folder / MANIFEST).is_file():
            raise DataError(f"{folder} holds no prepared corpus (no {MANIFEST} in it); run mt prepare first.")
        manifest = read_json(folder / MANIFEST, "run mt prepare again")
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
            raise DataError(f"{folder / MANIFEST} is not the manifest of a prepared corpus; run mt prepare again.")
        if manifest.get("version") != VERSION:
            raise DataError(
                f"{folder / MANIFEST} is of version {manifest.get('version')}, this program reads version {VERSION}; "
                "run mt prepare again."
            )
        try:
            origin = Origin.from_mapping(manifest)
            store = cls(Path(folder), manifest, origin, manifest["tokenizer"]["fingerprint"])
            store._look()
        except (KeyError, TypeError, AttributeError):
            raise DataError(f"{folder / MANIFEST} is damaged: entries are missing; run mt prepare again.") from None
        return store

    def _look(self) -> None:
        """Map all files, and check the small ones whole."""
        for name in self.manifest["splits"]:
            self.split(name)
        for name, file in self.manifest["files"].items():
            if file["bytes"] <= SMALL:
                self._check(name)

    def split(self, name: str) -> ParallelIds:
        """The part `name`, train or valid; `DataError` where the corpus has no such part."""
        if name not in self.manifest["splits"]:
            raise DataError(f"{self.folder} has no {name} text; name it in the recipe (data.{name}) and prepare again.")
        return ParallelIds(
            self._sequences(name, f"{name}.src.ids"),
            self._sequences(name, f"{name}.tgt.ids"),
            self._text(name, f"{name}.src.text"),
            self._text(name, f"{name}.tgt.text"),
        )

    def reference_lines(self, name: str, side: str) -> Iterator[str]:
        """The raw lines of a part that keeps them (valid), of side src or tgt."""
        return read_lines(self.folder / f"{name}.{side}.txt")

    @cached_property
    def tokenizers(self) -> Tokenizers:
        """The tokenizers that made the ids."""
        return self._load_tokenizers()

    def verify(self) -> None:
        """Check the checksums of all files, whatever their size, and the tokenizers."""
        for name in self.manifest["files"]:
            self._check(name)
        self._load_tokenizers()

    def _load_tokenizers(self) -> Tokenizers:
        tokenizers = Tokenizers.load(self.folder / "tokenizer")
        if tokenizers.fingerprint != self.fingerprint:
            raise DataError(f"{self.folder / 'tokenizer'} is not the tokenizer that made this corpus; prepare again.")
        return tokenizers

    def _check(self, name: str) -> None:
        path = self.folder / name
        file = self.manifest["files"][name]
        if not path.is_file():
            raise DataError(f"{path} is missing; run mt prepare again.")
        if path.stat().st_size != file["bytes"] or sha256_of(path) != file["sha256"]:
            raise DataError(f"{path} is not as mt prepare wrote it (its checksum differs); run mt prepare again.")

    def _sequences(self, split: str, name: str) -> Sequences[Any]:
        sizes = {file: entry["bytes"] for file, entry in self.manifest["files"].items()}
        count = self.manifest["splits"][split]["pairs"]
        return read_sequences(self.folder, name, self.manifest["corpus"], sizes, count)

    def _text(self, split: str, name: str) -> TextSequences | None:
        return TextSequences(self._sequences(split, name)) if name in self.manifest["files"] else None
