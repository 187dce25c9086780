"""A file that is being fetched: its bytes so far, and which version of the publisher's file they belong to."""

from __future__ import annotations

import os
import re
from email.message import Message
from pathlib import Path
from typing import Any, BinaryIO

from mt.errors import DataError
from mt.text.files import read_json, sha256_of, write_json


class MisfitError(Exception):
    """The answer holds other bytes than those asked for."""


class Partial:
    """`NAME.part` beside the final name, and `NAME.part.json` with the address and the version.

    Bytes of an unknown version are kept only where a checksum will tell at the end (`pinned`).
    """

    def __init__(self, path: Path, url: str, pinned: bool) -> None:
        self.path, self.url, self.pinned = path, url, pinned
        self._data = path.with_name(f"{path.name}.part")
        self._note = path.with_name(f"{path.name}.part.json")
        self._offset = 0
        note = _read(self._note)
        self._version = str(note.get("version", ""))
        if note.get("url") != url:
            self.discard()

    @property
    def size(self) -> int:
        """Bytes so far."""
        return self._data.stat().st_size if self._data.is_file() else 0

    def headers(self) -> dict[str, str]:
        """Ask for the rest, or for the whole where the publisher's file is another by now."""
        if not self.size or not (self._version or self.pinned):
            return {}
        return {"Range": f"bytes={self.size}-", **({"If-Range": self._version} if self._version else {})}

    def accept(self, status: int, headers: Message) -> int | None:
        """Read the answer's head: where its bytes belong. Returns the whole file's size where it is known.

        Raises MisfitError where the server cut out another range than the one asked for.
        """
        begin = re.match(r"bytes (\d+)-", headers.get("Content-Range", ""))
        if status == 206 and (begin is None or int(begin[1]) > self.size):
            self.discard()
            raise MisfitError
        self._offset = int(begin[1]) if status == 206 and begin else 0
        self._version = _version(headers)
        write_json(self._note, {"url": self.url, "version": self._version})
        length = headers.get("Content-Length")
        return self._offset + int(length) if length else None

    def open(self) -> BinaryIO:
        """The file, cut and opened where the answer's bytes belong."""
        file = self._data.open("r+b" if self._data.exists() else "w+b")
        file.truncate(self._offset)
        file.seek(self._offset)
        return file

    def is_whole(self, headers: Message) -> bool:
        """Whether a refused range (416) says that no byte is missing."""
        return headers.get("Content-Range", "").strip() == f"bytes */{self.size}"

    def sha256(self) -> str:
        """The sum of the bytes so far."""
        return sha256_of(self._data)

    def finish(self) -> None:
        """Give the file its final name."""
        with self._data.open("r+b") as file:
            os.fsync(file.fileno())
        self._data.replace(self.path)
        self._note.unlink(missing_ok=True)

    def discard(self) -> None:
        """Forget the bytes so far."""
        self._data.unlink(missing_ok=True)
        self._note.unlink(missing_ok=True)
        self._version = ""


def _version(headers: Message) -> str:
    """What names this version of the file: a strong entity tag, else its date; '' where the server tells neither."""
    tag = headers.get("ETag", "")
    return tag if tag.startswith('"') else headers.get("Last-Modified", "")


def _read(note: Path) -> dict[str, Any]:
    """What the note says; nothing where it is missing or damaged, so that fetching begins anew."""
    try:
        said = read_json(note)
    except DataError:
        return {}
    return said if isinstance(said, dict) else {}
