from __future__ import annotations

import json
from dataclasses import replace

import pytest

from mt.lines.formats import ANSWERS, FORMATS
from mt.lines.translation import Alternative, Translation, first_word, joined, repeats


@pytest.mark.parametrize(
    ("tokens", "length"),
    [
        ("aaaaaaaa", 8),
        ("aaaaaaa", 0),
        ("xabababababy", 10),
        ("abcabcabcabc", 12),
        ("abcabcabcab", 0),
        ("abcdefghijklmnop", 0),
        ("abcdefgh" * 4, 32),
        ("abcdefghi" * 4, 0),
        ("", 0),
    ],
)
def test_what_is_said_over_and_over(tokens: str, length: int) -> None:
    """Fault 82: at least 4 times, at least 8 pieces, of sequences up to 8."""
    assert repeats(tokens) == length


@pytest.mark.parametrize(
    ("text", "place", "word"), [("ab cd ef", 0, 0), ("ab cd ef", 3, 1), ("ab cd", 4, 1), (" a", 1, 0), ("ab", 1, 0)]
)
def test_first_word(text: str, place: int, word: int) -> None:
    assert first_word(text, place) == word


def test_parts_are_joined_with_their_scores_and_their_words() -> None:
    one = Alternative("A b.", -1.0, -3.0, False, ("A", "b.", "</s>"), (-1.0, -1.0, -1.0), False, ((0, 1), (1, 0)))
    two = Alternative("C.", -4.0, -4.0, True, ("C.",), (-4.0,), True, ((0, 0),))
    both = joined([one, two], [0, 2], [3 / 4, 1 / 4])
    assert both.text == "A b. C."
    assert both.log_prob == -7.0
    assert both.score == pytest.approx(-7 / 4)
    assert (both.truncated, both.repetitive) == (True, True)
    assert both.tokens == ("A", "b.", "</s>", "C.")
    assert both.token_scores == (-1.0, -1.0, -1.0, -4.0)
    assert both.alignment == ((0, 1), (1, 0), (2, 2))
    assert joined([one], [0], [1.0]) is one


def test_parts_of_a_script_without_spaces_are_of_one_word() -> None:
    parts = [Alternative(text, 0.0, 0.0, alignment=((0, 0),)) for text in ("我去了。", "他来了。")]
    assert joined(parts, [0, 0], [0.5, 0.5]).alignment == ((0, 0),)


def test_the_names_of_an_answer_are_those_that_it_may_have() -> None:
    split = Translation("b", 0.0, 0.0, alignment=((0, 0), (1, 2)), source="a", parts=("a",), part_tokens=(1,))
    best = replace(split, cut_from=3, error="no")
    fields = json.loads(FORMATS["jsonl"](best, 2, {"id": 1}))
    assert set(fields) == {*ANSWERS, "id"}
    assert fields["alignment"] == "0-0 1-2"
    assert fields["n_best"][0]["translation"] == "b"
