from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

import mt
from mt.data.config import DataConfig, ParallelText
from mt.errors import RunError
from mt.models.config import DecoderConfig, EncoderConfig, ModelConfig
from mt.recipe import RECIPE_FILE, save_recipe
from mt.search.config import DecodeConfig
from mt.text.tokenizer import Tokenizers
from mt.training.weights import write_tensors
from tests.translators import LETTERS, run_folder, words

DATA = DataConfig("en", "de", (ParallelText(Path("a"), Path("b")),))
LINES = ["a b c", "d", "e f g a b", ""]


def another(folder: Path, seed: int, model: ModelConfig | None = None) -> Path:
    """A run like that of `run_folder`, with other weights or another model."""
    recipe = run_folder(folder, DATA)
    if model is not None:
        recipe = replace(recipe, model=model)
        save_recipe(recipe, folder / RECIPE_FILE)
    tokenizers = Tokenizers.load(folder / "tokenizer")
    torch.manual_seed(seed)
    built = recipe.model.build(len(tokenizers.src), len(tokenizers.tgt), tokenizers.tgt.pad)
    write_tensors(folder / "model.safetensors", built.state_dict())
    return folder


def test_the_same_run_twice_translates_as_once(tmp_path: Path) -> None:
    """Fault 87."""
    run = another(tmp_path / "one", 1)
    single, double = mt.load(run, device="cpu"), mt.load(run, device="cpu", others=[run])
    assert list(double.translate(LINES)) == list(single.translate(LINES))


def test_models_of_other_architectures_decide_together_and_score_what_they_say(tmp_path: Path) -> None:
    recurrent = ModelConfig(
        encoder=EncoderConfig(type="lstm", layers=1),
        decoder=DecoderConfig(type="lstm", layers=1, context="top", attention="dot"),
        dim=16,
        tie="none",
    )
    runs = [another(tmp_path / "one", 1), another(tmp_path / "two", 2), another(tmp_path / "three", 3, recurrent)]
    options = DecodeConfig(beam_size=3, coverage_penalty=0.1)
    ensemble = mt.load(runs[0], device="cpu", decode=options, others=runs[1:])
    found = list(ensemble.translate(LINES[:3]))
    alone = list(mt.load(runs[0], device="cpu", decode=options).translate(LINES[:3]))
    assert [one.text for one in found] != [one.text for one in alone]
    for one in found:
        assert sum(one.token_scores) == pytest.approx(one.log_prob, abs=1e-4)


def test_another_vocabulary_is_refused(tmp_path: Path) -> None:
    """Fault 87: of the same size, but in another order."""
    one, two = another(tmp_path / "one", 1), another(tmp_path / "two", 2)
    Tokenizers(words(*LETTERS), words(*LETTERS[8::-1]), False).save(two / "tokenizer")
    with pytest.raises(RunError) as refused:
        mt.load(one, device="cpu", others=[two])
    assert str(refused.value) == (
        f"{two} and {one} have different vocabularies, so that their models cannot decide together: the models of an "
        "ensemble are trained with one tokenizer."
    )
