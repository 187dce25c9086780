from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest
import torch
from torch import Tensor

from mt.engine import TorchEngine
from mt.errors import RunError
from mt.models.encoder_decoder import EncoderDecoder
from mt.models.slots import ROOM
from mt.search.config import DecodeConfig
from mt.search.options import LineOptions
from mt.translator import Translator
from tests.translators import TINY, Copy, CopyState, copier, letters, untrained

SOURCES = [[5, 6, 7], [8], [9, 10, 11, 12, 13, 14], [5, 6, 7], [20, 21]]


def engine() -> TorchEngine:
    made = untrained().engine
    assert isinstance(made, TorchEngine)
    return made


@pytest.mark.parametrize("logits", [1, 300, 2**24])
def test_log_probs_are_those_of_the_search_whatever_the_batches(logits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault 92: natural logarithms, one for each piece and one for the end mark, and their sum is the score."""
    monkeypatch.setattr("mt.engine.LOGITS", logits)
    config = DecodeConfig(beam_size=4, n_best=4, max_length=7)
    for source, hypotheses in zip(SOURCES, engine().search(SOURCES, config), strict=True):
        targets = [list(one.tokens) for one in hypotheses]
        scores = engine().log_probs([source] * len(targets), targets)
        for one, found in zip(hypotheses, scores, strict=True):
            assert len(found) == len(one.tokens) + 1
            assert sum(found[:-1] if one.truncated else found) == pytest.approx(one.log_prob, abs=1e-4)


def test_an_empty_target_is_its_end_mark() -> None:
    [found] = engine().log_probs([[5]], [[]])
    assert len(found) == 1
    assert found[0] < 0


def test_nothing_to_score_needs_no_model() -> None:
    assert engine().log_probs([], []) == []
    assert engine().search([], DecodeConfig()) == []


@pytest.mark.parametrize(("numbers", "budget", "batches"), [(0, None, 5), (8, None, 3), (2**19, None, 1), (1, 7, 4)])
def test_batches_suit_the_width_of_the_model(
    numbers: int, budget: int | None, batches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A budget of the recipe is kept."""
    monkeypatch.setattr("mt.engine.BATCH_NUMBERS", numbers * TINY.dim)
    made, sizes = engine(), list[int]()
    search = made._search

    def counted(sources: list[list[int]], *rest: Any) -> object:
        sizes.append(len(sources))
        return search(sources, *rest)

    monkeypatch.setattr(made, "_search", counted)
    assert len(made.search(SOURCES, DecodeConfig(batch_tokens=budget))) == len(SOURCES)
    assert (len(sizes), sum(sizes)) == (batches, len(SOURCES))


def test_changed_weights_are_searched_with() -> None:
    """What is packed for decoding is packed again after each update."""
    translator = untrained(DecodeConfig(beam_size=1, max_length=6))
    before = translator.engine.search([[4, 5, 6]], translator.config)
    with torch.no_grad():
        translator.model.output.weight.neg_()
    assert translator.engine.search([[4, 5, 6]], translator.config) != before


def test_its_precision_is_not_that_of_its_surroundings() -> None:
    config = DecodeConfig(beam_size=2, max_length=6)
    expected, scores = engine().search(SOURCES, config), engine().log_probs([[5, 6]], [[7]])
    with torch.autocast("cpu", torch.bfloat16):
        assert engine().search(SOURCES, config) == expected
        assert engine().log_probs([[5, 6]], [[7]]) == scores


WIDE = {
    "beam": DecodeConfig(beam_size=40, n_best=40, max_length=8),
    "coverage": DecodeConfig(beam_size=2 * ROOM + 1, coverage_penalty=0.2, max_length=8),
    "diverse": DecodeConfig(search="diverse", beam_size=100, beam_groups=4, n_best=100, max_length=8),
    "alternatives": DecodeConfig(search="alternatives", n_best=40, max_length=8),
    "sample": DecodeConfig(search="sample", samples=64, n_best=64, max_length=8),
}
"""Searches that take more slots a step than a state begins with."""
WISHES = {"beam": ((5, 6), (7,), (8, 10)), "diverse": ((5,),)}
"""Phrases that are required, each of which makes rows of its own."""


def _wide_engine() -> TorchEngine:
    tokenizers = letters()
    torch.manual_seed(1)
    model = TINY.build(len(tokenizers.src), len(tokenizers.tgt), tokenizers.tgt.pad)
    with torch.no_grad():
        model.output.weight.mul_(6)
    return TorchEngine(model, tokenizers)


def _searched(engine: TorchEngine, config: DecodeConfig, options: list[LineOptions]) -> list[tuple[object, float]]:
    """Tokens and scores, those of the sources one after another."""
    found = engine.search(SOURCES, config, options)
    return [((number, one.tokens), one.score) for number, some in enumerate(found) for one in some]


@pytest.mark.parametrize(("name", "phrases"), [*((name, ()) for name in WIDE), *WISHES.items()])
def test_the_widest_searches_find_what_they_find_in_the_plain_model(
    name: str, phrases: tuple[tuple[int, ...], ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault 80. Over several steps, while sentences leave."""
    options = [LineOptions(required=phrases)] * len(SOURCES)
    fast = _searched(_wide_engine(), WIDE[name], options)
    monkeypatch.setattr("mt.engine.decoding_of", lambda model, _: model)
    plain = _searched(_wide_engine(), WIDE[name], options)
    assert [one for one, _ in fast] == [one for one, _ in plain]
    assert [score for _, score in fast] == pytest.approx([score for _, score in plain], abs=1e-4)


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_wide_beams_in_other_precisions(precision: str) -> None:
    """Fault 80."""
    found = _wide_engine().search(SOURCES, replace(WIDE["beam"], precision=precision))
    assert [len(some) for some in found] == [40] * len(SOURCES)


class Cramped(Copy):
    """Holds no more than some positions of sources, padding and end marks included."""

    most = 8
    refused = 0

    def start(self, src: Tensor, src_mask: Tensor, attention: bool = False) -> CopyState:
        if src.numel() > self.most:
            self.refused += 1
            raise torch.OutOfMemoryError
        return super().start(src, src_mask, attention)


def cramped() -> tuple[Translator, Cramped]:
    tokenizers = letters()
    model = Cramped(len(tokenizers.src))
    return Translator(cast(EncoderDecoder, model), tokenizers), model


def test_a_batch_that_does_not_fit_into_memory_is_translated_in_halves() -> None:
    """Fault 67."""
    lines = ["a b c", "d", "e f", "g", "h i j k l m", "n"]
    translator, model = cramped()
    assert [one.text for one in translator.translate(lines)] == lines
    assert max(model.rows) < len(lines)
    roomy = copier().translate(lines)
    refused = model.refused
    assert [one.score for one in roomy] == [one.score for one in translator.translate(lines)]
    assert 0 < refused == model.refused  # it is known what does not fit


def test_a_line_that_does_not_fit_into_memory_alone_is_one_sentence() -> None:
    """Fault 67."""
    translator, _ = cramped()
    with pytest.raises(RunError) as caught:
        list(translator.translate(["a", "b " * 8]))
    assert str(caught.value) == (
        "A line, or a part of one, of 8 pieces does not fit into memory even alone: let decode.max_source_length split "
        "it, lower decode.beam_size, or take a larger device."
    )


def test_other_errors_of_a_model_are_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("shapes")

    translator, model = cramped()
    monkeypatch.setattr(model, "step", fail)
    with pytest.raises(RuntimeError, match="shapes"):
        list(translator.translate(["a", "b"]))
