from __future__ import annotations

import gzip
import io
import os
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mt.errors import DataError
from mt.text.streams import arriving_blocks


class Portions(io.BytesIO):
    """A stream that gives what it was made of, a portion at a read."""

    def __init__(self, portions: list[bytes]) -> None:
        super().__init__()
        self.portions = iter(portions)

    def read1(self, size: int | None = -1, /) -> bytes:  # noqa: ARG002
        return next(self.portions, b"")


def lines_of(portions: list[bytes], most: int) -> list[list[str]]:
    return [block.lines() for block in arriving_blocks(Portions(portions), "input", most)]


@given(st.lists(st.sampled_from([b"a", b"b c", b"\n", b"\n\n", b"d\ne"]), max_size=12), st.integers(1, 4))
def test_blocks_hold_each_line_once_in_order(portions: list[bytes], most: int) -> None:
    data = b"".join(portions)
    expected = data.decode().removesuffix("\n").split("\n") if data else []
    blocks = lines_of(portions, most)
    assert [line for block in blocks for line in block] == expected
    assert all(len(block) == most for block in blocks[:-1])
    assert all(1 <= len(block) <= most for block in blocks)


def test_text_in_a_wide_encoding_is_refused() -> None:
    """Fault 17: as in a file, where its NUL bytes would pass for UTF-8."""
    with pytest.raises(DataError) as error:
        list(arriving_blocks(io.BytesIO("one two\nthree\n".encode("utf-16-le")), "standard input", 9))
    assert str(error.value) == ("standard input is UTF-16LE text; convert it to UTF-8 (iconv -f UTF-16LE -t UTF-8).")


def test_compressed_text_is_named_as_such() -> None:
    """Fault 19: a file is decompressed; of a stream it is said, and not that it is no UTF-8."""
    with pytest.raises(DataError) as error:
        list(arriving_blocks(io.BytesIO(gzip.compress(b"one two\n")), "standard input", 9))
    assert str(error.value) == (
        "standard input is compressed (gzip); decompress it on the way, or give the file by its name."
    )


def test_a_character_cut_by_a_read_is_whole() -> None:
    assert lines_of([b"na\xc3", b"\xafve\n"], 5) == [["naïve"]]


def test_a_byte_order_mark_is_stripped_and_only_at_the_start() -> None:
    assert lines_of([b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n"], 1) == [["a"], ["\ufeffb"]]
    assert lines_of([b"\xef\xbb\xbf"], 1) == []


@pytest.mark.parametrize("most", [1, 2, 9])
def test_errors_count_from_the_start_of_the_stream(most: int) -> None:
    """Fault 17."""
    with pytest.raises(DataError, match=r"^input, line 3, byte offset 6: 0xFF is not UTF-8"):
        lines_of([b"\xef\xbb\xbfa\n\n\xff\n"], most)


@pytest.fixture
def pipe() -> Iterator[tuple[io.BufferedReader, io.BufferedWriter]]:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as reader, os.fdopen(writing, "wb") as writer:
        yield reader, writer


def test_lines_come_when_the_input_pauses(pipe: tuple[io.BufferedReader, io.BufferedWriter]) -> None:
    """Fault 89."""
    reader, writer = pipe
    blocks = arriving_blocks(reader, "input", 100)
    for data, lines in ((b"a\nb\n", ["a", "b"]), (b"c\nd", ["c"]), (b"e\n", ["de"])):
        writer.write(data)
        writer.flush()
        assert next(blocks).lines() == lines
    writer.write(b"f")
    writer.close()
    assert [block.lines() for block in blocks] == [["f"]]


def test_half_a_line_is_waited_for(pipe: tuple[io.BufferedReader, io.BufferedWriter]) -> None:
    reader, writer = pipe
    writer.write(b"a")
    writer.flush()

    def go_on() -> None:
        writer.write(b"b\n")
        writer.flush()

    late = threading.Timer(0.2, go_on)
    late.start()
    assert next(arriving_blocks(reader, "input", 5)).lines() == ["ab"]
    late.join()
