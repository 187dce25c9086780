"""The files of a prepared folder, written as encoded blocks come in. It imports no torch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from mt.data.encoding import Encoded, EncodedPairs
from mt.data.layout import SequenceWriter, narrowest
from mt.text.files import read_lines, sha256_of, write_aside
from mt.text.tokenizer import Tokenizers


class SplitWriter:
    """Writes one part of the corpus, such as train: ids of both sides, and their text where it is wanted."""

    def __init__(self, folder: Path, split: str, tokenizers: Tokenizers, corpus: str, with_text: bool) -> None:
        """`corpus` is the id that all files of the prepared folder share."""
        self.pairs = 0
        self._stack = ExitStack()
        self._ids: dict[str, SequenceWriter] = {}
        self._text: dict[str, SequenceWriter] = {}
        for side, tokenizer in (("src", tokenizers.src), ("tgt", tokenizers.tgt)):
            ids = SequenceWriter(folder, f"{split}.{side}.ids", narrowest(len(tokenizer)), corpus)
            self._ids[side] = self._stack.enter_context(ids)
            if with_text:
                text = SequenceWriter(folder, f"{split}.{side}.text", np.dtype("u1"), corpus)
                self._text[side] = self._stack.enter_context(text)

    def append(self, block: EncodedPairs) -> None:
        """Add the pairs of a block."""
        self._append("src", block.src)
        self._append("tgt", block.tgt)
        self.pairs += len(block.src.lengths)

    def _append(self, side: str, encoded: Encoded) -> None:
        self._ids[side].append(encoded.ids, encoded.lengths)
        if side in self._text:
            self._text[side].append(encoded.text, encoded.text_lengths)

    def close(self) -> dict[str, dict[str, Any]]:
        """Flush all files to disk; their entries in the manifest."""
        entries: dict[str, dict[str, Any]] = {}
        for writer in (*self._ids.values(), *self._text.values()):
            entries |= writer.close()
        return entries

    def __enter__(self) -> SplitWriter:
        return self

    def __exit__(self, type: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.__exit__(type, error, at)


def copy_lines(text: Path, folder: Path, name: str) -> dict[str, dict[str, Any]]:
    """Copy raw lines as plain UTF-8 with LF; the copy's entry in the manifest."""
    copy = folder / name
    with write_aside(copy) as file:
        file.writelines(_encoded_lines(text))
    return {name: {"bytes": copy.stat().st_size, "sha256": sha256_of(copy)}}


def _encoded_lines(text: Path) -> Iterator[bytes]:
    return (line.encode() + b"\n" for line in read_lines(text))
