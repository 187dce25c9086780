from __future__ import annotations

import itertools

import numpy as np
import pytest

from mt.data.batching import TokenBatches, by_length, collate, collate_source, cut, longest_sides

PAD, BOS, EOS = 3, 1, 2


def batches_of(order: TokenBatches, src: np.ndarray, tgt: np.ndarray, epoch: int) -> list[list[int]]:
    """Indexes of the examples of each batch of an epoch."""
    return [
        pool[rows].tolist()
        for number, pool in enumerate(order.pools(epoch))
        for rows in order.batches(src[pool], tgt[pool], epoch, number)
    ]


def random_lengths(size: int, longest: int = 60) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(5)
    return generator.integers(0, longest, size), generator.integers(0, longest, size)


def test_specials_are_added_in_one_place() -> None:
    batch = collate([[10, 11], [12]], [[20], [21, 22, 23]], PAD, BOS, EOS)
    assert batch.src.tolist() == [[10, 11, EOS], [12, EOS, PAD]]
    assert batch.src_mask.tolist() == [[True, True, True], [True, True, False]]
    assert batch.tgt_in.tolist() == [[BOS, 20, PAD, PAD], [BOS, 21, 22, 23]]
    assert batch.tgt_out.tolist() == [[20, EOS, PAD, PAD], [21, 22, 23, EOS]]
    assert batch.tgt_mask.tolist() == [[True, True, False, False], [True, True, True, True]]


def test_only_real_tokens_are_counted() -> None:
    """Fault 51: targets of length 1 and 9, end mark included, are 10 tokens."""
    batch = collate([[5], [5]], [[], list(range(10, 18))], PAD, BOS, EOS)
    assert int(batch.tgt_mask.sum()) == 10
    assert batch.tgt_mask.numel() == 18


def test_an_empty_sentence_is_its_end_mark() -> None:
    src, mask = collate_source([[], [5, 6]], PAD, EOS)
    assert src.tolist() == [[EOS, PAD, PAD], [5, 6, EOS]]
    assert mask.tolist() == [[True, False, False], [True, True, True]]


def test_ids_of_any_width_become_int64() -> None:
    narrow = collate([np.array([300, 5], np.uint16)], [np.array([70000], np.int32)], PAD, BOS, EOS)
    assert narrow.src.tolist() == [[300, 5, EOS]]
    assert narrow.tgt_out.tolist() == [[70000, EOS]]
    assert str(narrow.src.dtype) == str(narrow.tgt_in.dtype) == "torch.int64"


def test_a_batch_costs_rows_times_longest() -> None:
    """Fault 67: the lengths of its example, specials included."""
    assert cut(np.array([100, 10, 10, 10, 100]), 150) == [(0, 1), (1, 4), (4, 5)]
    assert cut(np.array([400]), 150) == [(0, 1)]
    assert cut(np.array([10, 400, 10]), 150) == [(0, 1), (1, 2), (2, 3)]
    assert cut(np.array([], np.int64), 150) == []
    assert cut(np.array([75, 75, 75]), 150) == [(0, 2), (2, 3)]


@pytest.mark.parametrize("budget", [1, 30, 100, 1000, 10**6])
def test_no_batch_is_over_the_budget_and_none_could_take_another_row(budget: int) -> None:
    """Fault 67."""
    src, tgt = random_lengths(500)
    batches = by_length(src, tgt, budget)
    longest = longest_sides(src, tgt)
    costs = [len(rows) * int(longest[rows].max()) for rows in batches]
    assert all(cost <= budget or len(rows) == 1 for cost, rows in zip(costs, batches, strict=True))
    for rows, following in itertools.pairwise(batches):
        more = [*rows, following[0]]
        assert len(more) * int(longest[more].max()) > budget
    assert sorted(np.concatenate(batches).tolist()) == list(range(500))


def test_each_example_comes_once_an_epoch_and_epochs_differ() -> None:
    """Fault 55: 10 pairs, 3 epochs."""
    src = tgt = np.full(10, 4)
    order = TokenBatches(10, budget=10, seed=1, pool_size=4)
    epochs = [batches_of(order, src, tgt, epoch) for epoch in range(3)]
    for batches in epochs:
        assert sorted(itertools.chain(*batches)) == list(range(10))
        assert [len(rows) for rows in batches] == [2] * 5
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]


def test_the_order_depends_on_seed_and_epoch_alone() -> None:
    """Fault 69."""
    src, tgt = random_lengths(300)
    first = batches_of(TokenBatches(300, 200, seed=7, pool_size=100), src, tgt, 2)
    again = batches_of(TokenBatches(300, 200, seed=7, pool_size=100), src, tgt, 2)
    other = batches_of(TokenBatches(300, 200, seed=8, pool_size=100), src, tgt, 2)
    assert first == again != other


def test_examples_of_equal_lengths_meet_in_another_order_each_epoch() -> None:
    src = tgt = np.full(64, 9)
    order = TokenBatches(64, budget=80, seed=1)
    mates = [{frozenset(rows) for rows in batches_of(order, src, tgt, epoch)} for epoch in range(2)]
    assert mates[0] != mates[1]


def test_batches_are_shuffled_inside_their_pool_only() -> None:
    src, tgt = random_lengths(400)
    order = TokenBatches(400, budget=200, seed=1, pool_size=200)
    pools = [set(pool.tolist()) for pool in order.pools(0)]
    batches = batches_of(order, src, tgt, 0)
    assert all(any(set(rows) <= pool for pool in pools) for rows in batches)
    longest = [int(tgt[rows].max()) for rows in batches]
    assert longest != sorted(longest)


def test_like_lengths_share_a_batch() -> None:
    src, tgt = random_lengths(5000)
    batches = by_length(src, tgt, 1000)
    padded = sum(len(rows) * (int(tgt[rows].max()) + 1) for rows in batches)
    assert (tgt + 1).sum() / padded > 0.95
