"""Laws of every search, under every length penalty."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mt.search import beam
from mt.search.config import DecodeConfig
from mt.search.penalties import PENALTIES
from mt.search.searches import SEARCHES
from tests.search.tables import RandomModel, brute_force, config, greedy, search

every_search = pytest.mark.parametrize("name", SEARCHES)
every_penalty = pytest.mark.parametrize("kind", PENALTIES)
models = st.builds(
    RandomModel,
    seed=st.integers(0, 10**6),
    words=st.integers(1, 3),
    sentences=st.just(4),
    eos_bias=st.sampled_from([-2.0, 0.0, 3.0]),
)
limits = st.lists(st.integers(0, 4), min_size=4, max_size=4)
quick = settings(max_examples=25, deadline=None)


@every_search
@every_penalty
@quick
@given(model=models, limits=limits, alpha=st.sampled_from([0.0, 0.6, 1.0, 2.0]))
def test_a_beam_as_wide_as_the_space_finds_what_brute_force_finds(
    name: str, kind: str, model: RandomModel, limits: list[int], alpha: float
) -> None:
    options = replace(config(beam_size=200, n_best=7, kind=kind, alpha=alpha), search=name)
    for sentence, hypotheses in enumerate(search(model, options, limits)):
        best = brute_force(model, sentence, limits[sentence], options)[:7]
        finished = [hypothesis for hypothesis in hypotheses if not hypothesis.truncated]
        assert [hypothesis.tokens for hypothesis in finished] == [tokens for tokens, _ in best]
        assert [hypothesis.score for hypothesis in finished] == pytest.approx([score for _, score in best], abs=1e-5)


@every_search
@every_penalty
@quick
@given(model=models, limits=limits)
def test_a_beam_of_one_is_greedy(name: str, kind: str, model: RandomModel, limits: list[int]) -> None:
    options = replace(config(beam_size=1, kind=kind), search=name)
    for sentence, [found] in enumerate(search(model, options, limits)):
        tokens, log_prob, truncated = greedy(model, sentence, limits[sentence])
        assert (found.tokens, found.truncated) == (tokens, truncated)
        assert found.log_prob == pytest.approx(log_prob, abs=1e-5)


@every_search
@every_penalty
@quick
@given(model=models, limits=limits, beam_size=st.integers(1, 5))
def test_batch_mates_change_nothing(
    name: str, kind: str, model: RandomModel, limits: list[int], beam_size: int
) -> None:
    options = replace(config(beam_size=beam_size, n_best=beam_size, kind=kind), search=name)
    together = search(model, options, limits)
    alone = [search(model, options, [limit], [sentence])[0] for sentence, limit in enumerate(limits)]
    assert together == alone


@every_search
@every_penalty
@quick
@given(model=models, limits=limits, beam_size=st.integers(1, 6))
def test_hypotheses_differ_and_fall_and_finished_ones_come_first(
    name: str, kind: str, model: RandomModel, limits: list[int], beam_size: int
) -> None:
    """Faults 81 and 83."""
    options = replace(config(beam_size=beam_size, n_best=beam_size, kind=kind), search=name)
    for hypotheses, limit in zip(search(model, options, limits), limits, strict=True):
        assert 1 <= len(hypotheses) <= beam_size
        assert len({(hypothesis.tokens, hypothesis.truncated) for hypothesis in hypotheses}) == len(hypotheses)
        order = [(hypothesis.truncated, -hypothesis.score) for hypothesis in hypotheses]
        assert order == sorted(order)
        assert all(len(hypothesis.tokens) <= limit for hypothesis in hypotheses)


@every_search
@every_penalty
@quick
@given(model=models, limits=limits, beam_size=st.integers(1, 5))
def test_the_score_is_that_of_the_forced_target(
    name: str, kind: str, model: RandomModel, limits: list[int], beam_size: int
) -> None:
    """Fault 92: natural logarithms, the end mark included, divided by the penalty of the length with the end mark."""
    options = replace(config(beam_size=beam_size, n_best=beam_size, kind=kind, alpha=0.6), search=name)
    for sentence, hypotheses in enumerate(search(model, options, limits)):
        for found in hypotheses:
            target = found.tokens if found.truncated else (*found.tokens, model.symbols.eos)
            rows = [model.row(sentence, (model.symbols.bos, *target[:place])) for place in range(len(target))]
            log_prob = sum(float(row[token]) for row, token in zip(rows, target, strict=True))
            assert found.log_prob == pytest.approx(log_prob, abs=1e-5)
            assert found.score == pytest.approx(log_prob / PENALTIES[kind](max(len(target), 1), 0.6), abs=1e-5)


@every_penalty
@quick
@given(model=models, limits=limits, beam_size=st.integers(1, 5), data=st.data())
def test_the_bound_that_ends_a_search_changes_no_result(
    kind: str, model: RandomModel, limits: list[int], beam_size: int, data: st.DataObject
) -> None:
    options = config(beam_size=beam_size, n_best=data.draw(st.integers(1, beam_size)), kind=kind, alpha=0.6)
    bounded = search(model, options, limits)
    taken = len(model.steps)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(beam._Beam, "_beaten", lambda self, following: torch.zeros_like(following, dtype=torch.bool))  # noqa: ARG005
        unbounded = search(model, options, limits)
    assert bounded == unbounded
    assert taken <= len(model.steps) - taken


@every_search
def test_each_search_is_a_choice_of_the_recipe(name: str) -> None:
    [field] = [field for field in DecodeConfig.__dataclass_fields__.values() if field.name == "search"]
    assert name in field.metadata["choices"]
    assert set(field.metadata["choices"]) == set(SEARCHES)
