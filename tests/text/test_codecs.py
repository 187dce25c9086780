from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest

from mt.errors import DataError
from mt.text.codecs import CODECS
from mt.text.files import read_lines


def zstd(data: bytes) -> bytes:
    zstandard = pytest.importorskip("zstandard")
    compressed: bytes = zstandard.ZstdCompressor(write_checksum=True).compress(data)
    return compressed


COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": zstd,
}


@pytest.fixture(params=COMPRESSORS)
def compress(request: pytest.FixtureRequest) -> Callable[[bytes], bytes]:
    return COMPRESSORS[request.param]


@pytest.mark.parametrize("text", ["BZh", "BZh9", "BZh91 is a word", "BZh0\nb", "(\u00b5/", "P*M"])
def test_a_text_that_only_begins_like_an_archive_is_a_text(tmp_path: Path, text: str) -> None:
    """Fault 19: no other format begins with bytes that a text in UTF-8 can begin with."""
    (tmp_path / "text").write_text(text + "\n", encoding="utf-8", newline="\n")
    assert list(read_lines(tmp_path / "text")) == text.split("\n")


@pytest.mark.parametrize("magic", CODECS)
def test_a_magic_without_an_archive_is_an_error(tmp_path: Path, magic: bytes) -> None:
    """The whole first bytes of a format, by chance: an error that says so, never lines."""
    (tmp_path / "text").write_bytes(magic + b" and then some text\n" * 10)
    with pytest.raises(DataError, match=r"text is (damaged|cut off): "):
        list(read_lines(tmp_path / "text"))


def test_all_members_are_read(compress: Callable[[bytes], bytes], tmp_path: Path) -> None:
    """Fault 19."""
    path = tmp_path / "text"
    path.write_bytes(compress(b"a\nb\n") + compress(b"c\n"))
    assert list(read_lines(path)) == ["a", "b", "c"]


def test_the_name_does_not_matter(compress: Callable[[bytes], bytes], tmp_path: Path) -> None:
    """Fault 19."""
    for name in ("corpus.txt", "corpus.gz", "corpus.xz"):
        (tmp_path / name).write_bytes(compress("grün\n".encode() * 3))
        assert list(read_lines(tmp_path / name)) == ["grün"] * 3


def test_a_cut_archive_is_an_error(compress: Callable[[bytes], bytes], tmp_path: Path) -> None:
    """Fault 19."""
    path = tmp_path / "text"
    whole = compress(b"a\nb\n" * 1000)
    for cut in (4, 1, len(whole) // 2):
        path.write_bytes(whole[:-cut])
        with pytest.raises(
            DataError, match=r"text is cut off: its \w+ data end too soon; fetch or make the file again"
        ):
            list(read_lines(path))


def test_a_cut_second_member_is_an_error(compress: Callable[[bytes], bytes], tmp_path: Path) -> None:
    """Fault 19."""
    path = tmp_path / "text"
    path.write_bytes(compress(b"a\n") + compress(b"b\n")[:-3])
    with pytest.raises(DataError, match="is cut off"):
        list(read_lines(path))


def test_bytes_after_the_end_are_an_error(compress: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(compress(b"a\n") + b"plain text and no archive\n")
    with pytest.raises(DataError, match="text is damaged: "):
        list(read_lines(path))


def test_a_damaged_archive_is_an_error(compress: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = tmp_path / "text"
    data = bytearray(compress(bytes(range(32, 127)) * 40))
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"text is (damaged|cut off): "):
        list(read_lines(path))


def test_padding_between_members_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(lzma.compress(b"a\n") + b"\0" * 8 + lzma.compress(b"b\n") + b"\0" * 4)
    assert list(read_lines(path)) == ["a", "b"]


def test_frames_to_skip_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"\x50\x2a\x4d\x18\x04\0\0\0abcd" + zstd(b"a\n"))
    assert list(read_lines(path)) == ["a"]


def test_empty_archives_are_empty(compress: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(compress(b""))
    assert list(read_lines(path)) == []


def test_large_files_come_in_pieces(compress: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = tmp_path / "text"
    lines = [f"line {number}" for number in range(50_000)]
    path.write_bytes(compress("".join(f"{line}\n" for line in lines).encode()))
    assert list(read_lines(path)) == lines


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"absent.txt cannot be read: No such file or directory\."):
        list(read_lines(tmp_path / "absent.txt"))
