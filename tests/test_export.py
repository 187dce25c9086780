"""`mt export`: checked before it says done, and nothing left where it fails."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path

import pytest
from torch import Tensor

from mt.data.config import DataConfig, ParallelText
from mt.errors import BusyError, ConfigError, MissingExtraError, RunError
from mt.events import Event, Notice, finish
from mt.export import Exported, export, exported, load_exported
from mt.interop import ctranslate2, ctranslate2_model
from mt.nn.sinusoids import sinusoids
from mt.recipe import Recipe, load_run_recipe
from mt.search.config import DecodeConfig, LengthPenaltyConfig
from mt.text.files import read_json, write_json
from mt.text.folders import locked
from tests.cli.conftest import Call, mt  # noqa: F401 - a fixture
from tests.translators import run_folder

DATA = DataConfig("en", "de", (ParallelText(Path("a"), Path("b")),))
needs_engine = pytest.mark.usefixtures("engine")


@pytest.fixture
def engine() -> None:
    pytest.importorskip("ctranslate2", reason="the extra ctranslate2 is not installed")


@pytest.fixture
def run(tmp_path: Path) -> Recipe:
    return run_folder(tmp_path / "run", DATA, DecodeConfig(beam_size=3, max_length=9))


@needs_engine
def test_an_export_holds_tokenizer_and_settings(run: Recipe, tmp_path: Path) -> None:
    done = finish(export(run.model_dir, tmp_path / "out", sentences=6))
    assert (done.folder, done.sentences) == (tmp_path / "out", 6)
    assert done.difference < 1e-5
    assert load_run_recipe(done.folder).decode == run.decode
    assert {path.name for path in done.folder.iterdir()} >= {"model.bin", "tokenizer", "recipe.yaml", "export.json"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "run"]


def _concatenated(length: int, dim: int, base: float) -> Tensor:
    table = sinusoids(length, dim, base)
    return table.view(length, -1, 2).transpose(1, 2).reshape(length, dim)


@needs_engine
def test_another_function_fails_the_check_and_leaves_nothing(
    run: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Faults 111 and 112: the same shapes, another layout of the sinusoids."""
    monkeypatch.setattr(ctranslate2_model, "sinusoids", _concatenated)
    with pytest.raises(RunError) as error:
        finish(export(run.model_dir, tmp_path / "out"))
    assert str(error.value).startswith(
        "The exported model does not compute what this one does: the log-probability of a piece differs by "
    )
    assert str(error.value).endswith("; nothing was written. Please report this with the recipe.")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@needs_engine
def test_other_pieces_fail_the_check(run: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search = ctranslate2.CTranslate2Engine.search

    def wrong(self: ctranslate2.CTranslate2Engine, *arguments: object) -> object:
        found = search(self, *arguments)  # type: ignore[arg-type]
        return [[replace(one[0], tokens=(4, *one[0].tokens))] for one in found]

    monkeypatch.setattr(ctranslate2.CTranslate2Engine, "search", wrong)
    with pytest.raises(RunError, match=r"does not translate as this one does: sentence 1 of 8 differs; nothing was"):
        finish(export(run.model_dir, tmp_path / "out", sentences=8))
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@needs_engine
def test_a_run_is_converted_once_and_again_when_it_changed(run: Recipe) -> None:
    folder = finish(exported(run.model_dir))
    assert folder == run.model_dir / "ctranslate2"
    first = (folder / "export.json").stat().st_mtime_ns
    assert finish(exported(run.model_dir)) == folder
    assert finish(exported(folder)) == folder
    assert (folder / "export.json").stat().st_mtime_ns == first
    for note in ('{"weights": "others"}', '{"files": 3}', "[]", "{"):
        (folder / "export.json").write_text(note)
        finish(exported(run.model_dir))
        assert read_json(folder / "export.json")["files"]


def test_an_exported_model_is_named_where_a_run_is_wanted(
    mt: Call,  # noqa: F811
    run: Recipe,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ctranslate2, "find_spec", lambda _: True)
    run.model_dir.joinpath("model.safetensors").unlink()
    write_json(run.model_dir / "export.json", {})
    out = run.model_dir
    text = tmp_path / "text"
    text.write_text("a\n")
    for command in (
        ("translate", out, "-i", text),
        ("translate", out, "-i", text, "--checkpoint", "best"),
        ("translate", out, "-i", text, "--workers", 2),
        ("score", out, "--src", text, "--tgt", text),
        ("export", out, "--to", "ctranslate2", tmp_path / "again"),
    ):
        called = mt(*command)
        assert called.code == 2
        assert called.err.endswith(
            f"Error: {out} holds a model that was exported for CTranslate2: only mt translate with --backend "
            "ctranslate2 reads it; for all else name the run that it was made of.\n"
        )
    with pytest.raises(RunError) as error:
        finish(exported(out, "best"))
    assert str(error.value) == f"{out} holds an exported model, which has no checkpoints: leave best out."


DAMAGES: dict[str, tuple[str, Callable[[bytes], bytes], str]] = {
    "torn": ("model.bin", lambda data: data[:100], "{} is damaged: model.bin has 100 bytes, but had {}."),
    "changed": (
        "model.bin",
        lambda data: data[:-1] + b"x",
        "{} is damaged: model.bin was changed after it was written.",
    ),
    "vocabulary": (
        "target_vocabulary.json",
        lambda data: data.replace(b"a", b"b"),
        "{} is damaged: target_vocabulary.json was changed after it was written.",
    ),
}


@needs_engine
@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_export_is_refused_and_a_runs_own_is_made_again(run: Recipe, tmp_path: Path, name: str) -> None:
    """Faults 60 and 107: every file is compared with its checksum."""
    file, damaged, sentence = DAMAGES[name]
    finish(export(run.model_dir, tmp_path / "out", sentences=2))
    whole = (tmp_path / "out" / file).read_bytes()
    (tmp_path / "out" / file).write_bytes(damaged(whole))
    with pytest.raises(RunError) as error:
        finish(load_exported(tmp_path / "out"))
    said = sentence.format(tmp_path / "out", len(whole))
    assert str(error.value) == f"{said} Export the model again: mt export RUN --to ctranslate2 {tmp_path / 'out'}."

    own = finish(exported(run.model_dir))
    (own / file).write_bytes(damaged((own / file).read_bytes()))
    events: list[Event] = []
    finish(exported(run.model_dir), events.append)
    assert Notice(f"{sentence.format(own, len(whole))} Converting the model to {own}.") in events
    assert (own / file).read_bytes() == whole


@needs_engine
def test_the_decode_block_of_an_export_may_be_edited(run: Recipe, tmp_path: Path) -> None:
    finish(export(run.model_dir, tmp_path / "out", sentences=2))
    recipe = tmp_path / "out" / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("beam_size: 3", "beam_size: 2"))
    assert finish(load_exported(tmp_path / "out")).config.beam_size == 2


def test_without_the_package_the_extra_is_named(run: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault 120."""
    monkeypatch.setattr(ctranslate2, "find_spec", lambda _: None)
    with pytest.raises(MissingExtraError) as error:
        finish(export(run.model_dir, tmp_path / "out"))
    assert str(error.value) == "CTranslate2 needs an optional package: pip install 'mt-toolkit[ctranslate2]'."


def test_settings_that_the_engine_cannot_follow_are_refused(tmp_path: Path) -> None:
    decode = DecodeConfig(length_penalty=LengthPenaltyConfig("wu"))
    run = run_folder(tmp_path / "run", DATA, decode)
    with pytest.raises(ConfigError, match=r"^decode\.length_penalty\.kind is wu, which cannot be run by CTranslate2"):
        finish(export(run.model_dir, tmp_path / "out"))


@needs_engine
def test_the_command_says_how_it_compares(mt: Call, run: Recipe, tmp_path: Path) -> None:  # noqa: F811
    called = mt("export", run.model_dir, "--to", "ctranslate2", tmp_path / "out", "--sentences", 4)
    assert called.code == 0
    assert called.out.startswith(f"{tmp_path / 'out'}: 4 sentences translated alike, log-probabilities equal to ")


@needs_engine
def test_the_backend_translates_as_torch_does(mt: Call, run: Recipe, tmp_path: Path) -> None:  # noqa: F811
    source = tmp_path / "source"
    source.write_text("a b c\n\n0 1 2 3 4\n")
    greedy = ("--beam-size", 1, "--device", "cpu")
    expected = mt("translate", run.model_dir, "-i", source, *greedy)
    assert expected.code == 0
    for folder in (run.model_dir, run.model_dir / "ctranslate2"):
        called = mt("translate", folder, "-i", source, "--backend", "ctranslate2", *greedy, "--workers", 2)
        assert (called.code, called.out) == (0, expected.out), called.err


@needs_engine
def test_what_one_line_asks_in_vain_of_the_backend_is_its_error(mt: Call, run: Recipe, tmp_path: Path) -> None:  # noqa: F811
    """Fault 86."""
    wishes: list[dict[str, object]] = [
        {},
        {"banned": "a"},
        {"options": {"search": "sample"}},
        {"options": {"n_best": 2}},
    ]
    (tmp_path / "in").write_text("".join(json.dumps({"text": "a b", **wish}) + "\n" for wish in wishes))
    formats = ("--input-format", "jsonl", "--format", "jsonl", "--backend", "ctranslate2", "--device", "cpu")
    called = mt("translate", run.model_dir, "-i", tmp_path / "in", *formats)
    assert called.code == 0
    found = [json.loads(line) for line in called.out.splitlines()]
    assert [one.get("error") for one in found] == [
        None,
        "A prefix, constraints and banned phrases are not there with CTranslate2: translate without --backend "
        "ctranslate2.",
        "decode.search is sample, which cannot be run by CTranslate2: with it decode.search must be beam. Translate "
        "without it.",
        None,
    ]
    assert [bool(one["translation"]) for one in found] == [True, False, False, True]


def test_what_the_backend_cannot_do_is_refused_before_anything_is_converted(mt: Call, run: Recipe) -> None:  # noqa: F811
    called = mt("translate", run.model_dir, "--backend", "ctranslate2", "--set", "decode.search=greedy")
    assert called.code == 2
    assert (
        "Error: decode.search is greedy, which cannot be run by CTranslate2: with it decode.search must be beam."
        in (called.err)
    )
    assert not (run.model_dir / "ctranslate2").exists()
    for options in (("--ensemble", run.model_dir), ("--alignments", "--format", "jsonl"), ("--ban", "a")):
        called = mt("translate", run.model_dir, "--backend", "ctranslate2", *options)
        assert "--ensemble, --alignments, --prefix, --constraint and --ban are for the backend torch" in called.err


@needs_engine
def test_who_finds_it_being_converted_waits(run: Recipe) -> None:
    """As several processes of torchrun do, which begin at once."""
    folder = run.model_dir / "ctranslate2"
    work = exported(run.model_dir)
    with locked(folder, "mt export"):
        assert [next(work), next(work)] == [
            Notice(f"Converting the model to {folder}."),
            Notice(f"Another process is converting it to {folder}: waiting until it has ended."),
        ]
    assert finish(work) == folder
    assert finish(exported(run.model_dir)) == folder


@needs_engine
def test_what_another_process_has_converted_is_not_converted_again(
    run: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of_another(own: Path, out: Path, checkpoint: str | None) -> Generator[Event, None, Exported]:
        monkeypatch.undo()
        yield from export(own, out, checkpoint=checkpoint)
        raise BusyError

    monkeypatch.setattr("mt.export.export", of_another)
    folder = run.model_dir / "ctranslate2"
    notices: list[Event] = []
    assert finish(exported(run.model_dir), notices.append) == folder
    assert [notice for notice in notices if isinstance(notice, Notice)] == [
        Notice(f"Converting the model to {folder}."),
        Notice(f"Another process is converting it to {folder}: waiting until it has ended."),
    ]
