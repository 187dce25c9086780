"""Laws of every search, under every length penalty, and under wishes of the lines."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mt.search import beam
from mt.search.config import DecodeConfig
from mt.search.hypothesis import Hypothesis
from mt.search.options import LineOptions, fulfils
from mt.search.penalties import PENALTIES
from mt.search.searches import SEARCHES
from tests.search.tables import (
    RandomModel,
    allowed,
    brute_force,
    config,
    forced,
    greedy,
    penalised,
    search,
)

every_search = pytest.mark.parametrize("name", SEARCHES)
every_penalty = pytest.mark.parametrize("kind", PENALTIES)
RANKED = [name for name in SEARCHES if name != "alternatives"]  # these go by the next token, not by score
WHOLE: dict[str, dict[str, Any]] = {"beam": {}, "diverse": {"beam_groups": 1}}  # the searches that see the whole space
models = st.builds(
    RandomModel,
    seed=st.integers(0, 10**6),
    words=st.integers(1, 3),
    sentences=st.just(4),
    eos_bias=st.sampled_from([-2.0, 0.0, 3.0]),
)
large_models = st.builds(
    RandomModel,
    seed=st.integers(0, 10**6),
    words=st.just(3),
    sentences=st.just(4),
    eos_bias=st.sampled_from([-2.0, 0.0, 3.0]),
)
limits = st.lists(st.integers(0, 4), min_size=4, max_size=4)
phrases = st.lists(st.integers(3, 5), min_size=1, max_size=3).map(tuple)
wishes = st.builds(
    LineOptions,
    number=st.integers(0, 9),
    min_length=st.integers(0, 2),
    prefix=st.lists(st.integers(3, 5), max_size=2).map(tuple),
    required=st.lists(phrases, max_size=2).map(tuple),
    forbidden=st.lists(phrases, max_size=2).map(tuple),
)
wishes_of_four = st.lists(wishes, min_size=4, max_size=4)
penalties = st.fixed_dictionaries(
    {}, optional={"no_repeat_ngram_size": st.integers(1, 3), "repetition_penalty": st.sampled_from([1.3, 3.0])}
)
quick = settings(max_examples=12, deadline=None)


@every_penalty
@pytest.mark.parametrize("name", WHOLE)
@quick
@given(model=models, limits=limits, alpha=st.sampled_from([0.0, 0.6, 1.0, 2.0]))
def test_a_beam_as_wide_as_the_space_finds_what_brute_force_finds(
    name: str, kind: str, model: RandomModel, limits: list[int], alpha: float
) -> None:
    options = config(beam_size=200, n_best=7, kind=kind, alpha=alpha, search=name, **WHOLE[name])
    for sentence, hypotheses in enumerate(search(model, options, limits)):
        _same_as(brute_force(model, sentence, limits[sentence], options)[:7], hypotheses)


@pytest.mark.parametrize("name", WHOLE)
@settings(max_examples=40, deadline=None)
@given(model=large_models, limits=limits, lines=wishes_of_four, penalties=penalties)
def test_brute_force_with_wishes_and_penalties(
    name: str, model: RandomModel, limits: list[int], lines: list[LineOptions], penalties: dict[str, Any]
) -> None:
    """Faults 82 and 86: all that the lines and the settings allow is found, and nothing else."""
    options = config(beam_size=60, n_best=7, search=name, **WHOLE[name], **penalties)
    for sentence, hypotheses in enumerate(search(model, options, limits, lines=lines)):
        _same_as(brute_force(model, sentence, limits[sentence], options, lines[sentence])[:7], hypotheses)


def _same_as(best: list[tuple[tuple[int, ...], float]], hypotheses: list[Hypothesis]) -> None:
    finished = [hypothesis for hypothesis in hypotheses if not hypothesis.truncated]
    assert [hypothesis.tokens for hypothesis in finished] == [tokens for tokens, _ in best]
    assert [hypothesis.score for hypothesis in finished] == pytest.approx([score for _, score in best], abs=1e-5)


@pytest.mark.parametrize(
    ("name", "narrow"), [("beam", {}), ("diverse", {}), ("greedy", {}), ("sample", {"samples": 1, "top_k": 1})]
)
@every_penalty
@quick
@given(model=models, limits=limits)
def test_a_beam_of_one_is_greedy(
    name: str, narrow: dict[str, Any], kind: str, model: RandomModel, limits: list[int]
) -> None:
    options = config(beam_size=1, kind=kind, search=name, **narrow)
    for sentence, [found] in enumerate(search(model, options, limits)):
        tokens, log_prob, truncated = greedy(model, sentence, limits[sentence])
        assert (found.tokens, found.truncated) == (tokens, truncated)
        assert found.log_prob == pytest.approx(log_prob, abs=1e-5)


@settings(max_examples=40, deadline=None)
@given(model=large_models, limits=limits, lines=wishes_of_four, penalties=penalties)
def test_greedy_search_is_a_beam_of_one_under_wishes_too(
    model: RandomModel, limits: list[int], lines: list[LineOptions], penalties: dict[str, Any]
) -> None:
    found = search(model, config(search="greedy", **penalties), limits, lines=lines)
    narrow = search(model, config(beam_size=1, **penalties), limits, lines=lines)
    assert [[one.tokens for one in of_line] for of_line in found] == [[one.tokens for one in of] for of in narrow]


@every_search
@settings(max_examples=20, deadline=None)
@given(model=large_models, limits=limits, lines=wishes_of_four, penalties=penalties, beam_size=st.integers(1, 5))
def test_batch_mates_change_nothing(
    name: str,
    model: RandomModel,
    limits: list[int],
    lines: list[LineOptions],
    penalties: dict[str, Any],
    beam_size: int,
) -> None:
    options = config(beam_size=beam_size, n_best=beam_size, search=name, **penalties)
    together = search(model, options, limits, lines=lines)
    alone = [search(model, options, [limit], [n], [lines[n]])[0] for n, limit in enumerate(limits)]
    assert together == alone
    backwards = search(model, options, limits[::-1], range(3, -1, -1), lines[::-1])
    assert together == backwards[::-1]


@every_search
@every_penalty
@quick
@given(model=models, limits=limits, beam_size=st.integers(1, 6))
def test_hypotheses_differ_and_fall_and_finished_ones_come_first(
    name: str, kind: str, model: RandomModel, limits: list[int], beam_size: int
) -> None:
    """Faults 81 and 83."""
    options = config(beam_size=beam_size, n_best=beam_size, kind=kind, search=name)
    for hypotheses, limit in zip(search(model, options, limits), limits, strict=True):
        assert len(hypotheses) <= beam_size
        assert hypotheses or (name == "alternatives" and limit == 0)
        assert len({(hypothesis.tokens, hypothesis.truncated) for hypothesis in hypotheses}) == len(hypotheses)
        order = [(hypothesis.truncated, -hypothesis.score) for hypothesis in hypotheses]
        assert order == sorted(order) or name not in RANKED
        assert all(len(hypothesis.tokens) <= limit for hypothesis in hypotheses)


@every_search
@settings(max_examples=20, deadline=None)
@given(
    model=large_models,
    limits=limits,
    lines=wishes_of_four,
    penalties=penalties,
    beam_size=st.integers(1, 5),
    kind=st.sampled_from(sorted(PENALTIES)),
)
def test_what_is_found_is_what_was_wished_and_its_score_is_that_of_the_forced_target(
    name: str,
    model: RandomModel,
    limits: list[int],
    lines: list[LineOptions],
    penalties: dict[str, Any],
    beam_size: int,
    kind: str,
) -> None:
    """Faults 82, 86 and 92: natural logarithms, the end mark included, divided by the penalty of the length with it."""
    options = config(beam_size=beam_size, n_best=beam_size, kind=kind, alpha=0.6, search=name, **penalties)
    for sentence, hypotheses in enumerate(search(model, options, limits, lines=lines)):
        for found in hypotheses:
            each = forced(model, sentence, found.tokens, found.truncated)
            assert found.log_prob == pytest.approx(sum(each), abs=1e-4)
            assert found.token_log_probs == pytest.approx(each, abs=1e-4)
            fixed = len(lines[sentence].prefix) + (name == "alternatives")
            total = penalised(each, found.tokens, fixed, options)
            divisor = PENALTIES[kind](max(len(each), 1), options.length_penalty.alpha)
            assert found.score == pytest.approx(total / divisor, abs=1e-4)
            assert fulfils(found.tokens, lines[sentence])
            assert found.truncated or allowed(found.tokens, lines[sentence], options)


@pytest.mark.parametrize("name", ["beam", "greedy", "diverse"])
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), data=st.data(), beam_size=st.integers(1, 4), eos_bias=st.sampled_from([-3.0, 3.0]))
def test_required_phrases_are_met_however_narrow_the_beam(
    name: str, seed: int, data: st.DataObject, beam_size: int, eos_bias: float
) -> None:
    """Fault 86: whatever fits into the limit is found, where nothing is forbidden; also phrases that share a start."""
    model = RandomModel(seed, 3, eos_bias=eos_bias)
    required = tuple(data.draw(st.lists(phrases, min_size=1, max_size=3)))
    line = LineOptions(required=required)
    limit = data.draw(st.integers(0, 6))
    [found] = search(model, config(beam_size, search=name), [limit], lines=[line])
    fits = bool(brute_force(model, 0, limit, config(), line))
    assert len(found) == fits
    assert all(fulfils(one.tokens, line) for one in found)


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
        patch.setattr(beam.Beam, "_beaten", lambda self, following: torch.zeros_like(following, dtype=torch.bool))  # noqa: ARG005
        unbounded = search(model, options, limits)
    assert bounded == unbounded
    assert taken <= len(model.steps) - taken


@every_search
def test_each_search_is_a_choice_of_the_recipe(name: str) -> None:
    [field] = [field for field in DecodeConfig.__dataclass_fields__.values() if field.name == "search"]
    assert name in field.metadata["choices"]
    assert set(field.metadata["choices"]) == set(SEARCHES)


@every_search
def test_no_line_no_search(name: str) -> None:
    assert search(RandomModel(1, 2), config(3, search=name), []) == []
