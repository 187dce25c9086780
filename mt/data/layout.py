"""How sequences lie on disk: a file of items and a file of offsets, each behind a header. It imports no torch.

A header says what file this is (magic, version), which corpus it belongs to (so that files of two corpora cannot be
mixed), which part it holds, and the type of its items. Items of sequence k are `items[offsets[k]:offsets[k + 1]]`.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from mt.errors import DataError, plural

MAGIC = b"mt-data\n"
VERSION = 1
HEADER = np.dtype([("magic", "S8"), ("version", "<u4"), ("type", "S4"), ("corpus", "S64"), ("part", "S48")])
"""128 bytes, so that items are aligned."""
OFFSETS = ".offsets"

Item = TypeVar("Item", bound=np.generic)


def narrowest(vocab_size: int) -> np.dtype[np.unsignedinteger]:
    """The smallest unsigned type that holds every id below `vocab_size`."""
    for name in ("<u1", "<u2", "<u4"):
        if vocab_size <= 256 ** np.dtype(name).itemsize:
            return np.dtype(name)
    raise DataError(f"a vocabulary of {vocab_size} pieces is more than 32 bits can number.")


def end_offsets(lengths: NDArray[np.int64], start: int = 0) -> NDArray[np.int64]:
    """Where each sequence ends, in items, after `start` items; 64 bits, whatever type `lengths` has."""
    ends: NDArray[np.int64] = np.cumsum(lengths, dtype=np.int64) + np.int64(start)
    return ends


def header(part: str, dtype: np.dtype[np.generic], corpus: str) -> bytes:
    """The header of a file of `dtype` items that holds `part` (such as train.src) of the corpus with that id."""
    values = (MAGIC, VERSION, dtype.str.encode(), corpus.encode(), part.encode())
    return np.array(values, HEADER).tobytes()


class PartWriter:
    """Writes one file behind its header and remembers its size and checksum."""

    def __init__(self, path: Path, part: str, dtype: np.dtype[np.generic], corpus: str) -> None:
        self._file: BinaryIO = path.open("xb")
        self._digest = hashlib.sha256()
        self.path, self.dtype, self.bytes = path, dtype, 0
        self._write(header(part, dtype, corpus))

    def append(self, items: NDArray[np.generic]) -> None:
        """Add items, which must be of the file's type or safely fit it."""
        self._write(np.ascontiguousarray(items, self.dtype).data.cast("B"))

    def _write(self, data: bytes | memoryview) -> None:
        self._file.write(data)
        self._digest.update(data)
        self.bytes += len(data)

    def close(self) -> dict[str, str | int]:
        """Flush to disk; the file's entry in the manifest."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        return {"bytes": self.bytes, "sha256": self._digest.hexdigest()}

    def abandon(self) -> None:
        """Close the file without more ado."""
        self._file.close()


class SequenceWriter:
    """Writes sequences, in chunks, into `name` and `name.offsets` of a folder; memory does not grow with them."""

    def __init__(self, folder: Path, name: str, dtype: np.dtype[np.generic], corpus: str) -> None:
        self.name = name
        self.items = 0
        self._parts = {
            name: PartWriter(folder / name, name, dtype, corpus),
            name + OFFSETS: PartWriter(folder / (name + OFFSETS), name + OFFSETS, np.dtype("<i8"), corpus),
        }
        self._parts[name + OFFSETS].append(np.zeros(1, np.int64))

    def append(self, items: NDArray[np.generic], lengths: NDArray[np.int64]) -> None:
        """Add sequences: their items one after the other, and how many items each has."""
        ends = end_offsets(lengths, self.items)
        self._parts[self.name].append(items)
        self._parts[self.name + OFFSETS].append(ends)
        self.items += len(items)

    def close(self) -> dict[str, dict[str, str | int]]:
        """Flush both files to disk; their entries in the manifest."""
        return {name: part.close() for name, part in self._parts.items()}

    def __enter__(self) -> SequenceWriter:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        for part in self._parts.values():
            part.abandon()


def map_part(path: Path, part: str, corpus: str, size: int) -> NDArray[np.generic]:
    """Map the items of one file into memory, after checking its size and header.

    Raises `DataError` naming a file that is missing, cut, of another corpus, part or version.
    """
    try:
        actual = path.stat().st_size
    except OSError:
        raise DataError(f"{path} is missing; run mt prepare again.") from None
    if actual != size:
        raise DataError(
            f"{path} has {actual} {plural(actual, 'byte')} where its manifest says {size}; run mt prepare again."
        )
    with path.open("rb") as file:
        raw = file.read(HEADER.itemsize)
    if len(raw) < HEADER.itemsize or not raw.startswith(MAGIC):
        raise DataError(
            f"{path} is no prepared data: its first bytes are not those of such a file; run mt prepare again."
        )
    head = np.frombuffer(raw, HEADER)[0]
    if head["version"] != VERSION:
        raise DataError(f"{path} is of version {head['version']}, this program reads version {VERSION}; prepare again.")
    if head["corpus"].decode("latin-1") != corpus or head["part"].decode("latin-1") != part:
        raise DataError(f"{path} belongs to another prepared corpus or part; run mt prepare again.")
    return _map(path, np.dtype(head["type"].decode("latin-1")), size)


def _map(path: Path, dtype: np.dtype[np.generic], size: int) -> NDArray[np.generic]:
    count, rest = divmod(size - HEADER.itemsize, dtype.itemsize)
    if rest:
        raise DataError(f"{path} does not hold whole items of {dtype.itemsize} bytes; run mt prepare again.")
    if not count:
        return np.zeros(0, dtype)
    return np.memmap(path, dtype, "r", HEADER.itemsize, (count,)).view(np.ndarray)


class Sequences(Generic[Item]):
    """Memory-mapped sequences: `sequences[k]` is a view of the file, not a copy."""

    def __init__(self, items: NDArray[Item], offsets: NDArray[np.int64]) -> None:
        self.items = items
        """All items, one sequence after the other."""
        self.offsets = offsets
        """(sequences + 1) int64: sequence k is `items[offsets[k]:offsets[k + 1]]`."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> NDArray[Item]:
        if not 0 <= index < len(self):
            raise IndexError(f"sequence {index} of {len(self)}")
        return self.items[self.offsets[index] : self.offsets[index + 1]]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """(sequences,) int64: items of each."""
        return np.diff(self.offsets)


def read_sequences(folder: Path, name: str, corpus: str, sizes: dict[str, int], count: int) -> Sequences[np.generic]:
    """Map `count` sequences that a `SequenceWriter` wrote; `sizes` are those of the manifest."""
    items = map_part(folder / name, name, corpus, sizes[name])
    path = folder / (name + OFFSETS)
    offsets = map_part(path, name + OFFSETS, corpus, sizes[name + OFFSETS]).astype("<i8", copy=False)
    if len(offsets) != count + 1 or offsets[0] != 0 or offsets[-1] != len(items):
        raise DataError(f"{path} does not fit {folder / name}; run mt prepare again.")
    return Sequences(items, offsets)
