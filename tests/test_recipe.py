"""Recipes: found, extended, overridden, saved, and checked whole."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from mt.checks import check_recipe
from mt.config import key_paths
from mt.errors import ConfigError, DataError, MissingExtraError, RunError
from mt.models.presets import PRESETS
from mt.recipe import Recipe, effective, load_recipe, load_run_recipe, save_recipe, shipped_recipes
from mt.synonyms import SYNONYMS

RECIPE = """\
name: tiny
model_dir: run
data:
  src_lang: en
  tgt_lang: de
  train:
    - {src: data/train.en, tgt: data/train.de}
  valid: {src: data/valid.en, tgt: data/valid.de}
  test:
    held_out: {src: data/test.en, tgt: data/test.de}
train:
  max_steps: 10
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """exp/recipe.yaml with its text."""
    folder = tmp_path / "exp"
    (folder / "data").mkdir(parents=True)
    for part in ("train", "valid", "test"):
        for language in ("en", "de"):
            (folder / "data" / f"{part}.{language}").write_text(f"{part} {language}\n")
    (folder / "recipe.yaml").write_text(RECIPE)
    return folder


def written(folder: Path, text: str, name: str = "recipe.yaml") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def refused(recipe: Recipe, stage: str = "prepare") -> str:
    with pytest.raises((ConfigError, DataError)) as error:
        check_recipe(recipe, stage)
    return str(error.value)


def test_paths_start_from_the_recipe_wherever_one_stands(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault 121."""
    for current, name in (
        (Path("/"), folder / "recipe.yaml"),
        (folder, "./recipe.yaml"),
        (folder.parent, "exp/recipe.yaml"),
    ):
        monkeypatch.chdir(current)
        recipe = load_recipe(name)
        assert recipe.data.train[0].src == folder / "data/train.en"
        assert recipe.model_dir == folder / "run"
        check_recipe(recipe, "prepare")


def test_overrides_start_from_the_current_directory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    recipe = load_recipe("exp/recipe.yaml", ["model_dir=runs/2", "train.lr=3e-4"])
    assert recipe.model_dir == folder.parent / "runs/2"
    assert recipe.train.lr == 0.0003


def test_an_absent_file_is_named_as_written_and_resolved(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Faults 120 and 121: the validation text is looked for before anything starts."""
    monkeypatch.chdir(folder)
    (folder / "data/valid.de").unlink()
    assert refused(load_recipe("recipe.yaml")) == (
        f"recipe.yaml, line 8: data.valid.tgt: 'data/valid.de' ({folder}/data/valid.de): there is no such file."
    )
    recipe = load_recipe("recipe.yaml", ["data.valid.tgt=~/x", "data.generate={}"])
    assert refused(recipe) == (
        f"-o data.valid.tgt=~/x: data.valid.tgt: '~/x' ({Path('~/x').expanduser()}): there is no such file; "
        "mt fetch brings it."
    )
    check_recipe(recipe, "run")
    os.mkfifo(folder / "data/valid.de")
    assert refused(load_recipe("recipe.yaml")) == (
        f"recipe.yaml, line 8: data.valid.tgt: 'data/valid.de' ({folder}/data/valid.de): is a pipe or a device, but "
        "text is read several times; name a file."
    )


def test_a_folder_in_place_of_a_text(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    recipe = load_recipe("recipe.yaml", ["data.test.held_out.tgt=data"])
    assert refused(recipe) == (
        f"-o data.test.held_out.tgt=data: data.test.held_out.tgt.0: 'data' ({folder}/data): is a folder, not a file."
    )


@pytest.mark.parametrize("tie", ["all", "src_tgt"])
def test_ties_across_two_vocabularies(folder: Path, tie: str) -> None:
    """Fault 29."""
    recipe = load_recipe(folder / "recipe.yaml", [f"model.tie={tie}", "tokenizer.shared=false"])
    assert refused(recipe) == (
        f"-o model.tie={tie}: model.tie {tie} makes the embeddings of source and target one, but "
        "tokenizer.shared is false: set tokenizer.shared to true, or model.tie to output or none."
    )
    check_recipe(load_recipe(folder / "recipe.yaml", ["model.tie=output", "tokenizer.shared=false"]), "prepare")


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["train.objective=language_model"],
         "-o train.objective=language_model: train.objective language_model needs model.decoder.type language_model "
         "with model.decoder.prefix causal, but they are transformer and causal."),
        (["model.preset=seq2seq_gru", "decode.unknown=copy"],
         "-o decode.unknown=copy: decode.unknown copy needs a model that attends to its source, but "
         "model.decoder.context is summary: leave decode.unknown out."),
        (["model.preset=seq2seq_lstm", "decode.coverage_penalty=0.2"],
         "-o decode.coverage_penalty=0.2: decode.coverage_penalty 0.2 needs a model that attends to its source, but "
         "model.decoder.context is none: leave decode.coverage_penalty out."),
        (["data.valid=null", "train.metric=bleu"],
         "-o train.metric=bleu: train.metric bleu needs a validation text: give data.valid."),
        (["data.valid=null", "train.schedule.name=plateau"],
         "-o train.schedule.name=plateau: train.schedule.name plateau needs a validation text: give data.valid."),
        (["data.valid=null", "train.patience=3"],
         "-o train.patience=3: train.patience 3 needs a validation text: give data.valid."),
        (["data.valid=null", "train.average={of: best, n: 2}", "train.keep_best=2"],
         "-o train.average={of: best, n: 2}: train.average.of best needs a validation text: give data.valid."),
        (["evaluate.expect={other: {bleu: {value: 3}}}"],
         "-o evaluate.expect={other: {bleu: {value: 3}}}: evaluate.expect.other names no test set; data.test has "
         "held_out."),
        (["data.tgt_lang=d/e"],
         "-o data.tgt_lang=d/e: data.tgt_lang: 'd/e' becomes part of a file's name; use letters, digits and _ - + ."),
        (["data.train=[]"], "-o data.train=[]: data.train is an empty list; name at least one corpus."),
    ],
)  # fmt: skip
def test_blocks_that_contradict_each_other(folder: Path, overrides: list[str], sentence: str) -> None:
    """Fault 116."""
    assert refused(load_recipe(folder / "recipe.yaml", overrides)) == sentence


def test_text_that_is_trained_on_is_not_held_out(folder: Path) -> None:
    recipe = load_recipe(folder / "recipe.yaml", [f"data.valid.src={folder}/data/../data/train.en"])
    assert refused(recipe).endswith(
        f"data.valid.src and data.train.0.src are the same file ({folder}/data/../data/train.en): a score on text "
        "that was trained on tells nothing."
    )


def test_a_run_folder_that_cannot_be(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Faults 44 and 120: unusable output is noticed at the start."""
    (folder / "plain").write_text("")
    name = folder / "plain"
    monkeypatch.chdir(folder)
    recipe = load_recipe("recipe.yaml", ["model_dir=plain"])
    assert refused(recipe) == (
        f"-o model_dir=plain: model_dir: 'plain' ({name}): it is a file, but must be a folder or absent."
    )
    recipe = load_recipe("recipe.yaml", ["data.dir=plain/x"])
    assert (
        refused(recipe) == f"-o data.dir=plain/x: data.dir: 'plain/x' ({name}/x): it cannot be made, {name} is a file."
    )


def test_a_protected_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)
    recipe = load_recipe(folder / "recipe.yaml")
    assert refused(recipe, "train") == (
        f"{folder}/recipe.yaml, line 2: model_dir: 'run' ({folder}/run): it cannot be written, {folder} is protected."
    )


CHRF = "evaluate.metrics=[chrf]"
NO_VALID, NO_TESTS = "data.valid=null", "data.test={}"


@pytest.mark.parametrize(
    ("stage", "overrides"),
    [
        ("train", ["train.metric=loss", CHRF]),  # validation computes BLEU, too
        ("run", ["train.metric=loss", CHRF, NO_TESTS]),
        ("run", [NO_VALID]),
        ("evaluate", []),
    ],
)
def test_a_missing_package_is_noticed_at_the_start(
    folder: Path, monkeypatch: pytest.MonkeyPatch, stage: str, overrides: list[str]
) -> None:
    """Fault 120."""
    monkeypatch.setattr("mt.scoring.tokenizers.find_spec", lambda _: None)
    recipe = load_recipe(folder / "recipe.yaml", ["data.tgt_lang=ja", *overrides])
    with pytest.raises(MissingExtraError) as error:
        check_recipe(recipe, stage)
    assert (
        str(error.value) == "BLEU with the tokenizer ja-mecab needs an optional package: pip install 'mt-toolkit[ja]'."
    )


@pytest.mark.parametrize(
    ("stage", "overrides"),
    [
        ("prepare", []),
        ("translate", []),
        ("train", [NO_VALID]),
        ("train", ["evaluate.tokenize=char"]),
        ("run", [NO_VALID, CHRF]),
        ("evaluate", [CHRF]),
    ],
)
def test_a_package_is_not_asked_for_where_nothing_needs_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, stage: str, overrides: list[str]
) -> None:
    monkeypatch.setattr("mt.scoring.tokenizers.find_spec", lambda _: None)
    check_recipe(load_recipe(folder / "recipe.yaml", ["data.tgt_lang=ja", *overrides]), stage)


def test_extends_merges_deeply(folder: Path) -> None:
    child = written(folder, "extends: recipe.yaml\nname: child\ntrain: {lr: 1e-3}\ndata: {dedup: true}\n", "child.yaml")
    base, recipe = load_recipe(folder / "recipe.yaml"), load_recipe(child)
    assert recipe == replace(
        base, name="child", train=replace(base.train, lr=0.001), data=replace(base.data, dedup=True)
    )


def test_a_preset_begins_the_model_block_anew(folder: Path) -> None:
    """Keys of the model that is extended would seldom fit another one; without a preset they are kept."""
    written(folder, "extends: recipe.yaml\nmodel: {preset: transformer_tiny, norm_position: pre}\n", "tiny.yaml")
    other = load_recipe(written(folder, "extends: tiny.yaml\nmodel: {preset: rnnsearch, dim: 64}\n", "other.yaml"))
    assert (other.model.preset, other.model.dim, other.model.norm_position) == ("rnnsearch", 64, "post")
    wider = load_recipe(written(folder, "extends: tiny.yaml\nmodel: {dim: 64}\n", "wider.yaml"))
    assert (wider.model.preset, wider.model.dim, wider.model.norm_position) == ("transformer_tiny", 64, "pre")


def test_extends_takes_paths_from_the_file_that_says_them(folder: Path) -> None:
    (folder / "sub").mkdir()
    child = written(folder / "sub", "extends: [../recipe.yaml]\nmodel_dir: run\n", "child.yaml")
    recipe = load_recipe(child)
    assert recipe.data.train[0].src.resolve() == folder / "data/train.en"
    assert recipe.model_dir == folder / "sub/run"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("extends: a.yaml\n", "{folder}/a.yaml: recipes extend each other in a circle: a.yaml -> a.yaml."),
        ("name: x\nextends: absent.yaml\n",
         "{folder}/a.yaml, line 2: extends: there is no file 'absent.yaml' ({folder}/absent.yaml)."),
        ("extends: {a: b}\n",
         "{folder}/a.yaml, line 1: extends must be a recipe file, a shipped recipe's name, or a list of them."),
    ],
)  # fmt: skip
def test_extends_that_leads_nowhere(folder: Path, text: str, sentence: str) -> None:
    file = written(folder, text, "a.yaml")
    with pytest.raises(ConfigError) as error:
        load_recipe(file)
    assert str(error.value) == sentence.format(folder=folder)


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_lie_under_the_keys_of_the_recipe(folder: Path, preset: str) -> None:
    plain = load_recipe(folder / "recipe.yaml", [f"model.preset={preset}"]).model
    assert plain.dim == PRESETS[preset]["dim"]
    assert plain.encoder.layers == PRESETS[preset].get("encoder", {}).get("layers", 6)
    changed = load_recipe(folder / "recipe.yaml", [f"model.preset={preset}", "model.dropout=0.05"]).model
    assert changed == replace(plain, dropout=0.05)


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("max_tokens", "train.batch_tokens"), ("batch_type", "train.batch_tokens"), ("lr_scheduler", "train.schedule"),
        ("warmup_steps", "train.schedule.warmup"), ("d_model", "model.dim"), ("lenpen", "decode.length_penalty"),
        ("beam", "decode.beam_size"), ("src_lang", "data.src_lang"), ("lr", "train.lr"),
        ("batch_tokns", "train.batch_tokens"),
    ],
)  # fmt: skip
def test_names_of_other_tools_and_of_other_blocks(folder: Path, key: str, meant: str) -> None:
    with pytest.raises(ConfigError) as error:
        load_recipe(written(folder, f"{RECIPE}{key}: 3\n"))
    assert str(error.value) == f"{folder}/recipe.yaml, line 13: unknown key {key}; did you mean {meant}?"


def test_synonyms_lead_to_keys() -> None:
    known = {*key_paths(Recipe), "extends", "src", "tgt"}
    assert [name for name, meant in SYNONYMS.items() if meant not in known or name in known] == []
    assert [name for name in SYNONYMS if name != name.lower()] == []


def test_trg_is_tgt(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"line 7: unknown key data.train.0.trg; did you mean tgt\?"):
        load_recipe(written(folder, RECIPE.replace("tgt: data/train.de", "trg: data/train.de")))


@pytest.mark.parametrize("name", shipped_recipes())
def test_shipped_recipes_take_paths_from_the_current_directory(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    recipe = load_recipe(name)
    assert recipe == load_recipe(shipped_recipes()[name])
    assert recipe.model_dir.is_relative_to(tmp_path)


def test_a_language_model_is_not_told_to_untie_its_embeddings(folder: Path) -> None:
    """It reads both sides with one."""
    recipe = load_recipe(folder / "recipe.yaml", ["model.preset=prefix_lm", "tokenizer.shared=false"])
    with pytest.raises(ConfigError, match=r"tokenizer.shared is false: set tokenizer.shared to true\.$"):
        check_recipe(recipe, "prepare")


def test_a_name_that_is_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"^'nothing' is neither a recipe file nor a shipped recipe; shipped are: "):
        load_recipe("nothing")
    with pytest.raises(
        ConfigError, match=r"^'quickstrat' is neither .* nor a shipped recipe; did you mean quickstart\?$"
    ):
        load_recipe("quickstrat")
    with pytest.raises(ConfigError, match=r"^There is no file 'nothing.yaml' \(/"):
        load_recipe("nothing.yaml")
    with pytest.raises(ConfigError, match=r" is a folder; a recipe is a YAML file"):
        load_recipe(tmp_path)


def test_load_of_save_is_the_same(folder: Path) -> None:
    """The law load(save(r)) == r."""
    recipe = load_recipe(folder / "recipe.yaml", ["model.preset=transformer_tiny", "train.valid_every=10Mt"])
    save_recipe(recipe, folder / "saved.yaml")
    assert load_recipe(folder / "saved.yaml") == recipe
    assert "lr: 0.0005" in effective(recipe)
    assert effective(recipe).startswith("name: tiny\nmodel_dir: ")


def test_a_run_folder_can_be_moved(folder: Path, tmp_path: Path) -> None:
    """Fault 121: moved, and the training text deleted."""
    recipe = load_recipe(folder / "recipe.yaml")
    recipe.model_dir.mkdir()
    save_recipe(recipe, recipe.model_dir / "recipe.yaml")
    assert load_run_recipe(recipe.model_dir) == recipe
    moved = shutil.move(recipe.model_dir, tmp_path / "elsewhere")
    shutil.rmtree(folder)
    loaded = load_run_recipe(moved)
    assert loaded == replace(recipe, model_dir=tmp_path / "elsewhere")
    assert loaded.data_dir == tmp_path / "elsewhere" / "data"


def test_what_a_trained_run_cannot_take_is_refused(folder: Path) -> None:
    """Fault 116: not passed over in silence."""
    recipe = load_recipe(folder / "recipe.yaml")
    recipe.model_dir.mkdir()
    save_recipe(recipe, recipe.model_dir / "recipe.yaml")
    assert load_run_recipe(recipe.model_dir, ["decode.beam_size=7"]).decode.beam_size == 7
    for override in ("model.dropout=0.9", "train.lr=9", "train.schedule.warmup=7", "model_dir=elsewhere"):
        with pytest.raises(ConfigError) as error:
            load_run_recipe(recipe.model_dir, ["decode.beam_size=7", override])
        key = override.partition("=")[0]
        assert str(error.value) == (
            f"--set {override}: of a trained run only data, decode, evaluate can be set, not {key}."
        )


def test_a_folder_whose_name_is_not_utf8_is_refused(tmp_path: Path) -> None:
    """Fault 44."""
    (tmp_path / "d\udce9").mkdir()
    (tmp_path / "d\udce9" / "recipe.yaml").write_text("name: x\n")
    for load in (load_recipe, load_run_recipe):
        with pytest.raises(ConfigError) as error:
            load(tmp_path / "d\udce9" / ("recipe.yaml" * (load is load_recipe)))
        assert str(error.value) == (
            f"'{tmp_path}/d\\xe9' is not UTF-8, so that no recipe can be used there: rename that folder."
        )


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(RunError) as error:
        load_run_recipe(tmp_path)
    assert str(error.value) == (
        f"'{tmp_path}' is not a run folder: there is no recipe.yaml in it ({tmp_path}/recipe.yaml)."
    )
