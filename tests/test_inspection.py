"""A trained model's modules, and its attention word by word."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from mt.errors import ConfigError, DataError
from mt.inspection import END, Choice, Words, attention_groups, by_word, inspect_attention, inspect_model
from mt.module_tree import Module, module_tree, tree_lines
from mt.recipe import RECIPE_FILE, save_recipe
from mt.training.weights import write_tensors
from mt.translator import Translator
from tests.cli.conftest import Call, mt  # noqa: F401 - a fixture
from tests.models.laws import shrunk
from tests.test_export import DATA
from tests.translators import letters, run_folder, untrained

SENTENCE = "a b c"
SIDES = ("Encoder", "Decoder to itself")


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


def child(module: Module, *names: str) -> Module:
    for name in names:
        module = next(inside for inside in module.modules if inside.name == name)
    return module


def test_modules_hold_what_is_inside_them(run: Path) -> None:
    root, model = inspect_model(run), untrained().model
    assert root.parameters == sum(parameter.numel() for parameter in model.parameters())
    query = child(root, "encoder", "layers", "0", "attention", "query")
    assert list(map(str, query.weights)) == ["weight (16, 16)", "bias (16,)"]
    assert query.parameters == 16 * 16 + 16
    assert child(root, "encoder").parameters == child(root, "encoder", "layers").parameters
    assert child(root, "encoder", "layers", "1").kind == "EncoderLayer"


def test_what_is_tied_counts_once_and_says_with_what() -> None:
    model = torch.nn.ModuleList([torch.nn.Linear(2, 3, bias=False), torch.nn.Linear(2, 3, bias=False)])
    model[1].weight = model[0].weight
    root = module_tree(model)
    assert [root.parameters, *(module.parameters for module in root.modules)] == [6, 6, 6]
    assert [str(module.weights[0]) for module in root.modules] == ["weight (3, 2)", "weight (3, 2) = 0.weight"]


def test_alike_layers_are_shown_once() -> None:
    layers = [torch.nn.Linear(2, 2), torch.nn.Linear(2, 2), torch.nn.Linear(2, 4), torch.nn.ReLU()]
    model = torch.nn.ModuleDict({"stack": torch.nn.ModuleList(layers), "out": torch.nn.Linear(1, 1, bias=False)})
    assert list(tree_lines(module_tree(model))) == [
        "   parameters  module",
        "           25  model               ModuleDict",
        "           24  ├─ stack            ModuleList",
        "            6  │  ├─ 0 to 1, each  Linear      weight (2, 2), bias (2,)",
        "           12  │  └─ 2             Linear      weight (4, 2), bias (4,)",
        "            1  └─ out              Linear      weight (1, 1)",
        "What is tied counts once in what holds it.",
    ]


def test_a_recipe_needs_no_training(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither text nor weights; before there is a vocabulary it is as large as the recipe asks for."""
    (run / "model.safetensors").unlink()
    assert inspect_model(run) == module_tree(untrained().model)
    monkeypatch.chdir(run)
    gnmt = inspect_model("multi30k-tok-gnmt")
    assert child(gnmt, "output").weights[0].shape == (5000, 192)
    assert child(gnmt, "output").weights[0].tied == "src_embedding.tokens.weight"


def test_a_page_has_every_layer_and_head(run: Path, tmp_path: Path) -> None:
    text = inspect_attention(run, SENTENCE, tmp_path / "page.html", device="cpu")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.count("<svg") == (2 + 2 + 2) * 3  # encoder, decoder, source: two layers of two heads and their mean
    assert f"<h1>{SENTENCE} → {text}</h1>" in page
    given = inspect_attention(run, SENTENCE, tmp_path / "page.html", "b", device="cpu")
    assert given == "b"


@pytest.mark.parametrize(
    ("preset", "maps"),
    [("rnnsearch", 1), ("luong_local", 1), ("hybrid", 3 * 4 + 5), ("decomposable", 1 + 1), ("intra_attention", 3)],
)
def test_recurrent_attention_is_drawn_too(tmp_path: Path, preset: str, maps: int) -> None:
    inspect_attention(run_of(tmp_path / "run", preset), SENTENCE, tmp_path / "page.html", "a b", device="cpu")
    assert (tmp_path / "page.html").read_text(encoding="utf-8").count("<svg") == maps


def test_one_stack_looks_at_both_sides_and_from_the_target_at_the_source() -> None:
    tokenizers = letters()
    model = shrunk("prefix_lm").build(len(tokenizers.src), len(tokenizers.tgt), tokenizers.tgt.pad)
    groups = attention_groups(Translator(model, tokenizers), SENTENCE, "d e", Choice())
    assert [group.title for group in groups] == [
        *(f"Decoder to source, layer {layer}" for layer in (1, 2, 3)),
        *(f"Decoder to itself, layer {layer}" for layer in (1, 2, 3)),
    ]
    cross, own = groups[0].maps[1], groups[3].maps[1]
    source, written = ("a", "b", "c", "</s>"), ("d", "e", "</s>")
    assert (cross.rows, cross.columns) == (written, source)
    assert own.rows == own.columns == (*source, "<s>", "d", "e")
    np.testing.assert_array_equal(cross.weights, own.weights[4:, :4])


@pytest.mark.parametrize("reverse_source", [False, True])
def test_a_recurrent_layer_looks_at_what_it_has_read(reverse_source: bool) -> None:
    """Rows and columns are in the order of the text, in whatever order the text is read."""
    tokenizers = letters()
    config = shrunk("intra_attention")
    config = replace(config, tie="none", encoder=replace(config.encoder, reverse_source=reverse_source))
    model = config.build(len(tokenizers.src), len(tokenizers.tgt), tokenizers.tgt.pad)
    groups = attention_groups(Translator(model, tokenizers), SENTENCE, "d e", Choice())
    encoder, decoder = (next(group.maps[0] for group in groups if group.title.startswith(side)) for side in SIDES)
    assert (encoder.rows, encoder.columns) == (("a", "b", "c", "</s>"), ("(beginning)", "a", "b", "c"))
    assert (decoder.rows, decoder.columns) == (("<s>", "d", "e"), ("(beginning)", "<s>", "d"))
    seen = np.tril(np.ones((4, 4), bool))
    if reverse_source:  # c first, which sees the beginning alone; a sees b and c
        seen = np.array([[1, 0, 1, 1], [1, 0, 0, 1], [1, 0, 0, 0], [1, 1, 1, 1]], bool)
    np.testing.assert_array_equal(encoder.weights > 0, seen)
    np.testing.assert_array_equal(decoder.weights > 0, np.tril(np.ones((3, 3), bool)))
    np.testing.assert_allclose(encoder.weights.sum(1), 1, rtol=1e-5)


def test_layers_are_counted_whatever_the_modules_are_called() -> None:
    """Of attention from the bottom layer that one is a module, and those above it are a stack."""
    tokenizers = letters()
    config = shrunk("intra_attention")
    decoder = replace(config.decoder, context="bottom", layers=3, initial="summary")
    config = replace(config, tie="none", decoder=decoder)
    model = config.build(len(tokenizers.src), len(tokenizers.tgt), tokenizers.tgt.pad)
    groups = attention_groups(Translator(model, tokenizers), SENTENCE, "d e", Choice("decoder"))
    assert [group.title for group in groups] == [f"Decoder to itself, layer {layer}" for layer in (1, 2, 3)]


@pytest.mark.parametrize(
    ("choice", "maps"),
    [
        (Choice("cross"), 2 * 3),
        (Choice(layer=2), 3 * 3),
        (Choice(head=2), 3 * 2),
        (Choice("encoder", layer=1, head=1, pieces=True), 1),
    ],
)
def test_any_layer_and_head_can_be_chosen(run: Path, tmp_path: Path, choice: Choice, maps: int) -> None:
    inspect_attention(run, SENTENCE, tmp_path / "page.html", "a b", choice, device="cpu")
    assert (tmp_path / "page.html").read_text(encoding="utf-8").count("<svg") == maps


def test_what_cannot_be_chosen_tells_what_can(run: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        inspect_attention(run, SENTENCE, tmp_path / "page.html", "a", Choice("cross", 3, 1), device="cpu")
    assert str(caught.value) == (
        "This model has no cross attention layer 3 head 1; it has cross (layers: 2, heads: 2), encoder (layers: 2, "
        "heads: 2), decoder (layers: 2, heads: 2)."
    )


def test_other_formats_are_refused(run: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        inspect_attention(run, SENTENCE, Path("maps.pdf"))
    assert str(caught.value) == "'maps.pdf' does not say what to draw: its name must end in .html, .svg or .png."


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_pictures_are_the_same_bytes_again(run: Path, tmp_path: Path, suffix: str) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra plots")
    files = [tmp_path / f"{name}.{suffix}" for name in "ab"]
    for file in files:
        inspect_attention(run, SENTENCE, file, "a b", Choice("cross"), device="cpu")
    assert files[0].read_bytes() == files[1].read_bytes()
    assert files[0].read_bytes().startswith(b"<?xml" if suffix == "svg" else b"\x89PNG")


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
    np.testing.assert_allclose(by_word(weights, words, words), [[0.55, 0.45], [1.0, 0.0]], rtol=1e-6)
    assert (words + END).pieces == ((0, 1), (2,), (3,))
    assert words.without_last_piece() == Words(("ab",), ((0, 1),))
    assert words.without_last_piece().without_last_piece() == Words(("ab",), ((0,),))


def test_on_the_command_line(run: Path, tmp_path: Path, mt: Call) -> None:  # noqa: F811
    called = mt("inspect", "model", run)
    assert called.code == 0
    assert called.out.split("\n")[1].split()[1:] == ["model", "EncoderDecoder"]
    root = json.loads(mt("inspect", "model", run, "--format", "json").out)
    assert (root["kind"], root["parameters"]) == ("EncoderDecoder", inspect_model(run).parameters)
    page = tmp_path / "page.html"
    called = mt("inspect", "attention", run, SENTENCE, "-o", page, "--target", "a", "--device", "cpu")
    assert (called.code, called.out) == (0, "a\n")
    assert page.exists()
