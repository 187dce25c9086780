"""Standard input and its like, whose lines arrive while one is waiting for them; and standard output and its like."""

from __future__ import annotations

import math
import select
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from io import BufferedIOBase, UnsupportedOperation
from pathlib import Path
from typing import BinaryIO

from mt.errors import DataError
from mt.text.codecs import codec_of
from mt.text.files import Block, refuse_wide, write_aside

PAUSE = 0.05
"""Seconds without input after which the lines that are there are taken to be all for now."""


def is_file(target: BufferedIOBase | Path) -> bool:
    """Whether it is the path of a file, that there is or may be; not of a device or a pipe, which keep their name."""
    return isinstance(target, Path) and not (target.exists() and not target.is_file())


def opened(target: BufferedIOBase | Path) -> AbstractContextManager[BinaryIO | BufferedIOBase]:
    """What can be written to: the stream itself; a device or pipe; a file that has its name when all went well."""
    if not isinstance(target, Path):
        return nullcontext(target)
    return write_aside(target.resolve()) if is_file(target) else target.open("wb")


def arriving_blocks(stream: BufferedIOBase, name: str, most: int, pause: float = PAUSE) -> Iterator[Block]:
    """Blocks of `most` lines; of fewer where the input pauses, so that a line can be answered before the next comes.

    `name` is what errors call the stream. A line is there when its LF has come, or the end of the input. With a `pause`
    of infinity only the last block has fewer lines.
    """
    held, ended, line, offset = b"", False, 1, 0
    while held or not ended:
        if not ended:
            held, ended = _gather(stream, held, most, pause)
        if offset == 0:
            _refuse_compressed(name, held)
            refuse_wide(Path(name), held)
        count, end = _whole_lines(held, most)
        if ended and count < most:
            end = len(held)
        mark = 3 if offset == 0 and held.startswith(b"\xef\xbb\xbf") else 0
        if end > mark:
            yield Block(Path(name), held[mark:end], line, offset + mark)
        held, line, offset = held[end:], line + count, offset + end


def _refuse_compressed(name: str, start: bytes) -> None:
    if codec := codec_of(start):
        raise DataError(f"{name} is compressed ({codec[0]}); decompress it on the way, or give the file by its name.")


def _gather(stream: BufferedIOBase, held: bytes, most: int, pause: float) -> tuple[bytes, bool]:
    """Read on after `held` until there are `most` lines, or some and a pause, or the end; whether it is the end."""
    chunks, count = [held], held.count(b"\n")
    while count < most and not (count and _pauses(stream, pause)):
        chunk = stream.read1(1 << 16)
        if not chunk:
            return b"".join(chunks), True
        chunks.append(chunk)
        count += chunk.count(b"\n")
    return b"".join(chunks), False


def _pauses(stream: BufferedIOBase, pause: float) -> bool:
    if math.isinf(pause):
        return False
    try:
        return not select.select([stream.fileno()], [], [], pause)[0]
    except UnsupportedOperation:  # bytes in memory, which never pause
        return False
    except OSError:  # a system where only sockets can be asked: what has come is all for now
        return True


def _whole_lines(data: bytes, most: int) -> tuple[int, int]:
    """How many line feeds `data` has, up to `most`, and the place after the last of those."""
    end = 0
    for count in range(most):
        found = data.find(b"\n", end)
        if found < 0:
            return count, end
        end = found + 1
    return most, end
