from __future__ import annotations

import pytest

from mt.lines.bans import says, spellings
from tests.translators import words


@pytest.mark.parametrize(
    ("text", "phrase", "there"),
    [
        ("a cat sat", "cat", True),
        ("a category", "cat", False),
        ("concat it", "cat", False),
        ("a cat.", "cat", True),
        ("a Cat", "cat", False),
        ("the big cat", "big cat", True),
        ("wait...", "...", True),
        ("100 %", "%", True),
        ("我喜欢苹果", "喜欢", True),
        ("좋은고양이", "고양이", True),
    ],
)
def test_whole_words_where_the_script_has_them(text: str, phrase: str, there: bool) -> None:
    assert says(text, phrase) is there


def test_the_shortest_stretches_that_say_it_are_found() -> None:
    tokenizer = words("a", "b", "c")
    a, b, c = tokenizer.encode("a b c")
    assert list(spellings([a, b, c, a, b], "a b", tokenizer)) == [(a, b), (a, b)]
    assert list(spellings([a, b], "c", tokenizer)) == []
