from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from mt.search.hypothesis import Symbols
from mt.search.options import LineOptions
from mt.search.processors import PROCESSORS, Asked, Prefix, Read
from tests.search.tables import Table, config, search

SYMBOLS = Symbols(bos=0, eos=1, pad=2, size=6)
A, B, C = 3, 4, 5


def read(*histories: Sequence[int]) -> Read:
    return Read(torch.tensor([[SYMBOLS.bos, *history] for history in histories]), torch.arange(len(histories)))


def processed(
    name: str, histories: Sequence[Sequence[int]], lines: Sequence[LineOptions] = (), **options: Any
) -> Tensor:
    lines = lines or [LineOptions()] * len(histories)
    limits = torch.full((len(lines),), 9)
    processor = PROCESSORS[name](Asked(config(**options), SYMBOLS, lines, limits))
    assert processor is not None
    log_probs = torch.full((len(histories), SYMBOLS.size), 1 / 6).log()
    changed = processor(log_probs, read(*histories))
    assert torch.equal(log_probs, torch.full((len(histories), SYMBOLS.size), 1 / 6).log()), "the model's are untouched"
    return changed


def banned(log_probs: Tensor) -> list[set[int]]:
    return [set(row.isneginf().nonzero().flatten().tolist()) for row in log_probs]


@pytest.mark.parametrize("name", PROCESSORS)
def test_nothing_asked_makes_no_processor(name: str) -> None:
    assert PROCESSORS[name](Asked(config(), SYMBOLS, [LineOptions()], torch.tensor([9]))) is None


@pytest.mark.parametrize(
    ("size", "histories", "expected"),
    [
        (2, [(A, B, A)], [{B}]),
        (2, [(A, A)], [{A}]),
        (2, [(A,)], [set()]),
        (2, [(A, B, A), (B, B, A), (A, A, A)], [{B}, set(), {A}]),
        (1, [(A, B), (C, C)], [{A, B}, {C}]),
        (3, [(A, B, C, A, B)], [{C}]),
    ],
)
def test_no_ngram_twice(size: int, histories: list[tuple[int, ...]], expected: list[set[int]]) -> None:
    """Fault 82: the end mark is never banned, and no row knows of another's history."""
    assert banned(processed("no_repeat_ngram_size", histories, no_repeat_ngram_size=size)) == expected


def test_where_all_is_banned_a_hypothesis_ends() -> None:
    """Fault 82: no n-gram of one token twice, so that after `a b` only the end mark is left, however improbable."""
    model = Table({"*": {"a": 0.6, "b": 0.4 - 1e-6, "</s>": 1e-6}})
    for name in ("beam", "greedy", "diverse", "sample"):
        [[found]] = search(model, config(search=name, no_repeat_ngram_size=1, beam_size=1), [9])
        assert (len(found.tokens), found.truncated) == (2, False)
        assert math.isfinite(found.score)


def test_repetition_penalty_is_a_factor_of_what_is_there_already() -> None:
    [row] = processed("repetition_penalty", [(A, B, A)], repetition_penalty=2.0)
    once = math.log(1 / 6)
    assert row.tolist() == pytest.approx([2 * once, once, once, 2 * once, 2 * once, once])


def test_no_end_before_the_fewest_tokens() -> None:
    lines = [LineOptions(min_length=2), LineOptions(min_length=3), LineOptions()]
    assert banned(processed("min_length", [(A,), (A,), (A,)], lines)) == [{1}, {1}, set()]
    assert banned(processed("min_length", [(A, B)] * 3, lines)) == [set(), {1}, set()]
    assert banned(processed("min_length", [(A, B, C)] * 3, lines)) == [set()] * 3


def test_the_last_token_of_a_forbidden_phrase_is_banned_in_its_line_alone() -> None:
    lines = [LineOptions(forbidden=((B,), (A, B, C), (C, A))), LineOptions(forbidden=((C, C),)), LineOptions()]
    assert banned(processed("forbidden", [(A, B), (A, C), (A, B)], lines)) == [{B, C}, {C}, set()]
    assert banned(processed("forbidden", [(), (), ()], lines)) == [{B}, set(), set()]


def test_a_prefix_stands_above_bans_and_keeps_the_models_own_log_probabilities() -> None:
    prefix = Prefix.of(Asked(config(), SYMBOLS, [LineOptions(prefix=(A, A)), LineOptions()], torch.tensor([9, 9])))
    assert prefix is not None
    own = torch.full((2, SYMBOLS.size), 1 / 6).log()
    changed = own.index_fill(1, torch.tensor([A]), -math.inf)
    forced = prefix.force(own, changed, read((A,), (A,)))
    assert banned(forced) == [{0, 1, 2, B, C}, {A}]
    assert forced[0, A] == own[0, A]
    assert prefix.force(own, changed, read((A, A), (A, A))) is changed
