"""The commands on a tiny task: what goes to standard output, and what does not."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

import pytest
import yaml

import cli.export
import cli.score
import cli.translate
import mt.export
import mt.score
from cli.training import stoppable
from mt.recipe import load_recipe, load_run_recipe
from tests.cli.conftest import Call, shell
from tests.tiny import write_task


def test_run_prints_scores_and_samples(mt: Call, tmp_path: Path) -> None:
    called = mt("run", write_task(tmp_path), "--device", "cpu", "-o", "train.max_steps=2", "--workers", 1)
    assert called.code == 0
    assert "BLEU|nrefs:1|" in called.out
    assert "\n10 held-out samples\n\nsource       " in called.out
    assert called.out.count("\nreference    ") == called.out.count("\ntranslation  ") == 10
    assert called.err.startswith("Device: CPU, ")
    assert "validation at update 2: loss " in called.err
    assert f"\n{tmp_path}/run: train.max_steps 2 reached, update 2\n" in called.err
    assert "\r" not in called.err


def test_stages_one_by_one(mt: Call, tmp_path: Path) -> None:
    recipe = write_task(tmp_path)
    assert mt("prepare", recipe, "--workers", 1).out.startswith("60 of 60 pairs left\n")
    trained = mt("train", recipe, "--device", "cpu")
    assert trained.code == 0
    assert trained.out.startswith(f"{tmp_path}/run: ")
    fetched = mt("fetch", recipe)
    assert (fetched.code, fetched.out, fetched.err) == (0, "This recipe has nothing to fetch.\n", "")
    refused = mt("train", recipe, "--device", "cpu", "-o", "model.dim=32")
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.count("\n") >= 1


def test_a_promise_that_is_missed_is_exit_code_1(mt: Call, tiny_run: Path) -> None:
    promise = "evaluate.expect={held_out: {bleu: {value: 99}}}"
    called = mt("evaluate", tiny_run, "--device", "cpu", "-o", promise, "--check-expect")
    assert called.code == 1
    assert "held_out BLEU: expected 99, measured " in called.out
    assert mt("evaluate", tiny_run, "--device", "cpu", "-o", promise).code == 0


def test_a_promise_that_nobody_made_cannot_be_kept(mt: Call, tiny_run: Path, tmp_path: Path) -> None:
    """Refused before anything is done."""
    sentence = "evaluate.expect promises no score to compare with: promise one there, or leave --check-expect out.\n"
    called = mt("evaluate", tiny_run, "--device", "cpu", "--check-expect")
    assert (called.code, called.out) == (2, "")
    assert called.err.endswith(sentence)
    called = mt("run", write_task(tmp_path), "--device", "cpu", "--check-expect")
    assert (called.code, called.out) == (2, "")
    assert called.err.endswith(f"Error: {sentence}")
    assert not (tmp_path / "run").exists()


def test_a_missing_package_is_named_before_training(mt: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault 120."""
    monkeypatch.setattr("mt.scoring.tokenizers.find_spec", lambda _: None)
    called = mt("train", write_task(tmp_path), "--device", "cpu", "-o", "data.tgt_lang=ko")
    assert (called.code, called.out) == (2, "")
    assert called.err.split("\n")[1:] == [
        "Error: BLEU with the tokenizer ko-mecab needs an optional package: pip install 'mt-toolkit[ko]'.",
        "",
    ]
    assert not (tmp_path / "run").exists()


def test_json_is_all_there_is_on_standard_output(mt: Call, tiny_run: Path) -> None:
    """Fault 118."""
    called = mt("evaluate", tiny_run, "--json", "--device", "cpu")
    scores = json.loads(called.out)["tests"]["held_out"]["systems"][0]["scores"]
    assert set(scores) == {"bleu", "chrf"}


def test_files_are_scored_with_what_the_options_say(mt: Call, tmp_path: Path) -> None:
    for name, text in {
        "a": "the cat sat on the mat .\n",
        "b": "a cat sat\n",
        "ref": "The Cat sat on the mat .\n",
    }.items():
        (tmp_path / name).write_text(text)
    files = ("--hyp", tmp_path / "a", "--hyp", tmp_path / "b", "--ref", tmp_path / "ref")
    called = mt(
        "evaluate", *files, "--metric", "bleu", "--tokenize", "none", "--lowercase", "--paired", "none", "--json"
    )
    systems = json.loads(called.out)["tests"]["test"]["systems"]
    assert [system["name"] for system in systems] == ["a", "b"]
    assert systems[0]["scores"]["bleu"]["value"] == 100
    assert "|case:lc|" in systems[0]["scores"]["bleu"]["signature"]
    assert "|tok:none|" in systems[0]["scores"]["bleu"]["signature"]


def test_translations_alone_are_on_standard_output(tiny_run: Path) -> None:
    """Faults 15 and 118: three lines in, three lines out, whatever is said beside them; in a moved run (fault 121)."""
    source = b"one two\n\n" + b"six " * 30 + b"three"
    ended = shell("translate", tiny_run, "--set", "decode.max_source_length=5", "--threads", 1, stdin=source)
    assert ended.returncode == 0
    lines = ended.stdout.split(b"\n")
    assert (len(lines), lines[1], lines[3]) == (4, b"", b"")
    assert b"Device: CPU, 1 thread" in ended.stderr
    assert b"decode.max_source_length" in ended.stderr
    assert b"\r" not in ended.stderr


def test_translation_of_files(mt: Call, tiny_run: Path, tmp_path: Path) -> None:
    """Fault 121: a run that was moved translates without the text it was made of."""
    run = tmp_path / "moved run"
    shutil.copytree(tiny_run, run)
    (tmp_path / "in").write_text("one\ntwo three\n")
    options = ("-i", tmp_path / "in", "-o", tmp_path / "out", "--device", "cpu")
    called = mt("translate", run, *options, "--n-best", 2, "--beam-size", 3, "--format", "jsonl")
    assert (called.code, called.out) == (0, "")
    lines = (tmp_path / "out").read_text().split("\n")
    assert [json.loads(line)["source"] for line in lines[:2]] == ["one", "two three"]
    assert all(len(json.loads(line)["n_best"]) == 2 for line in lines[:2])
    refused = mt("translate", run, "--n-best", 5, "--device", "cpu")
    assert refused.err == ("Error: --set decode.n_best=5: decode.n_best (5) must not be above decode.beam_size (2).\n")


@pytest.mark.parametrize("link", [False, True])
def test_the_source_is_never_overwritten(mt: Call, tiny_run: Path, tmp_path: Path, link: bool) -> None:
    """Fault 119."""
    source = tmp_path / "a.txt"
    source.write_text("one\n")
    target = tmp_path / "link" if link else source
    if link:
        target.symlink_to(source)
    called = mt("translate", tiny_run, "-i", source, "-o", target)
    assert called.code == 2
    assert called.err.startswith(f"Error: {target} is the input {source} itself; ")
    assert source.read_text() == "one\n"


def test_an_output_that_cannot_be(mt: Call, tiny_run: Path, tmp_path: Path) -> None:
    """Fault 119: refused before the model is loaded."""
    assert "is a folder" in mt("translate", tiny_run, "-o", tmp_path).err


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (("translate", "{run}", "-i", "{run}/../test.en", "-o"), "out"),
        (("score", "{run}", "--src", "{run}/../test.en", "--tgt", "{run}/../test.de", "-o"), "out"),
        (("inspect", "attention", "{run}", "one two", "-o"), "out.html"),
        (("plot", "{run}", "-o"), "out.svg"),
        (("export", "{run}", "--to", "ctranslate2"), "out"),
    ],
)
def test_the_folders_of_an_output(
    mt: Call, tiny_run: Path, tmp_path: Path, command: tuple[str, ...], name: str
) -> None:
    """Faults 44 and 119: made where they are missing; a file in the way, or a folder that is closed, is named."""
    pytest.importorskip({"export": "ctranslate2", "plot": "matplotlib"}.get(command[0], "torch"))
    arguments = [argument.format(run=tiny_run) for argument in command]
    called = mt(*arguments, tmp_path / "my folder" / "é" / name)
    assert (called.code, (tmp_path / "my folder" / "é" / name).exists()) == (0, True), called.err
    (tmp_path / "file").write_bytes(b"")
    called = mt(*arguments, tmp_path / "file" / name)
    assert (called.code, called.err.split("\n")[-2]) == (
        2,
        f"Error: {tmp_path / 'file'} cannot be a folder: a file of that name is in the way.",
    )


def test_choices_that_are_spelled_out_are_those_of_the_library() -> None:
    """Its tables load torch, which the help can do without."""
    assert tuple(mt.export.ENGINES) == cli.export.ENGINES
    assert tuple(mt.score.FORMATS) == cli.score.FORMATS
    assert ("torch", *mt.export.ENGINES) == cli.translate.BACKENDS


@pytest.mark.parametrize("command", ["train", "run"])
def test_a_dry_run_prints_the_effective_recipe(mt: Call, tmp_path: Path, command: str) -> None:
    recipe = write_task(tmp_path)
    called = mt(command, recipe, "--dry-run", "-o", "train.lr=3e-4")
    assert called.code == 0
    assert yaml.safe_load(called.out)["train"]["lr"] == 0.0003
    (tmp_path / "effective.yaml").write_text(called.out)
    assert load_recipe(tmp_path / "effective.yaml") == load_recipe(recipe, ["train.lr=3e-4"])
    assert called.err.startswith("Parameters: ")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("command", ["train", "run"])
def test_a_dry_run_says_what_the_command_would_refuse(mt: Call, tmp_path: Path, command: str) -> None:
    recipe = write_task(tmp_path)
    (tmp_path / "file").write_bytes(b"")
    called = mt(command, recipe, "--dry-run", "-o", f"model_dir={tmp_path / 'file'}")
    assert called.code == 2
    assert yaml.safe_load(called.out)["name"]
    assert called.err.startswith("Parameters: ")
    assert called.err.endswith("it is a file, but must be a folder or absent.\n")


def test_a_dry_run_of_run_knows_what_is_to_be_expected(mt: Call, tmp_path: Path) -> None:
    called = mt("run", write_task(tmp_path), "--dry-run", "--check-expect")
    assert called.code == 2
    assert "promises no score" in called.err


def test_the_effective_recipe_is_saved_with_the_run(tiny_run: Path) -> None:
    """Fault 116."""
    assert load_run_recipe(tiny_run) == load_recipe(tiny_run.parent / "recipe.yaml")


@pytest.mark.parametrize(("first", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_the_first_signal_asks_and_the_second_interrupts(
    capfd: pytest.CaptureFixture[str], first: signal.Signals, code: int
) -> None:
    with stoppable() as signals:
        assert not signals.request()
        signal.raise_signal(first)
        assert signals.request()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signals.exit_code == code
    assert capfd.readouterr().err == "Stopping with a checkpoint; once more to stop at once.\n"


def test_before_training_a_signal_interrupts() -> None:
    with stoppable(), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
