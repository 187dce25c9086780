from __future__ import annotations

import pytest
import torch

from mt.engine import TorchEngine
from mt.search.config import DecodeConfig
from tests.translators import untrained

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


def test_changed_weights_are_searched_with() -> None:
    """What is packed for decoding is packed again after each update."""
    translator = untrained(DecodeConfig(beam_size=1, max_length=6))
    before = translator.engine.search([[4, 5, 6]], translator.config)
    with torch.no_grad():
        translator.model.output.weight.neg_()
    assert translator.engine.search([[4, 5, 6]], translator.config) != before
