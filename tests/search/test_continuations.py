"""The best continuations are those of a stable sort of all of them."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from mt.search.continuations import best_continuations


def by_sorting(log_probs: Tensor, sums: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    sentences, width = sums.shape
    vocab = log_probs.size(1)
    every = (log_probs.view(sentences, width, vocab) + sums[:, :, None]).nan_to_num(-math.inf, neginf=-math.inf)
    best = every.flatten(1).sort(dim=1, descending=True, stable=True)
    places = best.indices[:, :count]
    return best.values[:, :count], places // vocab, places % vocab


@pytest.mark.parametrize("vocab", [3, 17, 64, 300, 2048])
@pytest.mark.parametrize(("sentences", "width"), [(1, 1), (4, 1), (3, 5)])
@pytest.mark.parametrize("equals", [False, True])
def test_they_are_those_of_a_sort(vocab: int, sentences: int, width: int, equals: bool) -> None:
    torch.manual_seed(1)
    log_probs = torch.randn(sentences * width, vocab).log_softmax(-1)
    sums = -3 * torch.rand(sentences, width)
    if equals:
        log_probs, sums = log_probs.round(), sums.round()
    for found, expected in zip(best_continuations(log_probs, sums, 10), by_sorting(log_probs, sums, 10), strict=True):
        assert torch.equal(found, expected)


def test_nan_is_never_found() -> None:
    log_probs = torch.full((2, 200), -1.0)
    log_probs[0, :190] = math.nan
    log_probs[1] = -math.inf
    sums, hypotheses, tokens = best_continuations(log_probs, torch.tensor([[0.0, -0.5]]), 12)
    assert sums[0, :10].tolist() == [-1.0] * 10
    assert sums[0, 10:].isneginf().all()
    assert hypotheses[0, :10].tolist() == [0] * 10
    assert tokens[0, :10].tolist() == list(range(190, 200))


@pytest.mark.parametrize("part", [slice(None), slice(0, None, 64)])
def test_nan_drives_nothing_out(part: slice) -> None:
    """Neither a hypothesis whose continuations are all NaN, nor one NaN in each block."""
    torch.manual_seed(0)
    log_probs, sums = torch.randn(2, 6400).log_softmax(-1), torch.zeros(1, 2)
    log_probs[0, part] = math.nan
    for found, expected in zip(best_continuations(log_probs, sums, 4), by_sorting(log_probs, sums, 4), strict=True):
        assert torch.equal(found, expected)


def test_fewer_where_fewer_exist() -> None:
    sums, hypotheses, tokens = best_continuations(torch.tensor([[-2.0, -1.0]]), torch.zeros(1, 1), 5)
    assert (sums.tolist(), hypotheses.tolist(), tokens.tolist()) == ([[-1.0, -2.0]], [[0, 0]], [[1, 0]])
