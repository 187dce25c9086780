"""How products are laid out."""

from __future__ import annotations

from itertools import pairwise

from mt.nn.products import padded


def test_numbers_of_rows_are_few_and_little_greater() -> None:
    """A kernel is built for each, and kept."""
    counts = [padded(count) for count in range(20_000)]
    assert all(count <= rounded <= count * 33 / 32 + 1 for count, rounded in enumerate(counts))
    assert all(one <= other for one, other in pairwise(counts))
    assert all(padded(count) == count for count in counts)
    assert len({count for count in counts if 2048 < count <= 4096}) == 32
