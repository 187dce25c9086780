"""The texts that a split or a generator writes, and the note beside them that tells whether they are up to date."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mt.data.config import DataConfig
from mt.errors import DataError
from mt.text.files import read_json, sha256_of, write_aside, write_json

NOTE = "parts.json"

Texts = dict[str, tuple[Iterable[str], Iterable[str]]]
"""Part name -> source lines and target lines."""


@dataclass(frozen=True)
class Parts:
    """Part name -> source and target file: where the recipe's train, valid and test blocks read them."""

    paths: dict[str, tuple[Path, Path]]

    @classmethod
    def of(cls, data: DataConfig) -> Parts:
        """The parts of a recipe with `data.split` or `data.generate`, whose shape DataConfig has checked."""
        assert data.valid is not None
        (test,) = data.test.values()
        train = data.train[0]
        return cls(
            {
                "train": (train.src, train.tgt),
                "valid": (data.valid.src, data.valid.tgt),
                "test": (test.src, test.tgt[0]),
            }
        )

    @property
    def note_path(self) -> Path:
        """The note lies beside the training source."""
        return self.paths["train"][0].with_name(NOTE)

    def files(self) -> Iterator[Path]:
        """The six files."""
        for pair in self.paths.values():
            yield from pair

    def up_to_date(self, made_from: dict[str, Any]) -> bool:
        """Whether the note says that the parts were made from this, and they are as they were when they were made."""
        note = self._note()
        sums = note.get("sha256", {})
        return note.get("made_from") == made_from and all(
            path.is_file() and sha256_of(path) == sums.get(self._key(path)) for path in self.files()
        )

    def foreign(self) -> bool:
        """Whether all are there and somebody else put them there."""
        return not self.note_path.is_file() and all(path.is_file() for path in self.files())

    def check_own(self) -> None:
        """DataError where a file stands in the way that was not made here."""
        known = self._note().get("sha256", {})
        for path in self.files():
            if path.exists() and self._key(path) not in known:
                raise DataError(f"{path} exists and was not made by mt fetch, so it is not written over; move it away.")

    def write(self, texts: Texts, made_from: dict[str, Any]) -> None:
        """Write the parts and the note. None gets its name before all are whole."""
        sums: dict[str, str] = {}
        with ExitStack() as stack:
            for part, sides in texts.items():
                for path, lines in zip(self.paths[part], sides, strict=True):
                    file, digest = stack.enter_context(write_aside(path)), hashlib.sha256()
                    for line in lines:
                        data = f"{line}\n".encode()
                        digest.update(data)
                        file.write(data)
                    sums[self._key(path)] = digest.hexdigest()
            write_json(self.note_path, {"made_from": made_from, "sha256": sums})

    def _note(self) -> dict[str, Any]:
        if not self.note_path.is_file():
            return {}
        try:
            note = dict(read_json(self.note_path))
            return {"made_from": note["made_from"], "sha256": dict(note["sha256"])}
        except (DataError, KeyError, TypeError, ValueError):
            raise DataError(
                f"{self.note_path} is damaged: delete it, with the texts that mt fetch made, and run mt fetch again."
            ) from None

    def _key(self, path: Path) -> str:
        """The file as seen from the note, so that the folder can be moved."""
        return Path(os.path.relpath(path, self.note_path.parent)).as_posix()
