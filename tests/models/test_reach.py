"""Faults 73 and 84: what a model cannot hold is split, cut or refused line by line, and never the end of a job."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from mt.ensemble import Ensemble, reach_of
from mt.errors import DataError
from mt.events import finish
from mt.models.config import DecoderConfig, EncoderConfig, ModelConfig
from mt.models.reach import Reach
from mt.score import score_files
from mt.search.config import DecodeConfig
from mt.translator import Translator
from tests.models.laws import small
from tests.translators import letters

COUNT = 12
LANGUAGE_MODEL = {"encoder": EncoderConfig(type="none"), "tie": "all"}
CONFIGS = {
    "transformer": small(positions="learned", max_positions=COUNT),
    "ssru": small(positions="learned", max_positions=COUNT, decoder=DecoderConfig(type="ssru", layers=1)),
    "lstm decoder": small(
        positions="learned",
        max_positions=COUNT,
        decoder=DecoderConfig(type="lstm", layers=1, context="top", attention="dot"),
    ),
    "language model": small(
        positions="learned",
        max_positions=COUNT,
        decoder=DecoderConfig(type="language_model", layers=1),
        **LANGUAGE_MODEL,
    ),
}
every_config = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())


def translator(config: ModelConfig, decode: DecodeConfig | None = None) -> Translator:
    tokenizers = letters()
    torch.manual_seed(1)
    model = config.build(len(tokenizers.src), len(tokenizers.tgt), tokenizers.tgt.pad)
    return Translator(model, tokenizers, decode or DecodeConfig(beam_size=3))


@every_config
def test_a_model_holds_what_it_is_said_to_hold_and_no_more(config: ModelConfig) -> None:
    engine, reach = translator(config).engine, Reach.of(config)
    for source in (1, int(reach.source)):
        most = reach.translation(source)
        longest = int(min(most, 40))
        [scores] = engine.log_probs([[5] * source], [[6] * longest])
        assert len(scores) == longest + 1
        if math.isfinite(most):
            with pytest.raises(DataError, match=r"model\.max_positions"):
                engine.log_probs([[5] * source], [[6] * (longest + 1)])
    with pytest.raises(DataError, match=r"model\.max_positions"):
        engine.log_probs([[5] * COUNT], [[]])


def test_other_positions_have_no_end() -> None:
    for kind in ("sinusoidal", "rotary", "none"):
        assert Reach.of(small(positions=kind)) == Reach()
    assert (Reach().source, Reach().translation(10**6)) == (math.inf, math.inf)


def test_models_together_hold_what_each_of_them_holds() -> None:
    models = [translator(config).model for config in (CONFIGS["transformer"], CONFIGS["lstm decoder"], small())]
    assert reach_of(Ensemble(models)) == Reach(COUNT - 1, COUNT - 1)
    assert reach_of(Ensemble(models[1:])) == Reach(COUNT - 1)


LONG = " ".join("abcdefghij" * 3)
LINES = ["a b", LONG, "c", " ".join("abcdefghi"), ""]


@every_config
def test_a_long_line_is_split_and_the_others_are_as_they_were(config: ModelConfig) -> None:
    found = list(translator(config).translate(LINES))
    assert [one.error for one in found] == [None] * 5
    assert [len(one.parts) for one in found] == [0, 4, 0, 0, 0]
    assert " ".join(found[1].parts) == LONG
    assert all(one.text for one in found[:4])
    alone = [next(translator(config).translate([line])) for line in LINES]
    assert [one.text for one in found] == [one.text for one in alone]


@every_config
def test_a_long_line_is_cut_and_said(config: ModelConfig) -> None:
    found = list(translator(config, DecodeConfig(long_source="cut")).translate(LINES))
    assert [one.cut_from for one in found] == [None, 30, None, None, None]
    assert all(one.text for one in found[:4])


@every_config
@pytest.mark.parametrize("constraints", [(), ("a",)])
def test_what_must_stay_whole_is_an_error_of_its_line(config: ModelConfig, constraints: tuple[str, ...]) -> None:
    decode = DecodeConfig(long_source="split" if constraints else "whole")
    found = list(translator(config, decode).translate(LINES[:4], constraints=constraints))
    assert [one.error for one in found] == [
        None,
        f"It has 30 pieces, but the model can hold {Reach.of(config).source:.0f}: let decode.long_source split it, "
        "where it has no constraints, or cut it.",
        None,
        None,
    ]
    assert [bool(one.text) for one in found] == [True, False, True, True]


@every_config
@pytest.mark.parametrize("search", ["beam", "greedy", "diverse", "sample", "alternatives"])
def test_a_search_ends_where_the_model_ends(config: ModelConfig, search: str) -> None:
    """Its own limit, 52 pieces and more, is beyond that; what is cut there is told of."""
    made = translator(config, DecodeConfig(search=search))
    with torch.no_grad():
        made.model.output.weight[made.tokenizers.tgt.eos] = 0
    for one in made.translate(["a", "b c", "a b c d e f"]):
        pieces, most = len(one.source.split()), Reach.of(config).translation(len(one.source.split()))
        assert len(one.tokens) <= most
        assert one.truncated == (len(one.tokens) == most or len(one.tokens) == 2 * pieces + 50)


@every_config
@pytest.mark.parametrize("side", [0, 1])
def test_a_line_that_cannot_be_scored_is_named(config: ModelConfig, side: int, tmp_path: Path) -> None:
    most = (Reach.of(config).source, Reach.of(config).translation(1))[side]
    files = (tmp_path / "source", tmp_path / "translation")
    for place, file in enumerate(files):
        file.write_text(f"a\n{LONG if place == side else 'b'}\n")
    work = score_files(translator(config), *files, tmp_path / "scores")
    if math.isinf(most):
        assert finish(work).lines == 2
        return
    with pytest.raises(DataError) as caught:
        finish(work)
    assert str(caught.value) == (
        f"{files[0]}, line 2: the {('source', 'translation')[side]} has 30 pieces, but the model can hold {most:.0f}: "
        "leave the line out, or score it in parts."
    )


def test_what_needs_more_room_than_there_is_is_an_error_of_its_line() -> None:
    made = translator(CONFIGS["transformer"], DecodeConfig(min_length=COUNT))
    assert [one.error for one in made.translate(["a"])] == [
        "What is asked for cannot be met: it needs 12 pieces and the limit is 11."
    ]
