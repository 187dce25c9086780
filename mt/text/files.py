"""Text files: compression, encoding, what a line is, and writing so that a final name always holds a whole file.

A line ends at LF, and only there; carriage returns before the LF are stripped. Text is UTF-8, strictly; a byte order
mark at the start of a file is stripped. Compression is told by the first bytes, whatever the name says.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

from mt.errors import DataError
from mt.text.codecs import decompressed

BLOCK_LINES = 4096
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r"))


@dataclass(frozen=True)
class Block:
    """Consecutive whole lines of a file, not yet decoded: cheap to read, count and send to another process."""

    path: Path
    data: bytes
    """The lines; each ends in LF, save that the file's last line may lack it."""
    first_line: int
    """Number of the block's first line in the file, counted from 1."""
    first_byte: int
    """Offset of the block's first byte in the (decompressed) file."""

    def __len__(self) -> int:
        """Number of lines."""
        return self.data.count(b"\n") + (not self.data.endswith(b"\n"))

    def cut(self, parts: int) -> Iterator[Block]:
        """At most `parts` blocks of these lines, each with about as many bytes."""
        start, line = 0, self.first_line
        for part in range(1, parts + 1):
            share = max(start, len(self.data) * part // parts)
            end = len(self.data) if part == parts else self.data.rfind(b"\n", start, share) + 1
            if end > start:
                yield Block(self.path, self.data[start:end], line, self.first_byte + start)
                line += self.data.count(b"\n", start, end)
                start = end

    def lines(self) -> list[str]:
        """The lines without their ends; `DataError` with line and byte where they are not UTF-8."""
        try:
            return _split(self.data.decode())
        except UnicodeDecodeError as error:
            line = self.first_line + self.data.count(b"\n", 0, error.start)
            place = f"{self.path}, line {line}, byte offset {self.first_byte + error.start}"
            raise DataError(
                f"{place}: 0x{self.data[error.start]:02X} is not UTF-8; convert the file to UTF-8 or mend the line."
            ) from None

    def readable(self) -> tuple[list[str], DataError | None]:
        """The lines before the first that is not UTF-8, and the error that `lines` raises because of it, or None."""
        try:
            return self.lines(), None
        except DataError as error:
            found = self.lines_or_none()
            return [line for line in found[: found.index(None)] if line is not None], error

    def lines_or_none(self) -> list[str | None]:
        """The lines without their ends; None for each that is not UTF-8."""
        try:
            return list(_split(self.data.decode()))
        except UnicodeDecodeError:
            return [_decode_or_none(line) for line in self.data.removesuffix(b"\n").split(b"\n")]


def _split(text: str) -> list[str]:
    lines = text.removesuffix("\n").split("\n")
    return [line.rstrip("\r") for line in lines] if "\r" in text else lines


def _decode_or_none(line: bytes) -> str | None:
    try:
        return line.decode().rstrip("\r")
    except UnicodeDecodeError:
        return None


def read_blocks(path: Path, lines: int = BLOCK_LINES) -> Iterator[Block]:
    """Read the file in blocks of `lines` lines (the last may be shorter), in bounded memory.

    Raises `DataError` for a file that cannot be opened, is cut off, or is UTF-16 or UTF-32.
    """
    number, offset = 1, 0
    for data in _cut(_text_bytes(path), lines):
        start = 3 if offset == 0 and data.startswith(b"\xef\xbb\xbf") else 0
        if len(data) > start:
            yield Block(path, data[start:], number, offset + start)
        number, offset = number + lines, offset + len(data)


def read_lines(path: Path) -> Iterator[str]:
    """Read the lines of a text file, without their ends."""
    for block in read_blocks(path):
        yield from block.lines()


def _cut(chunks: Iterator[bytes], lines: int) -> Iterator[bytes]:
    """Cut a stream of bytes after every `lines` line feeds; the rest comes last."""
    held: list[bytes] = []
    wanted = lines
    for chunk in chunks:
        start, count = 0, chunk.count(b"\n")
        while count >= wanted:
            end = _after_line_feed(chunk, start, wanted)
            yield b"".join([*held, chunk[start:end]])
            held, start, count, wanted = [], end, count - wanted, lines
        held.append(chunk[start:])
        wanted -= count
    if rest := b"".join(held):
        yield rest


def _after_line_feed(chunk: bytes, start: int, count: int) -> int:
    """Position just after the `count`-th line feed from `start` on."""
    for _ in range(count):
        start = chunk.index(b"\n", start) + 1
    return start


def _text_bytes(path: Path) -> Iterator[bytes]:
    chunks = decompressed(path)
    first = b""
    while len(first) < 4096 and (chunk := next(chunks, b"")):
        first += chunk
    refuse_wide(path, first)
    yield first
    yield from chunks


def refuse_wide(path: Path, start: bytes) -> None:
    """Raise `DataError` where the file that begins with `start` is UTF-16 or UTF-32."""
    if name := _wide_encoding(start[:4096]):
        raise DataError(f"{path} is {name} text; convert it to UTF-8 (iconv -f {name} -t UTF-8).")


def _wide_encoding(start: bytes) -> str | None:
    """Name UTF-16 or UTF-32 by the byte order mark, or by NUL bytes where Latin text in those encodings has them.

    In UTF-16 of other alphabets, such as Cyrillic, every second byte is some control character.
    """
    if start.startswith((b"\xff\xfe\x00\x00", b"\x00\x00\xfe\xff")):
        return "UTF-32"
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "UTF-16"
    nuls = [start[k::4].count(0) * 4 / max(len(start), 1) > 0.6 for k in range(4)]
    if len(start) < 8 or all(nuls):
        return None
    if sum(nuls) == 3:
        return "UTF-32"
    controls = _mostly_controls(start[::2]), _mostly_controls(start[1::2])
    if (nuls[1] and nuls[3]) or controls == (False, True):
        return "UTF-16LE"
    return "UTF-16BE" if (nuls[0] and nuls[2]) or controls == (True, False) else None


def _mostly_controls(data: bytes) -> bool:
    """Whether more than nine of ten bytes are control characters, white space not counted."""
    return len(data.translate(None, _CONTROLS)) < 0.1 * len(data)


@contextmanager
def write_aside(path: Path) -> Iterator[BinaryIO]:
    """Open a file beside `path` for bytes; it takes the name `path`, flushed to disk, when all went well.

    Missing parent folders are made. On any error `path` stays as it was and nothing is left beside it. A device or a
    pipe is refused: it would be replaced by a file.
    """
    path = Path(path)
    if path.exists() and not path.is_file():
        what = "a folder" if path.is_dir() else "a device or a pipe"
        raise DataError(f"{path} is {what}; a file is to be written there.")
    make_folder(path.parent)
    aside = path.with_name(f".{path.name[:100]}.{uuid4().hex[:8]}.tmp")
    try:
        with standing_for(path, aside):
            with aside.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            aside.replace(path)
    finally:
        with suppress(OSError):
            aside.unlink()


@contextmanager
def standing_for(path: Path, aside: Path) -> Iterator[None]:
    """Where the system has an error of `aside`, or of no file, have it name `path`, which a person knows."""
    try:
        yield
    except OSError as error:
        name = str(error.filename or aside)
        if error.errno in (None, errno.EPIPE) or not name.startswith(str(aside)):
            raise
        raise OSError(error.errno, error.strerror, str(path) + name[len(str(aside)) :]) from None


def make_folder(folder: Path) -> None:
    """Make the folder and its parents where they are missing; `DataError` where a file is in the way."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise DataError(f"{folder} cannot be a folder: a file of that name is in the way.") from None
    except OSError as error:
        raise DataError(f"{folder} cannot be made: {error.strerror}.") from None


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text; its line ends go out as they are."""
    with write_aside(path) as file:
        file.write(text.encode())


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def read_json(path: Path, remedy: str = "restore it") -> Any:
    """Read a JSON file; `DataError` where it is missing or broken. `remedy`: what to do about a broken one."""
    try:
        return json.loads(Path(path).read_bytes())
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise DataError(f"{path} is not whole JSON ({error}); {remedy}.") from None


def sha256_of(path: Path) -> str:
    """SHA-256 of the file's bytes as they lie on disk, in hexadecimal."""
    digest = hashlib.sha256()
    with Path(path).open("rb") as file:
        while data := file.read(1 << 20):
            digest.update(data)
    return digest.hexdigest()
