from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mt.search.config import DecodeConfig
from mt.search.hypothesis import Symbols
from mt.search.options import LineOptions, impossible
from mt.search.phrases import EXACT, Phrase, Phrases, holds
from tests.search.tables import Table, config, search

SYMBOLS = Symbols(bos=0, eos=1, pad=2, size=6)
phrases = st.lists(st.integers(3, 5), min_size=1, max_size=3).map(tuple)


@settings(max_examples=150, deadline=None)
@given(required=st.lists(phrases, max_size=3), target=st.lists(st.integers(3, 5), max_size=4))
def test_the_need_is_that_of_the_shortest_way_to_all_phrases(required: list[Phrase], target: list[int]) -> None:
    machine = Phrases(required)
    progress = machine.start
    for token in target:
        progress = machine.after(progress, token)
    shortest = next(
        length
        for length in range(10)
        for rest in itertools.product(range(3, 6), repeat=length)
        if all(holds([*target, *rest], phrase) for phrase in required)
    )
    assert machine.need(progress) == shortest


def test_many_phrases_are_met_one_after_the_other() -> None:
    """Their need is then an upper bound, and falls to nothing with them."""
    required = [(number, number + 1) for number in range(3, 3 + EXACT + 1)]
    machine = Phrases(required)
    assert machine.need(machine.start) == 2 * len(required)
    progress = machine.start
    for token in range(3, 3 + EXACT + 2):
        progress = machine.after(progress, token)
    assert machine.need(progress) == 0


def test_phrases_that_share_a_start_or_repeat_are_all_there() -> None:
    """Fault 86: `x x`; and two phrases that share a prefix."""
    model = Table({"*": {"x": 0.2, "y": 0.2, "z": 0.2, "</s>": 0.4}})
    x, y, z = (model.names.index(name) for name in "xyz")
    line = LineOptions(required=((x, x), (x, y), (x, y, z)))
    for name in ("beam", "greedy", "diverse", "alternatives"):
        [found] = search(model, config(4, n_best=1, search=name), [9], lines=[line])
        assert found, name
        assert all(all(holds(one.tokens, phrase) for phrase in line.required) for one in found)
    [[best]] = search(model, config(4), [9], lines=[line])
    assert model.words(best) == "x x y z"


def test_a_forced_prefix_is_continued_by_the_model() -> None:
    """Fault 86: prefix `the ca` and the model's text `the cat`."""
    model = Table(
        {"": {"a": 0.9, "the": 0.1}, "the": {"ca": 0.1, "do": 0.9}, "the ca": {"t": 0.9, "</s>": 0.1}, "*": {"</s>": 1}}
    )
    prefix = (model.names.index("the"), model.names.index("ca"))
    for name in ("beam", "greedy", "diverse"):
        [[found]] = search(model, config(3, search=name), [9], lines=[LineOptions(prefix=prefix)])
        assert model.words(found) == "the ca t"
        assert found.log_prob == pytest.approx(-4.710531, abs=1e-6)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (LineOptions(required=((3,) * 10,)), "it needs 10 pieces and the limit is 5"),
        (LineOptions(prefix=(3, 3, 4), required=((3, 4, 5, 5, 5),)), "it needs 6 pieces and the limit is 5"),
        (LineOptions(prefix=(3,) * 6), "it needs 6 pieces and the limit is 5"),
        (LineOptions(min_length=6), "it needs 6 pieces and the limit is 5"),
        (LineOptions(required=((3, 1),)), "the required phrase holds a token that is never generated"),
        (LineOptions(prefix=(9,)), "the prefix holds a token that is never generated"),
        (LineOptions(forbidden=((),)), "a forbidden phrase is empty"),
        (LineOptions(prefix=(3, 4, 5), forbidden=((4, 5),)), "the prefix holds a forbidden phrase"),
        (LineOptions(required=((4, 5),), forbidden=((5,),)), "the required phrase holds a forbidden phrase"),
        (LineOptions(prefix=(3, 4), required=((4, 5),), forbidden=((3, 5),)), None),
    ],
)
def test_what_is_impossible_is_said_and_concerns_its_line_alone(line: LineOptions, reason: str | None) -> None:
    """Fault 86: among others a phrase of ten pieces where five are the limit."""
    assert impossible(line, 5, SYMBOLS, DecodeConfig()) == reason
    model = Table({"*": {"a": 0.3, "b": 0.3, "c": 0.3, "</s>": 0.1}})
    model.tables = (model.tables[0],) * 2
    found, other = search(model, config(4), [5, 5], [0, 1], [line, LineOptions(1)])
    assert bool(found) is (reason is None)
    assert [other] == search(model, config(4), [5], [1])


def test_samples_cannot_require_phrases() -> None:
    line = LineOptions(required=((3,),))
    assert impossible(line, 5, SYMBOLS, DecodeConfig(search="sample")) == (
        "decode.search sample cannot require phrases; beam, greedy, diverse and alternatives can"
    )
    model = Table({"*": {"a": 0.5, "</s>": 0.5}})
    assert search(model, config(search="sample"), [5], lines=[line]) == [[]]


def test_tokens_whose_probability_is_no_number_hide_no_others() -> None:
    """They count as impossible, in a search that requires a phrase as in any other."""
    row, line = {"a": 0.2, "b": 0.1, "</s>": 0.7}, LineOptions(required=((3,),))
    broken = row | dict.fromkeys("cdefghij", math.nan)
    found, expected = (search(Table({"*": each}), config(2), [5], lines=[line]) for each in (broken, row))
    assert found == expected
    assert (found[0][0].tokens, found[0][0].truncated) == ((3,), False)
