from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from mt.search.continuations import largest
from mt.search.options import LineOptions
from mt.search.phrases import Phrase
from mt.search.searches import SEARCHES
from tests.search.tables import T1, T2, Table, TableState, config, search

every_search = pytest.mark.parametrize("name", SEARCHES)
beams = pytest.mark.parametrize(("name", "own"), [("beam", {}), ("diverse", {"beam_groups": 1})])


@beams
@pytest.mark.parametrize("beam_size", [4, 50])
def test_n_best_of_toy_t1(name: str, own: dict[str, Any], beam_size: int) -> None:
    """Faults 81 and 92: four different ones in falling mean; a beam wider than the vocabulary finds no more."""
    model = Table(T1)
    [found] = search(model, config(beam_size, n_best=beam_size, search=name, **own), [10])
    assert [model.words(hypothesis) for hypothesis in found] == ["y z w", "y z z w", "x x", "x"]
    assert [hypothesis.score for hypothesis in found] == pytest.approx(
        [-0.300993, -0.460517, -0.475705, -0.510826], abs=1e-6
    )
    assert found[0].log_prob == pytest.approx(-1.203973, abs=1e-6)
    assert not any(hypothesis.truncated for hypothesis in found)


@pytest.mark.parametrize(("alpha", "best", "score"), [(0.0, "x", -1.021651), (0.6, "y z w", -0.524060)])
def test_a_larger_alpha_favours_longer_output(alpha: float, best: str, score: float) -> None:
    """Fault 79."""
    model = Table(T1)
    [[found]] = search(model, config(4, alpha=alpha), [10])
    assert model.words(found) == best
    assert found.score == pytest.approx(score, abs=1e-6)


@beams
def test_the_state_moves_with_its_hypothesis(name: str, own: dict[str, Any]) -> None:
    """Fault 80: toy T2, where the best hypothesis changes rows."""
    model = Table(T2)
    [found] = search(model, config(2, n_best=2, kind="none", search=name, **own), [10])
    assert [model.words(hypothesis) for hypothesis in found] == ["b c", "a c"]
    assert [hypothesis.log_prob for hypothesis in found] == pytest.approx([-0.967584, -1.108663], abs=1e-6)
    for narrow in (config(1), config(search="greedy")):
        [[greedy]] = search(model, narrow, [10])
        assert model.words(greedy) == "a c"


@pytest.mark.parametrize(
    ("name", "required"),
    [*((name, ()) for name in SEARCHES), *((name, ((3,),)) for name in SEARCHES if name != "sample")],
)
@pytest.mark.parametrize("beam_size", [1, 2, 50])
def test_pad_bos_and_dummy_rows_are_never_generated(name: str, required: tuple[Phrase, ...], beam_size: int) -> None:
    """Fault 91: pad 50, bos 40, a row beyond the vocabulary 30, `a` 1."""
    model = Table({"": {"a": 1.0}}, dummies=1)
    logits = torch.tensor([40.0, 0.0, 50.0, 1.0, 30.0])

    def step(tokens: Tensor, state: TableState) -> tuple[Tensor, TableState]:
        return logits.log_softmax(0).repeat(len(tokens), 1), state

    own: dict[str, Any] = {"sample": {"top_k": 1000}}.get(name, {})
    options = config(beam_size, n_best=beam_size, search=name, **own)
    lines = [LineOptions(required=required)]
    [found] = SEARCHES[name](step, model.start(0), torch.tensor([3]), model.symbols, options, lines)
    assert name in ("sample", "diverse") or found[0].tokens[:1] == (3,)
    assert all(set(hypothesis.tokens) <= {3} for hypothesis in found)


@every_search
@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_model_that_never_ends_is_cut_at_the_limit_and_says_so(name: str, beam_size: int) -> None:
    """Fault 83."""
    model = Table({"*": {"a": 0.7, "b": 0.3}})
    own: dict[str, Any] = {"sample": {"top_k": 1}}.get(name, {})
    [[found]] = search(model, config(beam_size, search=name, **own), [5])
    assert model.words(found) == "a a a a a"
    assert found.truncated
    assert found.log_prob == pytest.approx(5 * math.log(0.7), abs=1e-5)
    assert found.score == pytest.approx(math.log(0.7), abs=1e-5)


def test_finished_hypotheses_come_before_better_cut_ones() -> None:
    """Fault 83: `a a a` is more probable than `b`, but has no end."""
    model = Table({"": {"a": 0.9, "b": 0.1}, "b": {"</s>": 1.0}, "*": {"a": 1.0}})
    [found] = search(model, config(2, n_best=2), [3])
    assert [(model.words(hypothesis), hypothesis.truncated) for hypothesis in found] == [("b", False), ("a a a", True)]


@every_search
@pytest.mark.parametrize("beam_size", [1, 3])
@pytest.mark.parametrize("broken", [-math.inf, math.nan])
def test_a_model_without_any_probability_gives_a_cut_hypothesis_and_no_nan(
    name: str, beam_size: int, broken: float
) -> None:
    """Faults 82 and 64: nothing may be generated, at the start or later; the other sentence does not notice."""
    model = Table({"": {"a": 1.0}, "a": {}}, T2)

    def step(tokens: Tensor, state: TableState) -> tuple[Tensor, TableState]:
        log_probs, state = model.step(tokens, state)
        dead = torch.tensor(
            [
                sentence == 0 and len(prefix) > 1
                for sentence, prefix in zip(state.sentences, state.prefixes, strict=True)
            ]
        )
        return log_probs.masked_fill(dead[:, None], broken), state

    options = config(beam_size, search=name)
    [[dead], [living]] = SEARCHES[name](step, model.start(0, 1), torch.tensor([9, 9]), model.symbols, options)
    assert (model.words(dead), dead.truncated, dead.log_prob, dead.score) == ("a", True, 0.0, 0.0)
    assert [living] == search(model, options, [9], [1], [LineOptions(1)])[0]


def test_equals_go_to_the_lower_token() -> None:
    model = Table({"*": dict.fromkeys(("a", "b", "c", "d", "</s>"), 0.2)})
    [found] = search(model, config(4, n_best=4, kind="none"), [1])
    assert [model.words(hypothesis) for hypothesis in found] == ["", "a", "b", "c"]


@pytest.mark.parametrize("k", [1, 3, 7, 40, 60])
@pytest.mark.parametrize("width", [50, 640, 2000, 2048])
@pytest.mark.parametrize("kinds", [6, 3000, 10**6])
def test_largest_takes_the_first_of_equals_in_the_order_of_their_places(k: int, width: int, kinds: int) -> None:
    generator = torch.Generator().manual_seed(k * width)
    values = torch.randint(0, kinds, (20, width), generator=generator).float().log()
    found, places = largest(values, k)
    expected = values.sort(dim=1, descending=True, stable=True).indices[:, :k].sort(dim=1).values
    assert torch.equal(found, values.gather(1, expected))
    assert torch.equal(places[found.isfinite()], expected[found.isfinite()])


def test_ended_sentences_leave_the_batch_at_once() -> None:
    short = {"": {"a": 1.0}, "a": {"</s>": 1.0}}
    long = {f"{'b ' * n}".strip(): {"b": 1.0} for n in range(6)} | {"b b b b b b": {"</s>": 1.0}}
    model = Table(short, long)
    search(model, config(1), [9, 9])
    assert model.steps == [2, 2, 1, 1, 1, 1, 1]


def test_a_greedy_state_is_not_copied_while_nothing_ends() -> None:
    model = Table({"*": {"a": 1.0}}, {"": {"a": 1.0}, "*": {"</s>": 1.0}})
    moves: list[list[int]] = []

    class Watched(TableState):
        def select(self, rows: Tensor) -> TableState:
            moves.append(rows.tolist())
            return super().select(rows)

    def step(tokens: Tensor, state: TableState) -> tuple[Tensor, TableState]:
        log_probs, after = model.step(tokens, state)
        return log_probs, Watched(after.sentences, after.prefixes)

    SEARCHES["beam"](step, model.start(0, 1), torch.tensor([4, 4]), model.symbols, config(1))
    assert moves == [[0]]
