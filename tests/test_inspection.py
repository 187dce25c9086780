"""A trained model's modules, and its attention word by word."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from mt.errors import ConfigError, DataError
from mt.inspection import END, Words, _by_word, inspect_attention, inspect_model, modules
from mt.recipe import RECIPE_FILE, save_recipe
from mt.training.weights import write_tensors
from tests.cli.conftest import Call, mt  # noqa: F401 - a fixture
from tests.models.laws import shrunk
from tests.test_export import DATA
from tests.translators import run_folder, untrained

SENTENCE = "a b c"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return run_folder(tmp_path / "run", DATA).model_dir


def run_of(folder: Path, preset: str) -> Path:
    """A run folder of an untrained model that is a small preset."""
    recipe = run_folder(folder, DATA)
    config = shrunk(preset)
    config = replace(config, tie="none") if config.decoder.type != "language_model" else config
    tokenizers = untrained().tokenizers
    torch.manual_seed(0)
    model = config.build(len(tokenizers.src), len(tokenizers.tgt), tokenizers.tgt.pad)
    save_recipe(replace(recipe, model=config), folder / RECIPE_FILE)
    write_tensors(folder / "model.safetensors", model.state_dict())
    return folder


def test_modules_hold_what_is_inside_them(run: Path) -> None:
    found = {module.name: module for module in inspect_model(run)}
    model = untrained().model
    assert found[""].parameters == sum(parameter.numel() for parameter in model.parameters())
    assert found["encoder.layers.0.attention.query"].shapes == ("weight (16, 16)", "bias (16,)")
    assert found["encoder.layers.0.attention.query"].parameters == 16 * 16 + 16
    assert found["encoder"].parameters == found["encoder.layers"].parameters
    assert found["encoder.layers.1"].kind == "EncoderLayer"


def test_what_is_tied_counts_once() -> None:
    model = torch.nn.ModuleList([torch.nn.Linear(2, 3, bias=False), torch.nn.Linear(2, 3, bias=False)])
    model[1].weight = model[0].weight
    assert [module.parameters for module in modules(model)] == [6, 6, 6]


def test_a_page_has_every_layer_and_head(run: Path, tmp_path: Path) -> None:
    text = inspect_attention(run, SENTENCE, tmp_path / "page.html", device="cpu")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.count("<svg") == (2 + 2 + 2) * 2  # encoder, decoder, source: two layers of two heads
    assert f"<h1>{SENTENCE} → {text}</h1>" in page
    given = inspect_attention(run, SENTENCE, tmp_path / "page.html", target="b", device="cpu")
    assert given == "b"


@pytest.mark.parametrize(("preset", "maps"), [("rnnsearch", 1), ("luong_local", 1), ("hybrid", 3 * 3 + 1)])
def test_recurrent_attention_is_drawn_too(tmp_path: Path, preset: str, maps: int) -> None:
    inspect_attention(run_of(tmp_path / "run", preset), SENTENCE, tmp_path / "page.html", "a b", device="cpu")
    assert (tmp_path / "page.html").read_text(encoding="utf-8").count("<svg") == maps


def test_a_model_without_attention_has_nothing_to_draw(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        inspect_attention(run_of(tmp_path / "run", "seq2seq_gru"), SENTENCE, tmp_path / "page.html", "a", device="cpu")
    assert str(caught.value) == "This model has no attention: all that it knows of the source is in its state."
    assert not (tmp_path / "page.html").exists()


def test_a_blank_sentence_has_nothing_to_draw(run: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        inspect_attention(run, " ", tmp_path / "page.html", device="cpu")
    assert str(caught.value) == "The sentence is blank: there is nothing to attend to."


def test_words_take_the_mean_of_their_rows_and_the_sum_of_their_columns() -> None:
    words = Words(("ab", "c"), ((0, 1), (2,)))
    weights = np.array([[0.1, 0.2, 0.7], [0.3, 0.5, 0.2], [1.0, 0.0, 0.0]], np.float32)
    np.testing.assert_allclose(_by_word(weights, words, words), [[0.55, 0.45], [1.0, 0.0]], rtol=1e-6)
    assert (words + END).pieces == ((0, 1), (2,), (3,))


def test_on_the_command_line(run: Path, tmp_path: Path, mt: Call) -> None:  # noqa: F811
    called = mt("inspect", "model", run)
    assert called.code == 0
    first = called.out.split("\n")[0].split()
    assert first[1:] == ["EncoderDecoder", "(all)"]
    page = tmp_path / "page.html"
    called = mt("inspect", "attention", run, SENTENCE, "-o", page, "--target", "a", "--device", "cpu")
    assert (called.code, called.out) == (0, "a\n")
    assert page.exists()
