"""Laws of every search with every model: what the tests of either cannot see."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import pytest
import torch

from mt.data.batching import collate, collate_source
from mt.models.encoder_decoder import EncoderDecoder
from mt.search.config import DecodeConfig
from mt.search.ensemble import EnsembleState, ensemble
from mt.search.hypothesis import Hypothesis, Symbols
from mt.search.options import LineOptions, fulfils
from mt.search.searches import SEARCHES
from tests.models.laws import BOS, CONFIGS, EOS, PAD, VOCAB, build, log_probs, pairs

SOURCES, _ = pairs([(5, 0), (2, 0), (7, 0), (1, 0)])
LINES = [
    LineOptions(0),
    LineOptions(1, prefix=(5, 6)),
    LineOptions(2, forbidden=((4,), (7, 8))),
    LineOptions(3, required=((9, 10),), min_length=3),
]
LIMIT = 6


@cache
def model_of(name: str) -> EncoderDecoder:
    return build(CONFIGS[name]).eval()


def options_of(search: str) -> DecodeConfig:
    own: dict[str, Any] = {"greedy": {"n_best": 1}, "sample": {"samples": 3, "top_k": 5, "n_best": 3}}.get(
        search, {"n_best": 3}
    )
    return DecodeConfig(search=search, **{"beam_size": 3, "no_repeat_ngram_size": 3, **own})


def found(search: str, name: str, rows: list[int]) -> list[list[Hypothesis]]:
    model = model_of(name)
    with torch.inference_mode():
        state = model.start(*collate_source([SOURCES[row] for row in rows], PAD, EOS))
        lines = [LINES[row] if search != "sample" or row < 3 else LineOptions(row) for row in rows]
        limits = torch.full((len(rows),), LIMIT)
        return SEARCHES[search](model.step, state, limits, Symbols(BOS, EOS, PAD, VOCAB), options_of(search), lines)


EACH_STATE = ("transformer_base", "deep_shallow_ssru", "prefix_lm", "rnnsearch", "seq2seq_lstm", "intra_attention")
"""A model of each kind of state."""


@pytest.mark.parametrize(
    ("search", "name"),
    [*(("beam", name) for name in CONFIGS), *product([name for name in SEARCHES if name != "beam"], EACH_STATE)],
)
def test_batches_change_nothing_wishes_hold_and_scores_are_those_of_the_full_forward(search: str, name: str) -> None:
    """Faults 80, 82, 86 and 92."""
    together = found(search, name, [0, 1, 2, 3])
    for row, hypotheses in enumerate(together):
        [alone] = found(search, name, [row])
        assert [one.tokens for one in hypotheses] == [one.tokens for one in alone]
        assert [one.score for one in hypotheses] == pytest.approx([one.score for one in alone], abs=1e-4)
        assert hypotheses
        for one in hypotheses:
            assert search == "sample" or fulfils(one.tokens, LINES[row])
            batch = collate([SOURCES[row]], [list(one.tokens)], PAD, BOS, EOS)
            with torch.inference_mode():
                forced = log_probs(model_of(name), batch).gather(2, batch.tgt_out[..., None]).flatten().tolist()
            assert one.token_log_probs == pytest.approx(forced[: len(one.tokens) + (not one.truncated)], abs=1e-4)


@pytest.mark.parametrize("search", SEARCHES)
def test_every_search_works_on_an_ensemble_of_different_models(search: str) -> None:
    """Fault 87: and what is found has the mean of the probabilities."""
    models = [model_of(name) for name in ("transformer_base", "gru, top lstm")]
    with torch.inference_mode():
        state = EnsembleState(tuple(model.start(*collate_source(SOURCES[:1], PAD, EOS)) for model in models))
        step = ensemble([model.step for model in models])
        symbols = Symbols(BOS, EOS, PAD, VOCAB)
        [hypotheses] = SEARCHES[search](step, state, torch.tensor([LIMIT]), symbols, options_of(search))
        for one in hypotheses:
            batch = collate(SOURCES[:1], [list(one.tokens)], PAD, BOS, EOS)
            mean = torch.stack([log_probs(model, batch).exp() for model in models]).mean(0).log()
            forced = mean.gather(2, batch.tgt_out[..., None]).flatten().tolist()
            assert one.token_log_probs == pytest.approx(forced[: len(one.tokens) + (not one.truncated)], abs=1e-4)
