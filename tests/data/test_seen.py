from __future__ import annotations

import numpy as np

from mt.data.seen import Seen, digests


def test_a_pair_is_both_sides() -> None:
    """Fault 20."""
    keys = digests(["a", "a", "a", "b"], ["x", "y", "x", "x"])
    assert Seen().add(keys).tolist() == [True, True, False, True]


def test_the_border_between_the_sides_counts() -> None:
    keys = digests(["a b", "a"], ["c", "b c"])
    assert Seen().add(keys).all()


def test_it_remembers_over_many_calls() -> None:
    rng = np.random.default_rng(1)
    keys = rng.integers(0, 5000, 20_000).astype(np.uint64)
    seen, known = Seen(), set[int]()
    for start in range(0, len(keys), 371):
        part = keys[start : start + 371]
        expected = [int(key) not in known and not known.add(int(key)) for key in part]  # type: ignore[func-returns-value]
        assert seen.add(part).tolist() == expected
    assert sum(map(len, seen._runs)) == len(known)


def test_it_takes_eight_bytes_a_key_in_few_runs() -> None:
    seen = Seen()
    for start in range(0, 1000 * 64, 64):
        assert seen.add(np.arange(start, start + 64, dtype=np.uint64)).all()
    assert sum(run.nbytes for run in seen._runs) == 8 * 64_000
    assert len(seen._runs) <= 11


def test_nothing_is_nothing() -> None:
    assert Seen().add(digests([], [])).tolist() == []
