"""Files that somebody already has: found in a folder under their own name or as a compressed copy."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from mt.errors import DataError
from mt.text.codecs import decompressed
from mt.text.files import sha256_of, write_aside

SUFFIXES = (".gz", ".bz2", ".xz", ".zst")
_FOLDERS = 3  # how many folders of the wanted path are tried below the given one


def find_copy(wanted: Path, sha256: str | None, folder: Path) -> Path | None:
    """The file in `folder` whose bytes, or whose decompressed bytes, are those of `wanted`.

    For `data/multi30k/raw/train.en` it may lie at `multi30k/raw/train.en`, `raw/train.en` or `train.en` of the folder.
    Without a checksum the first file of a fitting name is taken. DataError where names fit, but no checksum does.
    """
    found = [path for path in _candidates(wanted, folder) if path.is_file()]
    for path in found:
        if sha256 is None or sha256_of(path) == sha256 or (is_packed(path, wanted) and _sum_inside(path) == sha256):
            return path
    if found:
        raise DataError(
            f"{found[0]} is not the file that the recipe wants: its sha256 is {sha256_of(found[0])}, "
            f"but data.download wants {sha256}."
        )
    return None


def copy_from(found: Path, wanted: Path, sha256: str | None) -> str:
    """Bring `found` to `wanted`, decompressed where only its content fits, and return the sum of what was written."""
    unpack = is_packed(found, wanted) and (sha256 is None or sha256_of(found) != sha256)
    digest = hashlib.sha256()
    with write_aside(wanted) as file:
        for data in decompressed(found) if unpack else _chunks(found):
            digest.update(data)
            file.write(data)
    return digest.hexdigest()


def is_packed(found: Path, wanted: Path) -> bool:
    """Whether `found` has the name of a compressed copy of `wanted`."""
    return found.suffix in SUFFIXES and found.stem == wanted.name


def _candidates(wanted: Path, folder: Path) -> Iterator[Path]:
    for depth in range(_FOLDERS, -1, -1):
        inside = folder.joinpath(*wanted.parts[-depth - 1 :])
        for suffix in ("", *SUFFIXES):
            yield inside.with_name(inside.name + suffix)


def _sum_inside(path: Path) -> str:
    digest = hashlib.sha256()
    for data in decompressed(path):
        digest.update(data)
    return digest.hexdigest()


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while data := file.read(1 << 20):
            yield data
