from __future__ import annotations

from pathlib import Path

import pytest

from mt.errors import DataError
from mt.text.corpus import Pair, read_pair_blocks, read_pairs


def pair_of_files(tmp_path: Path, src: bytes, tgt: bytes) -> tuple[Path, Path]:
    (tmp_path / "s").write_bytes(src)
    (tmp_path / "t").write_bytes(tgt)
    return tmp_path / "s", tmp_path / "t"


def test_carriage_returns_do_not_shift_pairs(tmp_path: Path) -> None:
    """Fault 2."""
    pairs = list(read_pairs(*pair_of_files(tmp_path, b"a b\rc d\ne f\n", b"x\ny\n")))
    assert pairs == [Pair("a b\rc d", "x"), Pair("e f", "y")]


@pytest.mark.parametrize(
    ("src", "tgt", "counts", "other"),
    [
        (b"a\nb\nc\n", b"x\ny\n", "3 lines", 2),
        (b"a\nb\nc\n", b"", "3 lines", 0),
        (b"a\n", b"x\ny\n", "1 line", 2),
        (b"", b"x\n", "0 lines", 1),
    ],
)
def test_unequal_numbers_of_lines_are_refused_with_both(
    tmp_path: Path, src: bytes, tgt: bytes, counts: str, other: int
) -> None:
    """Fault 14."""
    with pytest.raises(DataError) as error:
        list(read_pairs(*pair_of_files(tmp_path, src, tgt)))
    assert str(error.value) == (
        f"{tmp_path / 's'} has {counts} and {tmp_path / 't'} has {other}; line k of one must translate "
        "line k of the other, so the numbers must be equal."
    )


def test_both_numbers_are_counted_to_the_end(tmp_path: Path) -> None:
    """Fault 14."""
    paths = pair_of_files(tmp_path, b"a\n" * 10, b"x\n" * 25)
    with pytest.raises(DataError, match=r"has 10 lines and .* has 25;"):
        list(read_pair_blocks(*paths, lines=4))


def test_a_final_line_feed_makes_no_difference(tmp_path: Path) -> None:
    """Fault 15."""
    assert len(list(read_pairs(*pair_of_files(tmp_path, b"a\nb", b"x\ny\n")))) == 2
