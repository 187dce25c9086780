"""The split: exact sizes, no sentence in two parts, and nothing that hangs on the order of the lines."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from mt.corpora.split import read_table, split_pairs
from mt.data.config import Split
from mt.errors import DataError


def corpus(size: int, seed: int = 1) -> list[tuple[str, str]]:
    """Pairs of which many share a sentence with others, and one group is large."""
    random = Random(seed)
    pairs = [(f"s{random.randrange(size)}", f"t{random.randrange(size)}") for _ in range(size // 3)]
    return pairs + [("hub", f"spoke {k}") for k in range(size // 20)]


@pytest.mark.parametrize("seed", range(5))
def test_no_sentence_is_in_two_parts(seed: int) -> None:
    parts = split_pairs(corpus(3000, seed), valid=50, test=70)
    assert (len(parts["valid"]), len(parts["test"])) == (50, 70)
    seen = {part: {text for pair in pairs for text in pair} for part, pairs in parts.items()}
    assert not seen["train"] & seen["valid"]
    assert not seen["train"] & seen["test"]
    assert not seen["valid"] & seen["test"]
    assert sorted(pair for pairs in parts.values() for pair in pairs) == sorted(set(corpus(3000, seed)))


def test_a_sentence_that_is_a_source_here_and_a_target_there_is_shared() -> None:
    pairs = [("Taxi!", "Taxi!"), ("Cab!", "Taxi!"), ("Taxi!", "Droschke!"), *((f"s{k}", f"t{k}") for k in range(20))]
    parts = split_pairs(pairs, valid=5, test=5)
    homes = {part for part, members in parts.items() for pair in members if {"Taxi!", "Cab!", "Droschke!"} & set(pair)}
    assert len(homes) == 1


def test_neither_order_nor_repeated_lines_change_the_parts() -> None:
    pairs = corpus(1000)
    shuffled = pairs + pairs[::3]
    Random(7).shuffle(shuffled)
    assert split_pairs(shuffled, 20, 30) == split_pairs(pairs, 20, 30)


def test_a_pair_more_moves_few_others() -> None:
    pairs = corpus(1000)
    before, after = split_pairs(pairs, 20, 30), split_pairs([*pairs, ("new", "neu")], 20, 30)
    assert len(set(before["test"]) & set(after["test"])) >= 28


def test_another_salt_gives_other_parts() -> None:
    assert split_pairs(corpus(1000), 20, 30)["test"] != split_pairs(corpus(1000), 20, 30, salt="2")["test"]


def test_large_groups_stay_in_training_where_they_can() -> None:
    parts = split_pairs(corpus(3000), valid=200, test=200)
    assert ("hub", "spoke 0") in parts["train"]


def test_the_split_of_a_small_corpus_is_what_it_always_was() -> None:
    parts = split_pairs([(f"s{k}", f"t{k}") for k in range(8)], valid=2, test=2)
    assert (parts["valid"], parts["test"]) == ([("s7", "t7"), ("s2", "t2")], [("s3", "t3"), ("s1", "t1")])


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (
            [("a", "x"), ("a", "y"), ("b", "y"), ("c", "z")],
            "The test part should have 2 pairs, but only 1 can be set apart without sharing a sentence with the "
            "others; ask for fewer.",
        ),
        (
            [("a", "x"), ("b", "y"), ("c", "z")],
            "No pair is left for training: all 3 went to the parts valid (1) and test (2).",
        ),
    ],
)
def test_too_few_pairs(pairs: list[tuple[str, str]], message: str) -> None:
    with pytest.raises(DataError) as error:
        split_pairs(pairs, valid=1, test=2)
    assert str(error.value) == message


def test_columns_are_read_and_missing_ones_named(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_bytes("1\tHi. \tHallo.\tCC\r\n2\tGo!\u2028\tGeh!\n3\t\tLeer\n4\n".encode())
    rows = read_table(Split(tsv=path, columns=(3, 2)))
    assert [next(rows), next(rows), next(rows)] == [("Hallo.", "Hi."), ("Geh!", "Go!"), ("Leer", "")]
    with pytest.raises(DataError) as error:
        next(rows)
    assert str(error.value) == (f"{path}, line 4 has 1 tab-separated column, but data.split.columns asks for column 3.")
