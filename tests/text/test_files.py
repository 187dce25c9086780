from __future__ import annotations

import errno
import hashlib
import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mt.errors import DataError
from mt.text.files import Block, read_blocks, read_json, read_lines, sha256_of, write_aside, write_json, write_text


def lines_of(tmp_path: Path, data: bytes) -> list[str]:
    path = tmp_path / "text.txt"
    path.write_bytes(data)
    return list(read_lines(path))


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"a\nb", ["a", "b"]),
        (b"a\nb\n", ["a", "b"]),
        (b"a\nb\n\n", ["a", "b", ""]),
        (b"", []),
        (b"\n", [""]),
        (b"\xef\xbb\xbf", []),
    ],
)
def test_each_line_feed_ends_a_line(tmp_path: Path, data: bytes, lines: list[str]) -> None:
    """Fault 15."""
    assert lines_of(tmp_path, data) == lines


def test_a_carriage_return_inside_ends_no_line(tmp_path: Path) -> None:
    """Fault 2."""
    assert lines_of(tmp_path, b"a b\rc d\ne f\n") == ["a b\rc d", "e f"]


@pytest.mark.parametrize("mark", ["\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"])
def test_nothing_but_a_line_feed_ends_a_line(tmp_path: Path, mark: str) -> None:
    """Fault 2, its neighbours: what str.splitlines takes for line ends."""
    assert lines_of(tmp_path, f"a{mark}b\nc\n".encode()) == [f"a{mark}b", "c"]


@pytest.mark.parametrize("end", [b"\r\n", b"\r\r\n"])
def test_windows_line_ends_are_stripped(tmp_path: Path, end: bytes) -> None:
    """Fault 3."""
    assert lines_of(tmp_path, b"the cat ." + end + b"the dog ." + end) == ["the cat .", "the dog ."]


def test_nul_is_a_character_like_others_here(tmp_path: Path) -> None:
    """Fault 5: no line is lost or cut; the tokenizer makes a space of it."""
    assert lines_of(tmp_path, b"a\x00b c\nd e\n") == ["a\x00b c", "d e"]


def test_a_byte_order_mark_is_stripped_at_the_start_only(tmp_path: Path) -> None:
    assert lines_of(tmp_path, b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n") == ["a", "\ufeffb"]


@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"])
def test_bytes_that_are_not_utf8_are_named_with_their_place(tmp_path: Path, start: bytes) -> None:
    """Fault 17."""
    with pytest.raises(DataError) as error:
        lines_of(tmp_path, start + b"ok\ncaf\xe9 noir\n\xff\xfe\nlast\n")
    assert str(error.value) == (
        f"{tmp_path / 'text.txt'}, line 2, byte offset {6 + len(start)}: 0xE9 is not UTF-8; "
        "convert the file to UTF-8 or mend the line."
    )


def test_the_place_is_right_in_later_blocks(tmp_path: Path) -> None:
    """Fault 17."""
    with pytest.raises(DataError, match="line 9001, byte offset 18002: 0xFF is not UTF-8"):
        lines_of(tmp_path, b"a\n" * 9000 + b"bc\xff\n")


@pytest.mark.parametrize("bad", [b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"a\xe2\x82\n"])
def test_surrogates_overlong_and_cut_characters_are_refused(tmp_path: Path, bad: bytes) -> None:
    """Fault 17, its neighbours."""
    with pytest.raises(DataError, match="line 1, byte offset"):
        lines_of(tmp_path, bad + b"\n")


@pytest.mark.parametrize(
    ("encoding", "name"),
    [
        ("utf-16", "UTF-16"),
        ("utf-16-le", "UTF-16LE"),
        ("utf-16-be", "UTF-16BE"),
        ("utf-32", "UTF-32"),
        ("utf-32-le", "UTF-32"),
        ("utf-32-be", "UTF-32"),
    ],
)
def test_wide_encodings_are_named(tmp_path: Path, encoding: str, name: str) -> None:
    """Fault 17."""
    with pytest.raises(DataError) as error:
        lines_of(tmp_path, "The house is green.\nIt is old.\n".encode(encoding))
    path = tmp_path / "text.txt"
    assert str(error.value) == f"{path} is {name} text; convert it to UTF-8 (iconv -f {name} -t UTF-8)."


@pytest.mark.parametrize("text", ["Дом зелёный, да.\nОн старый.\n", "Το σπίτι\n", "הבית ירוק"])
@pytest.mark.parametrize(("encoding", "name"), [("utf-16-le", "UTF-16LE"), ("utf-16-be", "UTF-16BE")])
def test_wide_encodings_of_other_scripts_are_named(tmp_path: Path, text: str, encoding: str, name: str) -> None:
    """Fault 17: UTF-16 of Cyrillic text is valid UTF-8, and would be read as other text."""
    with pytest.raises(DataError, match=f"is {name} text; convert it to UTF-8"):
        lines_of(tmp_path, text.encode(encoding))


@pytest.mark.parametrize("text", ["Дом зелёный, да.\nОн старый.\n", "\0a\0\nb\0c\0\n", "a\nb\nc\nd\n", "a\t" * 9])
def test_nul_bytes_alone_are_no_wide_encoding(tmp_path: Path, text: str) -> None:
    """Fault 5."""
    assert lines_of(tmp_path, text.encode()) == text.removesuffix("\n").split("\n")


def test_lines_that_are_not_utf8_can_be_left_out(tmp_path: Path) -> None:
    """Fault 17."""
    path = tmp_path / "text.txt"
    path.write_bytes(b"ok\r\ncaf\xe9 noir\n\xff\xfe\nlast")
    assert [line for block in read_blocks(path) for line in block.lines_or_none()] == ["ok", None, None, "last"]


@pytest.mark.parametrize("lines", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("end", ["", "\n"])
def test_blocks_neither_lose_nor_repeat_lines(tmp_path: Path, lines: int, end: str) -> None:
    """Fault 40."""
    text = "\n".join("é" * count for count in (1, 0, 2, 3, 4, 5, 6)) + end
    path = tmp_path / "text.txt"
    path.write_bytes(text.encode())
    blocks = list(read_blocks(path, lines))
    assert b"".join(block.data for block in blocks) == text.encode()
    assert [len(block) for block in blocks] == [min(lines, 7 - start) for start in range(0, 7, lines)]
    assert [block.first_line for block in blocks] == [1 + start for start in range(0, 7, lines)]


@given(st.lists(st.integers(0, 5), min_size=1), st.integers(1, 5), st.booleans())
def test_a_block_is_cut_at_line_ends_into_parts_of_like_size(sizes: list[int], parts: int, ended: bool) -> None:
    data = b"".join(b"a" * size + b"\n" for size in sizes).removesuffix(b"" if ended else b"\n") or b"a"
    whole = Block(Path("in"), data, 7, 100)
    found = list(whole.cut(parts))
    assert b"".join(part.data for part in found) == data
    assert len(found) <= parts
    assert [part.lines() for part in found[:-1]] == [part.data.decode().split("\n")[:-1] for part in found[:-1]]
    assert [part.first_line for part in found] == [7 + sum(map(len, found[:place])) for place in range(len(found))]
    starts = [100 + sum(len(part.data) for part in found[:place]) for place in range(len(found))]
    assert [part.first_byte for part in found] == starts
    assert max(len(part.data) for part in found) <= len(data) / parts + max(sizes) + 1


def test_lines_longer_than_a_read_are_whole(tmp_path: Path) -> None:
    long = "ä" * 200_000
    assert lines_of(tmp_path, f"a\n{long}\nb\n".encode()) == ["a", long, "b"]


def test_writing_makes_parents_and_replaces_whole(tmp_path: Path) -> None:
    """Fault 44."""
    path = tmp_path / "my run" / "é (1)" / "-x.txt"
    write_text(path, "old\n")
    write_text(path, "new\n")
    assert path.read_bytes() == b"new\n"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("mask", [0o022, 0o027])
def test_whoever_may_read_new_files_may_read_these(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        write_text(tmp_path / "a", "a")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o666 & ~mask


def test_a_failed_write_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def fail() -> None:
        with write_aside(path) as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def full(_: int) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def forbidden(path: Path, *_: object) -> None:
    raise PermissionError(errno.EACCES, "Permission denied", str(path))


@pytest.mark.parametrize(("where", "fails"), [("os.fsync", full), ("pathlib.Path.open", forbidden)])
def test_an_error_of_the_system_names_the_file_that_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, fails: Callable[..., None]
) -> None:
    """Not the hidden one that is written first; a full disk names no file by itself."""
    monkeypatch.setattr(where, fails)
    with pytest.raises(OSError, match=r"No space|Permission") as error:
        write_text(tmp_path / "file", "x")
    assert error.value.filename == str(tmp_path / "file")


def test_an_error_of_another_file_names_that(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as error, write_aside(tmp_path / "file"):
        (tmp_path / "absent").read_bytes()
    assert error.value.filename == str(tmp_path / "absent")


def test_a_folder_is_not_overwritten(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r" is a folder; a file is to be written there\.$"):
        write_text(tmp_path, "x")


def test_a_pipe_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    """Fault 119."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match=r"pipe is a device or a pipe; a file is to be written there\.$"):
        write_text(tmp_path / "pipe", "x")
    assert (tmp_path / "pipe").is_fifo()


def test_a_file_in_place_of_a_parent_is_named(tmp_path: Path) -> None:
    """Fault 44."""
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(DataError, match=r"file cannot be a folder: a file of that name is in the way\.$"):
        write_text(tmp_path / "file" / "x", "x")


@pytest.mark.parametrize("piece", ["\u2028", "\r", "\xa0", "", "\0", "a\nb"])
def test_json_keeps_every_string(tmp_path: Path, piece: str) -> None:
    """Fault 28."""
    write_json(tmp_path / "a.json", [piece])
    assert read_json(tmp_path / "a.json") == [piece]


def test_broken_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b'{"a": ')
    with pytest.raises(DataError, match=r"a.json is not whole JSON \(.*\); do this\.$"):
        read_json(tmp_path / "a.json", "do this")


def test_checksum_is_that_of_the_bytes(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    assert sha256_of(tmp_path / "a") == hashlib.sha256(b"abc").hexdigest()


@given(
    st.lists(st.sampled_from([b"a", b"\n", b"\r", "é".encode(), b"\0", b"\x0b", "\u2028".encode()])), st.integers(1, 4)
)
def test_lines_are_those_between_line_feeds(parts: list[bytes], lines: int) -> None:
    """Faults 2 and 15, any text."""
    data = b"".join(parts)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "text"
        path.write_bytes(data)
        found = [line for block in read_blocks(path, lines) for line in block.lines()]
    expected = data.decode().split("\n")
    assert found == [line.rstrip("\r") for line in (expected if expected[-1] else expected[:-1])]
