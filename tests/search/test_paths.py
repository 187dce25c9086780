from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
import torch

from mt.search.options import LineOptions
from mt.search.paths import draw
from tests.search.tables import RandomModel, Table, config, search

PROBABILITIES = torch.tensor([[0.1, 0.5, 0.15, 0.25]])
EVENLY = (torch.arange(1000, dtype=torch.float64) + 0.5) / 1000  # every thousandth


def shares(**options: Any) -> dict[int, float]:
    """Of each token the share of the numbers in [0, 1) that draw it."""
    drawn = draw(PROBABILITIES.log().expand(1000, -1), EVENLY, config(search="sample", **options))
    return {token: count / 1000 for token, count in Counter(drawn.tolist()).items()}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {0: 0.1, 1: 0.5, 2: 0.15, 3: 0.25}),
        ({"top_k": 2}, {1: 2 / 3, 3: 1 / 3}),
        ({"top_k": 50}, {0: 0.1, 1: 0.5, 2: 0.15, 3: 0.25}),
        ({"top_k": 1}, {1: 1.0}),
        ({"top_p": 0.5}, {1: 1.0}),
        ({"top_p": 0.51}, {1: 2 / 3, 3: 1 / 3}),
        ({"top_p": 0.8}, {1: 0.5 / 0.9, 3: 0.25 / 0.9, 2: 0.15 / 0.9}),
        ({"top_k": 2, "top_p": 0.6}, {1: 1.0}),
        ({"temperature": 0.5}, {0: 0.01 / 0.345, 1: 0.25 / 0.345, 2: 0.0225 / 0.345, 3: 0.0625 / 0.345}),
        ({"temperature": 1e-4}, {1: 1.0}),
    ],
)
def test_tokens_are_drawn_as_often_as_they_are_probable(options: dict[str, Any], expected: dict[int, float]) -> None:
    """Fault 91: also with a top-k above the vocabulary."""
    assert shares(**options) == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize("top_p", [0.3, 0.9, 0.999])
def test_the_nucleus_of_a_wide_vocabulary_is_that_of_a_full_sort(top_p: float) -> None:
    generator = torch.Generator().manual_seed(1)
    log_probs = torch.randn(4, 3000, generator=generator).log_softmax(1)
    falling, order = log_probs.double().exp().sort(dim=1, descending=True)
    kept = falling.cumsum(1) - falling < top_p
    drawn = [
        draw(log_probs, EVENLY[place].expand(4), config(search="sample", top_p=top_p)) for place in range(0, 1000, 9)
    ]
    for row, tokens in enumerate(torch.stack(drawn, 1).tolist()):
        assert set(tokens) <= set(order[row][kept[row]].tolist())
    last = draw(log_probs, torch.full((4,), 1 - 1e-12, dtype=torch.float64), config(search="sample", top_p=top_p))
    assert last.tolist() == [int(order[row][kept[row]].max()) for row in range(4)]


def test_what_has_no_probability_is_never_drawn() -> None:
    log_probs = torch.tensor([[-math.inf, 0.0, -math.inf]]).expand(3, -1)
    numbers = torch.tensor([0.0, 0.5, 1 - 2**-53], dtype=torch.float64)
    assert draw(log_probs, numbers, config(search="sample")).tolist() == [1, 1, 1]


def test_a_sample_is_a_function_of_seed_line_and_number() -> None:
    """Not of the batch, the order, how many more are drawn, or their limits."""
    model = RandomModel(5, 3, eos_bias=1.0)
    options = config(search="sample", beam_size=30, n_best=30)
    lines = [LineOptions(number) for number in range(3)]
    one, two, three = search(model, options, [6, 6, 6], [0, 0, 0], lines)
    assert search(model, options, [6, 6], [0, 0], [lines[2], lines[0]]) == [three, one]
    assert one != two
    fewer = replace(options, samples=4, n_best=4)
    [some] = search(model, fewer, [6], [0], lines[:1])
    assert {found.tokens for found in some} <= {found.tokens for found in one}
    assert sum(found.count for found in one) == 30
    assert search(model, replace(options, seed=2), [6], [0], lines[:1]) != [one]


def test_samples_come_as_often_as_the_model_says_and_keep_its_log_probability() -> None:
    model = Table({"": {"a": 0.7, "b": 0.3}, "*": {"</s>": 1.0}})
    [found] = search(model, config(search="sample", beam_size=2000, n_best=2, temperature=0.5), [3])
    assert [model.words(one) for one in found] == ["a", "b"]
    assert found[0].count / 2000 == pytest.approx(0.49 / 0.58, abs=0.03)
    assert found[0].log_prob == pytest.approx(math.log(0.7))


def test_ended_paths_leave_the_batch_at_once() -> None:
    short = {"": {"a": 1.0}, "a": {"</s>": 1.0}}
    long = {"*": {"a": 1.0}}
    model = Table(short, long)
    for name in ("greedy", "sample"):
        model.steps.clear()
        search(model, config(1, search=name), [9, 3])
        assert model.steps == [2, 2, 1, 1]


def test_equals_go_to_the_lower_token() -> None:
    model = Table({"": dict.fromkeys(("a", "b"), 0.5), "*": {"</s>": 1.0}})
    [[found]] = search(model, config(search="greedy"), [3])
    assert model.words(found) == "a"
