from __future__ import annotations

import numpy as np
import pytest

from mt.text.config import Filters
from mt.text.filters import FILTERS, Chunk, apply


def chunk(*pairs: tuple[str, str]) -> Chunk:
    """Pieces are words."""
    lengths = [np.array([len(pair[side].split()) for pair in pairs], np.int64) for side in (0, 1)]
    return Chunk([source for source, _ in pairs], [target for _, target in pairs], lengths[0], lengths[1])


ALL = Filters(max_length=3, max_ratio=2.0, identical=True, non_text=True)
DROPPED = {
    "source empty": ("", "x"),
    "target empty": ("a", "  "),
    "identical sides": ("same", "same"),
    "no letters": ("a", "12 !"),
    "too long": ("a b c d", "x y z"),
    "lengths too unlike": ("a b c", "x"),
}


@pytest.mark.parametrize("reason", FILTERS)
def test_each_filter_drops_and_counts(reason: str) -> None:
    keep, counts = apply(ALL, chunk(("good one", "gut eins"), DROPPED[reason]))
    assert keep.tolist() == [True, False]
    assert counts == {reason: 1}


def test_pairs_are_dropped_not_sides() -> None:
    """Fault 13."""
    keep, counts = apply(Filters(), chunk(("a", "x"), ("", "y"), ("b", "z")))
    assert keep.tolist() == [True, False, True]
    assert counts == {"source empty": 1}


def test_a_pair_is_counted_once() -> None:
    _, counts = apply(ALL, chunk(("", ""), ("1 2 3 4", "1 2 3 4")))
    assert counts == {"source empty": 1, "identical sides": 1}


def test_the_length_limit_is_inclusive_and_looks_at_both_sides() -> None:
    """Fault 45."""
    pairs = [(" ".join("a" * source), " ".join("x" * target)) for source in (3, 4, 5) for target in (3, 4, 5)]
    keep, counts = apply(Filters(max_length=4), chunk(*pairs))
    kept = [
        (len(source.split()), len(target.split())) for (source, target), stays in zip(pairs, keep, strict=True) if stays
    ]
    assert kept == [(3, 3), (3, 4), (4, 3), (4, 4)]
    assert counts == {"too long": 5}


def test_lengths_above_16_bits_are_counted() -> None:
    """Fault 38."""
    pairs = Chunk(["a", "b", "c"], ["x", "y", "z"], np.array([1, 70_000, 1]), np.array([1, 1, 1]))
    keep, counts = apply(Filters(max_length=5000), pairs)
    assert keep.tolist() == [True, False, True]
    assert counts == {"too long": 1}


def test_limits_may_be_off() -> None:
    keep, counts = apply(Filters(max_length=None), chunk(("a " * 1000, "x"), ("7", "7")))
    assert keep.all()
    assert counts == {}


def test_the_ratio_is_inclusive() -> None:
    keep, _ = apply(Filters(max_ratio=1.5), chunk(("a b c", "x y"), ("x y", "a b c"), ("a b", "x")))
    assert keep.tolist() == [True, True, False]


@pytest.mark.parametrize("text", ["ß", "中", "ا", "ก", "ǅ"])
def test_letters_of_all_scripts_are_text(text: str) -> None:
    keep, _ = apply(Filters(non_text=True), chunk((text, text)))
    assert keep.all()


def test_white_space_is_empty_even_where_it_has_pieces() -> None:
    """Fault 13; as in translation, where a blank line stays blank."""
    one = np.ones(4, np.int64)
    keep, counts = apply(Filters(), Chunk(["a", "\t", "\u3000\xa0", "b"], ["x", "y", "z", "\u2003"], one, one))
    assert keep.tolist() == [True, False, False, False]
    assert counts == {"source empty": 2, "target empty": 1}
