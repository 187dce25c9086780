"""Size and SHA-256 of a file: written down when it is whole, and compared before it is read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mt.errors import RunError, plural
from mt.text.files import sha256_of


class DamagedError(RunError):
    """A checkpoint or a final model is torn or was changed."""


class Known(NamedTuple):
    """A file that was read whole."""

    path: Path
    sha256: str

    @classmethod
    def of(cls, path: Path) -> Known:
        """Read it."""
        return cls(path, sha256_of(path))


def checksum(path: Path) -> dict[str, Any]:
    """Size in bytes and SHA-256 of the file, as JSON has them."""
    return {"bytes": path.stat().st_size, "sha256": sha256_of(path)}


def check_file(path: Path, expected: Mapping[str, Any]) -> Known:
    """Compare a file with its `checksum` of before; the whole file is read only where its size is right.

    Raises:
        DamagedError: it is missing, of another size, or was changed.
    """
    if not path.is_file():
        raise DamagedError(f"{path.parent} is damaged: {path.name} is missing.")
    size = path.stat().st_size
    if size != expected["bytes"]:
        raise DamagedError(
            f"{path.parent} is damaged: {path.name} has {size} {plural(size, 'byte')}, but had {expected['bytes']}."
        )
    if (known := Known.of(path)).sha256 != expected["sha256"]:
        raise DamagedError(f"{path.parent} is damaged: {path.name} was changed after it was written.")
    return known
