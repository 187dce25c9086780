"""Compressed files, told by their first bytes: gzip, bzip2, xz and Zstandard, of one member or of several joined."""

from __future__ import annotations

import bz2
import lzma
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol, cast

from mt.errors import DataError, MissingExtraError


class Decompressor(Protocol):
    """Of one member: what the standard library's decompressor objects have in common."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


def _gzip() -> Decompressor:
    return cast(Decompressor, zlib.decompressobj(wbits=31))


def _zstd() -> Decompressor:
    if sys.version_info >= (3, 14):
        from compression import zstd

        return zstd.ZstdDecompressor()
    try:
        import zstandard
    except ImportError:
        raise MissingExtraError("Reading Zstandard files", "zstd") from None
    return cast(Decompressor, zstandard.ZstdDecompressor().decompressobj())


_BZIP2_BLOCKS = (b"1AY&SY", b"\x17rE8P\x90")  # the first block, or the end of an empty file; a text may begin "BZh"

# First bytes of a member -> name of the format and what decompresses one member. Zstandard has frames to skip, too.
CODECS: dict[bytes, tuple[str, Callable[[], Decompressor]]] = {
    b"\x1f\x8b": ("gzip", _gzip),
    **{b"BZh%d" % k + block: ("bzip2", bz2.BZ2Decompressor) for k in range(1, 10) for block in _BZIP2_BLOCKS},
    b"\xfd7zXZ\x00": ("xz", lzma.LZMADecompressor),
    b"\x28\xb5\x2f\xfd": ("zstd", _zstd),
    **{bytes([0x50 + k]) + b"\x2a\x4d\x18": ("zstd", _zstd) for k in range(16)},
}


def codec_of(start: bytes) -> tuple[str, Callable[[], Decompressor]] | None:
    """Of the data that begin with `start`; None where they are not compressed."""
    return next((codec for magic, codec in CODECS.items() if start.startswith(magic)), None)


def decompressed(path: Path) -> Iterator[bytes]:
    """Read a file in chunks of bytes, decompressed where it is compressed.

    Raises `DataError` naming a file that cannot be opened, is cut off, or is damaged.
    """
    chunks = _chunks(path)
    first = next(chunks, b"")
    codec = codec_of(first)
    if codec is None:
        yield first
        yield from chunks
    else:
        yield from _members(path, codec[0], codec[1], first, chunks)


def _chunks(path: Path) -> Iterator[bytes]:
    """Small chunks: one of them may decompress to a thousand times its size."""
    try:
        with Path(path).open("rb") as file:
            while data := file.read(1 << 16):
                yield data
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None


def _members(
    path: Path, name: str, new: Callable[[], Decompressor], data: bytes, chunks: Iterator[bytes]
) -> Iterator[bytes]:
    member, begun = new(), False
    while True:
        if not data and not (data := next(chunks, b"")):
            if begun:
                raise DataError(f"{path} is cut off: its {name} data end too soon; fetch or make the file again.")
            return
        if not begun and not (data := data.lstrip(b"\0")):  # padding between members
            continue
        begun = True
        if text := _decompress(path, name, member, data):
            yield text
        data = member.unused_data
        if member.eof:
            member, begun = new(), False


def _decompress(path: Path, name: str, member: Decompressor, data: bytes) -> bytes:
    try:
        return member.decompress(data)
    except Exception as error:  # each library has an error class of its own
        raise DataError(f"{path} is damaged: {name} says '{error}'; fetch or make the file again.") from None
