"""Scores and windows of recurrent attention against float64 loops over the papers' formulas."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from mt.nn.scores import SCORES, Additive, General
from mt.nn.source_attention import SourceAttention
from mt.nn.windows import LocalPredictive

B, T, S, D = 2, 4, 6, 5
LENGTHS = [6, 3]
MASK = torch.arange(S) < torch.tensor(LENGTHS)[:, None]
every_score = pytest.mark.parametrize("score", SCORES)


def inputs(seed: int = 0) -> tuple[Tensor, Tensor]:
    torch.manual_seed(seed)
    return torch.randn(B, T, D), torch.randn(B, S, D)


def attend(attention: SourceAttention, query: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
    return attention(query, attention.keys_values(memory), MASK, torch.arange(query.size(1)))  # type: ignore[no-any-return]


def dot(left: list[float], right: list[float]) -> float:
    return math.fsum(a * b for a, b in zip(left, right, strict=True))


def times(matrix: Tensor, vector: list[float]) -> list[float]:
    return [dot(row, vector) for row in matrix.tolist()]


def score_by_formula(module: torch.nn.Module, query: list[float], key: list[float]) -> float:
    """Bahdanau et al. 2014, appendix A.1.2; Luong et al. 2015, equation 8."""
    if isinstance(module, Additive):
        summed = zip(times(module.query.weight, query), times(module.key.weight, key), strict=True)
        return dot(module.score.tolist(), [math.tanh(a + b) for a, b in summed])
    return dot(query, times(module.key.weight, key) if isinstance(module, General) else key)


@torch.no_grad()
@every_score
def test_weights_and_context_are_their_formula(score: str) -> None:
    query, memory = inputs()
    attention = SourceAttention(D, score)
    context, weights = attend(attention, query, memory)
    for b, t in [(0, 0), (0, 3), (1, 2)]:
        states = memory[b, : LENGTHS[b]].tolist()
        masses = [math.exp(score_by_formula(attention.score, query[b, t].tolist(), state)) for state in states]
        shares = [mass / math.fsum(masses) for mass in masses]
        assert weights[b, 0, t, : LENGTHS[b]].tolist() == pytest.approx(shares, abs=1e-6)
        expected = [dot(shares, [state[d] for state in states]) for d in range(D)]
        assert context[b, t].tolist() == pytest.approx(expected, abs=1e-5)
    assert not weights[1, ..., 3:].any()  # fault 71: exactly 0 at padding


@torch.no_grad()
@every_score
def test_each_head_is_an_attention_of_its_own(score: str) -> None:
    """To its part of the projected states, by its part of what is compared (Chen et al. 2018, section 4.1)."""
    torch.manual_seed(3)
    heads, width, query, memory = 3, 4, torch.randn(B, T, 12), torch.randn(B, S, 12)
    attention = SourceAttention(12, score, heads=heads)
    context, weights = attend(attention, query, memory)
    assert attention.value is not None
    keys, values = attention.score.keys(memory), memory @ attention.value.weight.t()
    for head in range(heads):
        own = slice(head * width, (head + 1) * width)
        if isinstance(attention.score, Additive):
            asked = query @ attention.score.query.weight.t()
            compared = (asked[..., own].unsqueeze(2) + keys[..., own].unsqueeze(1)).tanh()
            scores = compared @ attention.score.score[own]
        else:
            scores = query[..., own] @ keys[..., own].transpose(1, 2)
        expected = scores.masked_fill(~MASK[:, None], -torch.inf).softmax(-1)
        torch.testing.assert_close(weights[:, head], expected)
        torch.testing.assert_close(context[..., own], expected @ values[..., own])


@every_score
@pytest.mark.parametrize("heads", [1, D])
def test_a_window_over_everything_is_global(score: str, heads: int) -> None:
    """Forward and gradients."""
    query, memory = (x.requires_grad_() for x in inputs())
    everywhere, local = (SourceAttention(D, score, window, S, heads=heads) for window in ("global", "local_m"))
    local.load_state_dict(everywhere.state_dict())
    for found, expected in zip(attend(local, query, memory), attend(everywhere, query, memory), strict=True):
        torch.testing.assert_close(found, expected)
        ours, theirs = (
            torch.autograd.grad(x.square().sum(), (query, memory), retain_graph=True) for x in (found, expected)
        )
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("size", [1, 2])
def test_a_monotonic_window_stands_at_the_targets_position(size: int) -> None:
    """Only its positions are compared: the softmax is over them alone. Behind the source's end it stays at the end."""
    query, memory = inputs()
    everywhere, local = SourceAttention(D, "dot"), SourceAttention(D, "dot", "local_m", size)
    _, whole = attend(everywhere, query, memory)
    _, weights = attend(local, query, memory)
    for b, t in [(b, t) for b in range(B) for t in range(T)]:
        centre = min(t, LENGTHS[b] - 1)
        inside = [s for s in range(LENGTHS[b]) if abs(s - centre) <= size]
        share = whole[b, 0, t, inside] / whole[b, 0, t, inside].sum()
        torch.testing.assert_close(weights[b, 0, t, inside], share)
        assert float(weights[b, 0, t].detach().sum()) == pytest.approx(1, abs=1e-5)


@torch.no_grad()
def test_a_predicted_window_is_its_formula() -> None:
    """Luong et al. 2015, equations 9 and 10: a Gaussian of deviation size / 2 around L sigmoid(v . tanh(W q))."""
    query, memory = inputs()
    size = 2
    attention = SourceAttention(D, "general", "local_p", size)
    _, weights = attend(attention, query, memory)
    window = attention.window
    assert isinstance(window, LocalPredictive)
    for b, t in [(b, t) for b in range(B) for t in range(T)]:
        inner = [math.tanh(v) for v in times(window.inner.weight, query[b, t].tolist())]
        centre = LENGTHS[b] / (1 + math.exp(-dot(window.outer.weight[0].tolist(), inner)))
        nearest = min(round(centre), LENGTHS[b] - 1)
        inside = [s for s in range(LENGTHS[b]) if abs(s - nearest) <= size]
        scores = [score_by_formula(attention.score, query[b, t].tolist(), memory[b, s].tolist()) for s in inside]
        mass = math.fsum(math.exp(score) for score in scores)
        for s, score in zip(inside, scores, strict=True):
            expected = math.exp(score) / mass * math.exp(-((s - centre) ** 2) / (2 * (size / 2) ** 2))
            assert float(weights[b, 0, t, s]) == pytest.approx(expected, abs=1e-6)
        assert int((weights[b, 0, t] > 0).sum()) == len(inside)


def test_the_predicted_centre_learns() -> None:
    query, memory = inputs()
    attention = SourceAttention(D, "dot", "local_p", 2)
    torch.autograd.backward(attend(attention, query, memory)[0].square().sum())
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in attention.parameters())


@pytest.mark.parametrize("window", ["global", "local_m", "local_p"])
def test_a_source_without_tokens_gives_zeros(window: str) -> None:
    """Fault 64."""
    query, memory = inputs()
    attention = SourceAttention(D, "additive", window, 2)
    nothing = torch.zeros(B, S, dtype=torch.bool)
    context, weights = attention(query, attention.keys_values(memory), nothing, torch.arange(T))
    assert not context.any()
    assert not weights.any()


def test_concat_is_the_additive_score() -> None:
    """Luong et al.'s v . tanh(W [q; k]) with W = [W_q W_k]."""
    torch.manual_seed(0)
    score, (query, memory) = Additive(D), inputs()
    joined = torch.cat((score.query.weight, score.key.weight), 1)
    pair = torch.cat((query[0, 1], memory[0, 2]))
    torch.testing.assert_close(score(query, score.keys(memory))[0, 0, 1, 2], score.score @ (joined @ pair).tanh())
