from __future__ import annotations

import pytest

from mt.errors import ConfigError, DataError
from mt.text.config import SPECIALS, TokenizerConfig
from mt.text.words import WordTokenizer, train_words


def train(lines: list[str], size: int = 100, normalization: str = "nfc") -> WordTokenizer:
    config = TokenizerConfig(type="word", vocab_size=size, normalization=normalization, user_symbols=("<2de>",))
    return train_words(config, lines, "text.txt")


def test_only_u0020_separates() -> None:
    """Fault 16."""
    tokenizer = train(["a\xa0b  c\td "])
    assert tokenizer.words("a\xa0b  c\td ") == ["a\xa0b", "c\td"]
    assert tokenizer.words("a\u3000b\u2028c") == ["a\u3000b\u2028c"]
    assert tokenizer.words("   ") == []


def test_a_folding_normalisation_makes_spaces_of_others() -> None:
    """Fault 16: what it turns into U+0020 separates."""
    assert train(["x"], normalization="nmt_nfkc").words("a\xa0b  c\td\u3000e\x0bf ") == ["a", "b", "c", "d", "e", "f"]


def test_the_most_frequent_words_are_taken() -> None:
    tokenizer = train(["b b a a c d d d"], size=8)
    assert tokenizer.pieces == [*SPECIALS, "<2de>", "d", "a", "b"]
    assert tokenizer.decode(tokenizer.encode("a c d <2de>")) == "a \u2047 d <2de>"


def test_specials_give_no_text() -> None:
    assert train(["a"]).decode([1, 5, 2, 3]) == "a"


@pytest.mark.parametrize("lines", [[], ["", "  "]])
def test_text_without_words_is_refused(lines: list[str]) -> None:
    """Fault 22."""
    with pytest.raises(
        DataError, match=r"^no non-empty lines in text.txt: there is nothing to learn a vocabulary from\.$"
    ):
        train(lines)


@pytest.mark.parametrize("model", [b"{}", b'["a"]', b'["<unk>", "<s>", "</s>", "<pad>", "a", "a"]', b"junk"])
def test_a_broken_list_is_refused(model: bytes) -> None:
    """Fault 27."""
    with pytest.raises(ValueError):  # noqa: PT011
        WordTokenizer("word", "nfc", model)


def test_symbols_must_leave_room_for_words() -> None:
    """Fault 22."""
    config = TokenizerConfig(type="word", vocab_size=7, user_symbols=("<a>", "<b>", "<c>"))
    with pytest.raises(ConfigError) as error:
        train_words(config, ["a"], "text")
    assert str(error.value) == (
        "tokenizer.vocab_size 7 has no room for words beside the special symbols and tokenizer.user_symbols; "
        "set it to at least 8."
    )


def test_symbols_that_no_text_can_name_are_refused() -> None:
    """Fault 27."""
    config = TokenizerConfig(type="word", normalization="nfkc_cf", user_symbols=("<2de>", "<2EN>"))
    with pytest.raises(ConfigError) as error:
        train_words(config, ["a"], "text")
    assert str(error.value) == (
        "tokenizer.user_symbols: '<2EN>' can never occur, since tokenizer.normalization nfkc_cf makes it '<2en>'; "
        "take another name."
    )
