"""Diverse beam search, the coverage penalty, alternatives, ensembles, minimum Bayes risk."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from mt.errors import ConfigError
from mt.search.coverage import Coverage
from mt.search.ensemble import EnsembleState, ensemble, log_mean
from mt.search.hypothesis import Hypothesis
from mt.search.options import LineOptions
from mt.search.phrases import Phrase
from mt.search.risk import minimum_bayes_risk
from mt.search.searches import SEARCHES
from tests.search.tables import T2, RandomModel, Table, TableState, config, forced, search


@pytest.mark.parametrize(
    ("penalty", "expected"), [(0.0, []), (0.3, ["a c", "a d"]), (0.5, ["b c", "a c"]), (3.0, ["a c", "b d"])]
)
def test_groups_avoid_what_the_groups_before_have_just_said(penalty: float, expected: list[str]) -> None:
    """Toy T2, groups of one: the second takes `b` once log .6 - penalty < log .4, and `d` after it once log .95 -
    penalty < log .05. What was taken off is in no score."""
    model = Table(T2)
    options = config(2, n_best=2, kind="none", search="diverse", diversity_penalty=penalty)
    [found] = search(model, options, [9])
    if penalty == 0:  # both groups say the same
        assert [model.words(one) for one in found] == ["a c"]
        return
    assert [model.words(one) for one in found] == expected
    known = {"a c": 0.33, "a d": 0.27, "b c": 0.38, "b d": 0.02}
    assert [one.score for one in found] == pytest.approx([math.log(known[words]) for words in expected], abs=1e-6)


@pytest.mark.parametrize("penalty", [1e4, 1e9, 1e30])
@pytest.mark.parametrize("required", [(), ((4,),)])
def test_whatever_the_penalty_sums_are_those_of_the_model(penalty: float, required: tuple[Phrase, ...]) -> None:
    """Fault 92: where all that is left is discouraged, its log-probability is not lost beside the penalty."""
    model, line = RandomModel(1, 3), LineOptions(required=required)
    options = config(16, n_best=16, search="diverse", beam_groups=4, diversity_penalty=penalty)
    [found] = search(model, options, [3], [0], [line])
    assert len(found) >= 4
    for one in found:
        assert one.token_log_probs == pytest.approx(forced(model, 0, one.tokens, one.truncated), abs=1e-5)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), limit=st.integers(0, 4), groups=st.sampled_from([1, 2, 4]))
def test_no_diversity_is_the_same_beam_in_each_group(seed: int, limit: int, groups: int) -> None:
    model = RandomModel(seed, 3, sentences=2)
    options = config(4, n_best=4, search="diverse", beam_groups=groups, diversity_penalty=0.0)
    plain = config(4 // groups, n_best=4 // groups)
    assert search(model, options, [limit, 4]) == search(model, plain, [limit, 4])


@dataclass
class LookingState(TableState):
    """The first step looks at both positions of a source of two, that after `a` at the first, after `b` at both."""

    @property
    def attention(self) -> Tensor:
        looks = {(): (0.0, 0.0), (0,): (0.5, 0.5), (0, 3): (0.5, 0.0), (0, 4): (0.5, 0.5)}
        return torch.tensor([(*looks[prefix], 0.0) for prefix in self.prefixes])

    def select(self, rows: Tensor) -> LookingState:
        kept = super().select(rows)
        return LookingState(kept.sentences, kept.prefixes)


LOOKED = Table({"": {"a": 0.6, "b": 0.4}, "*": {"</s>": 1.0}})


def looking(tokens: Tensor, state: LookingState) -> tuple[Tensor, LookingState]:
    log_probs, after = LOOKED.step(tokens, state)
    return log_probs, LookingState(after.sentences, after.prefixes)


@pytest.mark.parametrize("name", ["beam", "diverse"])
@pytest.mark.parametrize(("beta", "best"), [(0.0, "a"), (0.5, "a"), (0.7, "b")])
def test_the_coverage_penalty_favours_what_looked_at_all_of_the_source(name: str, beta: float, best: str) -> None:
    """`a` has log .6 + beta x log .5, `b` log .4; the third position is padding. The model's log-probabilities stay."""
    own = {} if name == "beam" else {"beam_groups": 1}
    options = config(2, n_best=2, kind="none", search=name, coverage_penalty=beta, **own)
    start, lines = LookingState([0], [()]), [LineOptions(source_length=2)]
    [found] = SEARCHES[name](looking, start, torch.tensor([3]), LOOKED.symbols, options, lines)
    assert LOOKED.words(found[0]) == best
    scores = {LOOKED.words(one): one.score for one in found}
    assert scores == pytest.approx({"a": math.log(0.6) + beta * math.log(0.5), "b": math.log(0.4)}, abs=1e-6)
    assert {LOOKED.words(one): one.log_prob for one in found} == pytest.approx(
        {"a": math.log(0.6), "b": math.log(0.4)}, abs=1e-6
    )


def test_the_coverage_penalty_is_that_of_the_paper() -> None:
    """Wu et al. 2016, equation 14: over positions, log of min(sum over steps, 1); with wishes and in ensembles too."""
    state = EnsembleState((LookingState([0], [(0,)]), LookingState([0], [(0, 3)])))
    coverage = Coverage.start(state, config(coverage_penalty=0.2), [LineOptions(source_length=2)])
    assert coverage is not None
    assert float(coverage.add(state).add(state).add(state).bonus()) == pytest.approx(0.2 * math.log(0.75))


def test_a_model_that_does_not_tell_where_it_looks_is_refused() -> None:
    with pytest.raises(ConfigError) as refused:
        search(Table(T2), config(coverage_penalty=0.2), [3])
    assert str(refused.value) == (
        "decode.coverage_penalty needs a model that tells where it attends to the source, and this one does not: "
        "leave it at 0."
    )


def test_alternatives_at_a_position_are_the_next_tokens_in_order_each_completed() -> None:
    model = Table(T2)
    found = search(model, config(2, n_best=5, search="alternatives"), [9])
    assert [[model.words(one) for one in of_line] for of_line in found] == [["a c", "b c"]]
    prefix = (model.names.index("a"),)
    found = search(
        model, config(2, n_best=1, search="alternatives"), [9, 9], [0, 0], [LineOptions(), LineOptions(prefix=prefix)]
    )
    assert [[model.words(one) for one in of_line] for of_line in found] == [["a c"], ["a c"]]
    [found_after] = search(model, config(2, n_best=4, search="alternatives"), [9], [0], [LineOptions(prefix=prefix)])
    assert [model.words(one) for one in found_after] == ["a c", "a d"]


def test_an_ensemble_is_the_mean_of_probabilities() -> None:
    """Fault 87: token 0; the mean of logarithms would be token 2."""
    first, second = torch.tensor([0.9, 0.05, 0.05]), torch.tensor([0.02, 0.3, 0.68])
    mean = log_mean(torch.stack([first.log(), second.log()]).unsqueeze(1))
    assert mean.exp().tolist() == [pytest.approx([0.46, 0.175, 0.365])]
    assert float(mean.max()) == pytest.approx(-0.776529, abs=1e-6)
    logs = ((first.log() + second.log()) / 2).log_softmax(0).exp()
    assert logs.tolist() == pytest.approx([0.304207, 0.277701, 0.418092], abs=1e-6)


@pytest.mark.parametrize("copies", [1, 2, 3, 5])
@pytest.mark.parametrize("name", SEARCHES)
def test_the_same_model_again_changes_nothing(name: str, copies: int) -> None:
    """Fault 87: exactly, not nearly."""
    model = RandomModel(3, 3, sentences=2)
    states = EnsembleState(tuple(model.start(0, 1) for _ in range(copies)))
    options = config(3, n_best=3, search=name, no_repeat_ngram_size=2)
    found = SEARCHES[name](ensemble([model.step] * copies), states, torch.tensor([5, 5]), model.symbols, options)
    assert found == search(model, options, [5, 5])


def test_what_one_model_of_an_ensemble_excludes_another_may_say() -> None:
    """And where all exclude a token there is no NaN."""
    log_probs = torch.tensor([[[-math.inf, 0.0, -math.inf]], [[0.0, -math.inf, -math.inf]]])
    assert log_mean(log_probs).exp().tolist() == [[0.5, 0.5, 0.0]]


def found(score: float, count: int = 1, truncated: bool = False) -> Hypothesis:
    return Hypothesis((), score, score, truncated, count=count)


def test_minimum_bayes_risk_takes_what_is_most_like_all_others() -> None:
    """Samples weigh their counts, what a beam found its probability; scores are the expected utilities."""
    utility = [[1.0, 0.0, 0.5], [0.0, 1.0, 0.0], [0.5, 0.0, 1.0]]
    samples = [found(-2.0, 2), found(-1.0, 3), found(-3.0, 2)]
    best = minimum_bayes_risk(samples, True, lambda _: utility)
    assert [one.score for one in best] == pytest.approx([3 / 7, 3 / 7, 3 / 7])
    best = minimum_bayes_risk([*samples[:2], found(-3.0, 3)], True, lambda _: utility)
    assert [one.log_prob for one in best] == [-3.0, -2.0, -1.0]
    assert [one.score for one in best] == pytest.approx([0.5, 3.5 / 8, 3 / 8])
    beam = minimum_bayes_risk(
        [found(math.log(0.4)), found(math.log(0.5)), found(math.log(0.1))], False, lambda _: utility
    )
    assert [one.score for one in beam] == pytest.approx([0.5, 0.45, 0.3])


def test_a_cut_hypothesis_comes_last_however_like_the_others() -> None:
    best = minimum_bayes_risk([found(-1.0, truncated=True), found(-9.0)], True, lambda _: [[1.0, 1.0], [0.0, 0.1]])
    assert [one.truncated for one in best] == [False, True]
