from __future__ import annotations

import numpy as np
import pytest

from mt.lines.alignment import align, copy_unknown, source_words
from mt.text.config import TokenizerConfig
from mt.text.tokenizer import Tokenizer, Tokenizers
from tests.translators import words


def subwords(normalization: str = "nfc") -> Tokenizer:
    """Characters, so that what a word is made of is known."""
    texts = ["aa bb cc", "ab ca bc \u00bd \u00a0"] * 5
    config = TokenizerConfig(type="char", vocab_size=100, normalization=normalization)
    return Tokenizers.train(config, texts, texts, ("a", "b")).src


def test_attention_to_pieces_becomes_links_of_words() -> None:
    """Fault 85: a peak on piece 3 of a a b b c c, counted from 0, is word 1."""
    source = [(0,), (0,), (1,), (1,), (2,), (2,)]
    attention = np.full((1, 7), 0.1, np.float32)
    attention[0, 3] = 0.4
    assert align(attention, source, [(0,)]) == ((1, 0),)


def test_a_words_pieces_are_added_on_one_side_and_averaged_on_the_other() -> None:
    attention = np.array([[0.4, 0.3, 0.3, 0.0], [0.0, 0.3, 0.3, 0.4], [0.1, 0.1, 0.1, 0.7]], np.float32)
    assert align(attention, [(0,), (1,), (1,), (2,)], [(0,), (0,), (1,)]) == ((1, 0), (2, 1))


def test_the_end_mark_is_no_word_and_without_words_there_are_no_links() -> None:
    attention = np.array([[0.1, 0.9], [0.5, 0.5]], np.float32)
    assert align(attention, [(0,)], [(0,)]) == ((0, 0),)
    assert align(attention, [], [(0,)]) == ()
    assert align(attention, [(0,)], []) == ()


def test_pieces_know_their_words() -> None:
    tokenizer = subwords()
    ids = tokenizer.encode("aa b")
    assert [tokenizer.pieces[index] for index in ids] == ["\u2581", "a", "a", "\u2581", "b"]
    assert tokenizer.words_of(ids) == [(), (0,), (0,), (), (1,)]
    assert words("a", "b").words_of([4, 0, 5]) == [(0,), (1,), (2,)]


def test_an_unknown_piece_is_a_word_of_its_own_where_it_is_decoded() -> None:
    """Fault 85: SentencePiece shows it between spaces."""
    tokenizer = subwords()
    ids = tokenizer.encode("az b")
    assert tokenizer.words_of(ids) == [(), (0,), (0,), (), (1,)]
    assert tokenizer.decode(ids).split() == ["a", "\u2047", "b"]
    assert tokenizer.words_of(ids, decoded=True) == [(), (0,), (1,), (), (2,)]


@pytest.mark.parametrize("normalization", ["nfc", "nmt_nfkc"])
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("aa bb", [0, 0, 1, 1]),
        ("  aa   bb ", [0, 0, 1, 1]),
        ("aa\tb c", [0, 0, 0, 1]),
        ("\x01 aa", [1, 1]),
    ],
)
def test_words_are_those_of_the_line_as_it_was_given(line: str, expected: list[int], normalization: str) -> None:
    """A tab makes two words of one, and of a control character alone nothing is left."""
    tokenizer = subwords(normalization)
    found = source_words(tokenizer, line, tokenizer.encode(line))
    assert [word for of_piece in found for word in of_piece] == expected


def test_unknown_words_are_replaced_by_those_that_they_come_from() -> None:
    """Fault 85."""
    assert copy_unknown("x \u2047 y \u2047", [1, 3], ((0, 0), (1, 1), (0, 2)), "aa bb cc") == "x bb y \u2047"
