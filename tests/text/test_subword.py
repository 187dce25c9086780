"""Learning SentencePiece models, and drawing segmentations from them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from mt.errors import ConfigError, DataError
from mt.text.config import TokenizerConfig
from mt.text.subword import SubwordTokenizer, train_subword

LINES = [f"{word} number {number} is lower and wider" for word in ("house", "mouse", "river") for number in range(50)]


def train(type: str = "bpe", lines: list[str] = LINES, **keys: object) -> SubwordTokenizer:
    config = replace(TokenizerConfig(type=type, vocab_size=35), **keys)  # type: ignore[arg-type]
    return train_subword(config, lines, "some/text.txt")


@pytest.mark.parametrize(("type", "size"), [("unigram", 41), ("bpe", 169)])
def test_a_vocabulary_larger_than_the_text_supports_is_refused_with_the_largest(type: str, size: int) -> None:
    """Fault 21."""
    sentence = (
        "the quick brown fox jumps over a lazy dog while many small birds sing near old trees and children play games "
        "under warm evening light beside rivers that flow"
    )
    with pytest.raises(ConfigError) as error:
        train(type, [sentence] * 300, vocab_size=8000)
    found = str(error.value).split("at most ")[1].split(",")[0]
    assert str(error.value) == (
        f"tokenizer.vocab_size 8000 is more than the text of some/text.txt supports; set it to at most {found}, or set "
        "tokenizer.soft_vocab_limit: true to take what there is."
    )
    assert len(train(type, [sentence] * 300, vocab_size=int(found))) == int(found)
    assert size * 0.5 < int(found) < size * 2


@pytest.mark.parametrize("type", ["bpe", "unigram"])
def test_a_soft_limit_takes_what_there_is(type: str) -> None:
    """Fault 21."""
    tokenizer = train(type, ["the cat sat on mat"] * 300, vocab_size=8000, soft_vocab_limit=True)
    assert 10 < len(tokenizer) < 100


@pytest.mark.parametrize("type", ["bpe", "unigram", "char"])
def test_a_vocabulary_too_small_is_refused_with_what_is_needed(type: str) -> None:
    """Fault 22."""
    with pytest.raises(ConfigError) as error:
        train(type, ["abcdefghijklmnopqrst uvw"], vocab_size=10)
    assert str(error.value) == (
        "tokenizer.vocab_size 10 is less than the 28 characters and special symbols that the text of some/text.txt "
        "needs; set it to at least 28 or lower tokenizer.character_coverage."
    )


@pytest.mark.parametrize("lines", [[], ["", "", ""], [" ", "\t", "\u3000"]])
def test_text_without_text_is_refused(lines: list[str]) -> None:
    """Fault 22."""
    with pytest.raises(DataError) as error:
        train("bpe", lines)
    assert str(error.value) == "no non-empty lines in some/text.txt: there is nothing to learn a vocabulary from."


def test_text_that_normalises_to_nothing_is_refused() -> None:
    """Fault 22, its neighbour."""
    with pytest.raises(DataError, match=r"^no text is left in some/text.txt after tokenizer.normalization nmt_nfkc\.$"):
        train("bpe", ["\u200b"] * 3, normalization="nmt_nfkc")


def test_coverage_leaves_rare_characters_out() -> None:
    """Fault 23."""
    lines = ["我 的 你 他 好"] * 2000 + ["龘 x"]
    some = train("char", lines, character_coverage=0.9995)
    assert some.encode("龘")[-1] == some.unk
    assert some.alphabet is not None
    assert "龘" not in some.alphabet
    whole = train("char", lines, character_coverage=1.0)
    assert whole.decode(whole.encode("龘")) == "龘"


@pytest.mark.parametrize("type", ["bpe", "unigram"])
def test_long_lines_are_learned_from(type: str) -> None:
    """Fault 33."""
    tokenizer = train(type, ["a b c"] * 100 + ["z" * 5000] * 100, vocab_size=20, soft_vocab_limit=True)
    assert "z" in tokenizer.pieces


@pytest.mark.parametrize("type", ["bpe", "unigram", "char"])
def test_the_model_is_the_same_each_time(type: str) -> None:
    """Fault 34."""
    assert train(type).model == train(type).model


def test_carriage_returns_reach_no_piece() -> None:
    """Fault 3: one that is left, inside a line, is a space."""
    assert not any("\r" in piece for piece in train("char", ["a\rb."]).pieces)


def test_an_error_of_the_text_is_raised_as_it_is() -> None:
    def broken() -> Iterator[str]:
        yield "some text"
        raise DataError("line 2 is bad.")

    with pytest.raises(DataError, match=r"^line 2 is bad\.$"):
        train_subword(TokenizerConfig(vocab_size=20), broken(), "text")


STRENGTHS = {"bpe": {"dropout": 0.3}, "unigram": {"alpha": 0.2}}


@pytest.mark.parametrize("type", STRENGTHS)
class TestSampling:
    def test_it_depends_on_texts_and_seed_alone(self, type: str) -> None:
        tokenizer, config = train(type), TokenizerConfig(type=type, **STRENGTHS[type])  # type: ignore[arg-type]
        first = tokenizer.sample_batch(LINES, 5, config)
        assert tokenizer.sample_batch(LINES, 6, config) != first
        tokenizer.sample_batch(LINES[:7], 5, config)
        tokenizer.encode_batch(LINES)
        assert tokenizer.sample_batch(LINES, 5, config) == first
        again = SubwordTokenizer(type, "nfc", tokenizer.model)
        assert again.sample_batch(LINES, 5, config) == first

    def test_it_is_the_same_in_any_thread(self, type: str) -> None:
        tokenizer, config = train(type), TokenizerConfig(type=type, **STRENGTHS[type])  # type: ignore[arg-type]
        expected = {seed: tokenizer.sample_batch(LINES, seed, config) for seed in range(8)}
        found: dict[int, list[list[int]]] = {}

        def draw(seed: int) -> None:
            found[seed] = tokenizer.sample_batch(LINES, seed, config)

        threads = [threading.Thread(target=draw, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == expected

    def test_it_gives_the_text_back(self, type: str) -> None:
        tokenizer, config = train(type), TokenizerConfig(type=type, **STRENGTHS[type])  # type: ignore[arg-type]
        batch = tokenizer.sample_batch(LINES, 1, config)
        assert tokenizer.decode_batch(batch) == LINES
        assert batch != tokenizer.encode_batch(LINES)

    def test_seeds_of_any_size_are_seeds(self, type: str) -> None:
        tokenizer, config = train(type), TokenizerConfig(type=type, **STRENGTHS[type])  # type: ignore[arg-type]
        for seed in (0, 2**32 - 1, 2**63, 2**64 + 1):
            assert tokenizer.sample_batch(LINES, seed, config) == tokenizer.sample_batch(LINES, seed, config)

    def test_without_strength_it_is_the_plain_segmentation(self, type: str) -> None:
        tokenizer = train(type)
        assert tokenizer.sample_batch(LINES, 1, TokenizerConfig(type=type)) == tokenizer.encode_batch(LINES)


def test_more_dropout_makes_more_pieces() -> None:
    tokenizer = train()
    pieces = [
        sum(map(len, tokenizer.sample_batch(LINES, 1, TokenizerConfig(dropout=dropout))))
        for dropout in (0, 0.1, 0.5, 0.9)
    ]
    assert pieces == sorted(set(pieces))
