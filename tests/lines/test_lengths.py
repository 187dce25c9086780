from __future__ import annotations

from pathlib import Path

import pytest

from mt.errors import DataError
from mt.lines.lengths import FILE, Lengths
from tests.data.fakes import corpus_of
from tests.translators import words


def test_what_99_of_100_lines_had(tmp_path: Path) -> None:
    tokenizers_of = ["a. B"] * 2 + ["a b c d e f g"] * 3 + ["a b"] * 395
    tokenizer = words("a", "b", "c", "d", "e", "f", "g", "a.", "B")
    from mt.text.tokenizer import Tokenizers

    sources = corpus_of(tokenizers_of, tokenizers_of, Tokenizers(tokenizer, tokenizer, True)).src
    found = Lengths.of(sources, tokenizer)
    assert found == Lengths(pieces=2, sentences=1, longest=7)
    found.save(tmp_path)
    assert Lengths.load(tmp_path) == found


def test_a_run_without_them_and_a_damaged_file(tmp_path: Path) -> None:
    assert Lengths.load(tmp_path) is None
    (tmp_path / FILE).write_text('{"pieces": 3}')
    with pytest.raises(DataError) as raised:
        Lengths.load(tmp_path)
    assert str(raised.value) == f"{tmp_path / FILE} is damaged; delete it, or train again, which makes it."
