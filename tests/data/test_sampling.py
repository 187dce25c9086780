from __future__ import annotations

from pathlib import Path

import numpy as np

from mt.data.sampling import evenly, sample_lines


def test_few_lines_are_all_taken() -> None:
    assert evenly(5, 5).tolist() == [0, 1, 2, 3, 4]
    assert evenly(0, 5).tolist() == []


def test_one_line_is_drawn_from_each_stretch() -> None:
    picked = evenly(100_003, 1000)
    assert len(picked) == 1000
    assert (picked * 1000 // 100_003 == np.arange(1000)).mean() > 0.99
    assert (np.diff(picked) > 0).all()
    assert len(set((picked % 10).tolist())) == 10  # no fixed stride, which a corpus of a period would meet
    assert evenly(100_003, 1000).tolist() == picked.tolist()


def test_files_are_one_text(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    paths[0].write_text("".join(f"a{number}\n" for number in range(6000)))
    paths[1].write_text("".join(f"b{number}\n" for number in range(6000)))
    lines = [f"a{number}" for number in range(6000)] + [f"b{number}" for number in range(6000)]
    assert list(sample_lines(paths, 12_000, 20_000)) == lines
    assert list(sample_lines(paths, 12_000, 500)) == [lines[index] for index in evenly(12_000, 500)]


def test_lines_that_are_not_utf8_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a\n\xff\nb\n")
    assert list(sample_lines([tmp_path / "a"], 3, 10)) == ["a", "b"]
