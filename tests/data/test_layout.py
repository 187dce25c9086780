from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mt.data.layout import HEADER, Sequences, SequenceWriter, end_offsets, narrowest, read_sequences
from mt.errors import DataError

IDS = [0, 32767, 32768, 40000, 65535, 65536, 70000]


def write(
    folder: Path, sequences: list[list[int]], vocab_size: int = 256, corpus: str = "c", name: str = "x"
) -> dict[str, int]:
    folder.mkdir(exist_ok=True)
    with SequenceWriter(folder, name, narrowest(vocab_size), corpus) as writer:
        for sequence in sequences:  # chunks of one sequence
            writer.append(np.array(sequence, np.uint32), np.array([len(sequence)], np.int64))
        return {file: int(entry["bytes"]) for file, entry in writer.close().items()}


def read(folder: Path, sizes: dict[str, int], count: int, corpus: str = "c", name: str = "x") -> Sequences[Any]:
    return read_sequences(folder, name, corpus, sizes, count)


@pytest.mark.parametrize(
    ("size", "dtype"),
    [(1, "u1"), (256, "u1"), (257, "u2"), (32768, "u2"), (65536, "u2"), (65537, "u4"), (70001, "u4"), (2**32, "u4")],
)
def test_the_type_follows_the_vocabulary(size: int, dtype: str, tmp_path: Path) -> None:
    """Fault 36."""
    assert narrowest(size) == np.dtype(dtype)
    ids = [index for index in IDS if index < size]
    sequences = read(tmp_path, write(tmp_path, [ids], size), 1)
    assert sequences[0].tolist() == ids
    assert sequences.items.dtype == np.dtype(dtype)


def test_a_vocabulary_beyond_32_bits_is_refused() -> None:
    """Fault 36."""
    with pytest.raises(DataError, match=r"^a vocabulary of 4294967297 pieces is more than 32 bits can number\.$"):
        narrowest(2**32 + 1)


@pytest.mark.parametrize("dtype", [np.int64, np.int32])
def test_offsets_are_64_bits(dtype: type[np.signedinteger[Any]]) -> None:
    """Fault 37."""
    ends = end_offsets(np.array([2**30, 1, 1], dtype))
    assert (ends * 2).tolist() == [2_147_483_648, 2_147_483_650, 2_147_483_652]
    assert ends.dtype == np.int64
    assert end_offsets(np.array([2**30] * 3, dtype)).tolist() == [2**30, 2**31, 3 * 2**30]
    assert end_offsets(np.array([1, 2]), 2**40).tolist() == [2**40 + 1, 2**40 + 3]


def test_a_sparse_file_beyond_2_gib_is_read_in_its_place(tmp_path: Path) -> None:
    """Fault 37."""
    sizes = write(tmp_path, [[], [7], [9]], 65536)
    many = 2**30 + 1
    sizes["x"] = HEADER.itemsize + (many + 2) * 2
    with (tmp_path / "x").open("r+b") as file:
        file.seek(HEADER.itemsize + many * 2)
        file.write(np.array([7, 9], "<u2").tobytes())
    with (tmp_path / "x.offsets").open("r+b") as file:
        file.seek(HEADER.itemsize)
        file.write(np.array([0, many, many + 1, many + 2], "<i8").tobytes())
    sequences = read(tmp_path, sizes, 3)
    assert sequences.lengths.tolist() == [many, 1, 1]
    assert [sequences[1].tolist(), sequences[2].tolist()] == [[7], [9]]


def test_lengths_above_16_bits_are_exact(tmp_path: Path) -> None:
    """Fault 38."""
    sequences = read(tmp_path, write(tmp_path, [[1], [2] * 70_000, [3]]), 3)
    assert sequences.lengths.tolist() == [1, 70_000, 1]
    assert sequences.lengths.dtype == np.int64


def test_empty_sequences_and_none_at_all(tmp_path: Path) -> None:
    sequences = read(tmp_path, write(tmp_path, [[], [1, 2], []]), 3)
    assert [sequence.tolist() for sequence in (sequences[0], sequences[1], sequences[2])] == [[], [1, 2], []]
    assert len(read(tmp_path / "none", write(tmp_path / "none", []), 0)) == 0


@pytest.mark.parametrize("index", [-1, 2])
def test_an_index_outside_is_an_error(tmp_path: Path, index: int) -> None:
    with pytest.raises(IndexError):
        read(tmp_path, write(tmp_path, [[1], [2]]), 2)[index]


@pytest.mark.parametrize("file", ["x", "x.offsets"])
class TestDamage:
    """Fault 43: each is found when the file is opened, and the file is named."""

    def test_a_cut_file(self, tmp_path: Path, file: str) -> None:
        sizes = write(tmp_path, [[1, 2], [3]])
        data = (tmp_path / file).read_bytes()
        (tmp_path / file).write_bytes(data[:-1])
        with pytest.raises(DataError) as error:
            read(tmp_path, sizes, 2)
        assert str(error.value) == (
            f"{tmp_path / file} has {len(data) - 1} bytes where its manifest says {len(data)}; run mt prepare again."
        )

    def test_an_empty_file(self, tmp_path: Path, file: str) -> None:
        sizes = write(tmp_path, [[1, 2], [3]])
        (tmp_path / file).write_bytes(b"")
        with pytest.raises(DataError, match="has 0 bytes where its manifest says"):
            read(tmp_path, sizes, 2)
        with pytest.raises(DataError, match="is no prepared data: its first bytes are not those of such a file"):
            read(tmp_path, {**sizes, file: 0}, 2)

    def test_a_missing_file(self, tmp_path: Path, file: str) -> None:
        sizes = write(tmp_path, [[1, 2], [3]])
        (tmp_path / file).unlink()
        with pytest.raises(DataError, match=rf"{file} is missing; run mt prepare again\.$"):
            read(tmp_path, sizes, 2)

    def test_a_first_byte_that_is_wrong(self, tmp_path: Path, file: str) -> None:
        sizes = write(tmp_path, [[1, 2], [3]])
        data = bytearray((tmp_path / file).read_bytes())
        data[0] ^= 1
        (tmp_path / file).write_bytes(data)
        with pytest.raises(DataError, match=rf"{file} is no prepared data: "):
            read(tmp_path, sizes, 2)

    def test_a_file_of_another_corpus(self, tmp_path: Path, file: str) -> None:
        sizes = write(tmp_path / "a", [[1, 2], [3]], corpus="a")
        write(tmp_path / "b", [[1, 2], [3]], corpus="b")
        (tmp_path / "b" / file).replace(tmp_path / "a" / file)
        with pytest.raises(
            DataError, match=rf"{file} belongs to another prepared corpus or part; run mt prepare again"
        ):
            read(tmp_path / "a", sizes, 2, corpus="a")

    def test_a_file_of_the_other_side(self, tmp_path: Path, file: str) -> None:
        sizes = write(tmp_path, [[1, 2], [3]])
        write(tmp_path, [[1, 2], [3]], name="y")
        (tmp_path / file.replace("x", "y")).replace(tmp_path / file)
        with pytest.raises(DataError, match="belongs to another prepared corpus or part"):
            read(tmp_path, sizes, 2)

    def test_a_file_of_another_version(self, tmp_path: Path, file: str) -> None:
        sizes = write(tmp_path, [[1, 2], [3]])
        data = bytearray((tmp_path / file).read_bytes())
        data[8] = 9
        (tmp_path / file).write_bytes(data)
        with pytest.raises(DataError, match="is of version 9, this program reads version 1; prepare again"):
            read(tmp_path, sizes, 2)


def test_offsets_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    """Fault 43."""
    sizes = write(tmp_path, [[1, 2], [3]])
    with pytest.raises(DataError, match=r"x.offsets does not fit .*x; run mt prepare again\.$"):
        read(tmp_path, sizes, 3)
