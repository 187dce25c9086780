"""The command `mt` as a whole: help, errors in one sentence, exit codes, standard streams."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

import cli.main
from cli.main import COMMANDS
from mt.errors import DataError
from tests.cli.conftest import ROOT, Call, shell
from tests.tiny import RECIPE, write_task


def command(name: str) -> click.Command:
    found = cli.main.mt.get_command(click.Context(cli.main.mt), name)
    assert found is not None
    return found


def test_help_names_all_commands(mt: Call) -> None:
    called = mt("--help")
    assert called.code == 0
    assert mt() == called
    assert all(f"\n  {name} " in called.out for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_explains_itself(mt: Call, name: str) -> None:
    """What it does, an example, and each option."""
    called = mt(name, "-h")
    assert called.code == 0
    assert "Example" in called.out
    assert f"      mt {name} " in called.out or f"| mt {name}" in called.out
    assert all(option.help for option in command(name).params if isinstance(option, click.Option))


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_called_as_it_is_listed(name: str) -> None:
    assert command(name).name == name


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["trian"], "No such command 'trian'; did you mean train? (mt --help shows the options)."),
        (["xyzzy"], "No such command 'xyzzy' (mt --help shows the options)."),
        (["train"], "Missing argument 'RECIPE' (mt train --help shows the options)."),
        (["translate", "run", "--beam-size", "0"],
         "Invalid value for '--beam-size': 0 is not in the range x>=1 (mt translate --help shows the options)."),
        (["evaluate"], "give a run folder, or --hyp and --ref (mt evaluate --help shows the options)."),
        (["evaluate", "run", "--hyp", "a"],
         "give a run folder, or --hyp and --ref (mt evaluate --help shows the options)."),
        (["evaluate", "run", "--ref", "a"],
         "--ref and --tgt-lang go with --hyp; a run's recipe names its own (mt evaluate --help shows the options)."),
        (["evaluate", "--hyp", "a", "--check-expect"],
         "--check-expect and --checkpoint go with a run folder (mt evaluate --help shows the options)."),
        (["evaluate", "--hyp", "a", "--ref", "b", "--device", "cpu"],
         "--device and --threads go with a run folder; nothing is computed with --hyp (mt evaluate --help shows the "
         "options)."),
        (["evaluate", "--hyp", "a", "--ref", "b", "--threads", "1"],
         "--device and --threads go with a run folder; nothing is computed with --hyp (mt evaluate --help shows the "
         "options)."),
        (["evaluate", "--hyp", "a", "--ref", "b", "--paired", "bootstrap"],
         "--paired bootstrap compares systems with the first; give --hyp at least twice (mt evaluate --help shows the "
         "options)."),
        (["evaluate", "run", "--paired", "randomization"],
         "--paired randomization compares systems with the first; give --hyp at least twice (mt evaluate --help shows "
         "the options)."),
        (["evaluate", "--hyp", "a", "--ref", "b", "-o", "evaluate.expect.test.bleu.value=9"],
         "-o evaluate.expect.test.bleu.value=9: evaluate.expect is of the test sets of a run: give the run folder, "
         "with --check-expect, in place of files."),
        (["export", "run", "out"],
         "Missing option '--to'. Choose from: ctranslate2 (mt export --help shows the options)."),
        (["translate", "run", "--prefix", "caf\udce9"],
         "'caf\\xe9' is not UTF-8: convert the text, or rename the file."),
        (["plot", "run\udce9"], "'run\\xe9' is not UTF-8: convert the text, or rename the file."),
        (["prepare", "absent.yaml"], "There is no file 'absent.yaml' ({here}/absent.yaml)."),
        (["translate", "absent"],
         "'absent' is not a run folder: there is nothing of that name ({here}/absent/recipe.yaml)."),
        (["evaluate", "--hyp", "a", "--ref", "b", "-o", "train.lr=1"],
         "-o train.lr=1: unknown key train; known here: evaluate."),
    ],
)  # fmt: skip
def test_wrong_usage_is_one_sentence(
    mt: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], sentence: str
) -> None:
    """Fault 116: refused before anything is loaded, with exit code 2."""
    monkeypatch.chdir(tmp_path)
    called = mt(*arguments)
    assert (called.code, called.out, called.err) == (2, "", f"Error: {sentence.format(here=tmp_path)}\n")


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["decode.beam_size=0"], "-o decode.beam_size=0: decode.beam_size must be at least 1, but is 0."),
        (["decode.n_best=5", "decode.beam_size=4"],
         "-o decode.n_best=5: decode.n_best (5) must not be above decode.beam_size (4)."),
        (["decode.length_penalty.kind=none", "decode.length_penalty.alpha=0.6"],
         "-o decode.length_penalty.alpha=0.6: decode.length_penalty.alpha 0.6 belongs to decode.length_penalty.kind "
         "average or wu, but that is none: change decode.length_penalty.kind, or leave decode.length_penalty.alpha "
         "out."),
        (["model.dim=10", "model.heads=4"], "-o model.dim=10: model.dim (10) must be a multiple of model.heads (4)."),
        (["model.dropout=1.5"], "-o model.dropout=1.5: model.dropout must be at least 0 and below 1, but is 1.5."),
        (["train.label_smoothing=1"],
         "-o train.label_smoothing=1: train.label_smoothing must be at least 0 and below 1, but is 1."),
        (["tokenizer.vocab_size=-1"],
         "-o tokenizer.vocab_size=-1: tokenizer.vocab_size must be at least 5, but is -1."),
        (["seed=9223372036854775808"],
         "-o seed=9223372036854775808: seed must be at least 0 and at most 4294967295, but is 9223372036854775808."),
        (["name=''"], "-o name='': name must be a text that is not blank, but is the quoted text \"\"."),
        (["model_dir=''"], "-o model_dir='': model_dir must be a path, but is the quoted text \"\"."),
        (["data.test.held_out.src=''"],
         "-o data.test.held_out.src='': data.test.held_out.src must be a path, but is the quoted text \"\"."),
        (["tokenizer.vocab_size=4"], "-o tokenizer.vocab_size=4: tokenizer.vocab_size must be at least 5, but is 4."),
        (
            ["train.batch_tokens=0"],
            "-o train.batch_tokens=0: train.batch_tokens: '0' is no budget; write a whole number of tokens, at least "
            "1, or auto.",
        ),
        (["tokenizer.alpha=0.1"],
         "-o tokenizer.alpha=0.1: tokenizer.alpha 0.1 belongs to tokenizer.type unigram, but that is word: change "
         "tokenizer.type, or leave tokenizer.alpha out."),
    ],
)  # fmt: skip
def test_settings_out_of_range_are_refused_at_once(
    mt: Call, tmp_path: Path, overrides: list[str], sentence: str
) -> None:
    """Fault 116."""
    recipe = write_task(tmp_path)
    called = mt("train", recipe, *(text for override in overrides for text in ("-o", override)))
    assert (called.code, called.out, called.err) == (2, "", f"Error: {sentence}\n")


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (DataError("The text is wrong."), 2, "Error: The text is wrong.\n"),
        (KeyboardInterrupt(), 130, "Interrupted. What was downloaded stays; the same command goes on from there.\n"),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), 1, ""),
        (OSError(errno.ENOSPC, "No space left on device", "a/b"), 2,
         "Error: a/b: No space left on device; make room and run the command again.\n"),
        (PermissionError(errno.EACCES, "Permission denied", "a/b"), 2, "Error: a/b: Permission denied.\n"),
        (OSError("something odd"), 2, "Error: something odd.\n"),
    ],
)  # fmt: skip
def test_each_error_has_its_line_and_code(
    mt: Call, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, said: str
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("mt.recipe.load_recipe", fail)
    called = mt("fetch", "quickstart")
    assert (called.code, called.out, called.err.strip("\n")) == (code, "", said.strip("\n"))


@pytest.mark.parametrize("name", COMMANDS)
def test_an_interrupt_says_what_is_true_of_the_command(mt: Call, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli.main.mt, "main", interrupted)
    called = mt(name)
    assert (called.code, called.out) == (130, "")
    assert called.err.startswith("Interrupted. ")
    assert ("goes on from" in called.err) == (name in ("run", "fetch", "train", "translate"))


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="this system has no SIGHUP")
def test_signals_are_afterwards_as_before(mt: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is ignored, as with nohup, stays so."""
    during = []

    def look(_: object) -> int:
        during.extend([signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGHUP)])
        return 0

    monkeypatch.setattr("cli.main._guarded", look)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        mt("--version")
        after = signal.getsignal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert callable(during[0])
    assert during[1] == after == signal.SIG_IGN
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_fault_of_the_project_is_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("mt.recipe.load_recipe", fail)
    with pytest.raises(ZeroDivisionError):
        cli.main.main(["fetch", "quickstart"])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_behind_standard_output() -> None:
    """What cannot be written is an error, never lost in silence."""
    code = "import sys; from cli.main import main; main(['evaluate', '--help'])"
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run([sys.executable, "-c", code], stdout=full, stderr=subprocess.PIPE, cwd=ROOT, check=False)
    assert ended.returncode == 2
    assert ended.stderr == b"Error: No space left on device; make room and run the command again.\n"


@pytest.mark.parametrize("arguments", [["--help"], ["evaluate", "--hyp", "a", "--ref", "a"]])
def test_a_closed_standard_output_is_refused_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    """Fault 90."""
    monkeypatch.setattr("sys.stdout", None)
    with pytest.raises(SystemExit) as end:
        cli.main.main(arguments)
    assert end.value.code == 2
    assert capsys.readouterr().err == (
        "Error: standard output is closed; send it to a file, or to /dev/null to do without.\n"
    )


def test_a_reader_that_goes_away_is_met_quietly() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(
        [sys.executable, "-m", "mt", "--help"], stdout=writing, stderr=subprocess.PIPE, cwd=ROOT, check=False
    )
    os.close(writing)
    assert ended.returncode == 1
    assert ended.stderr == b""


@pytest.mark.parametrize(
    "environment",
    [
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "latin-1"},
    ],
)
def test_text_and_names_are_utf8_in_every_locale(tmp_path: Path, environment: dict[str, str]) -> None:
    """Fault 18; fault 44: file names beyond ASCII."""
    folder = tmp_path / "données (1)"
    write_task(folder)
    for name, text in {"hyp 1.txt": "le café est là.\n", "réf.txt": "le café est ici.\n"}.items():
        (folder / name).write_text(text, encoding="utf-8")
    arguments = ("evaluate", "--hyp", folder / "hyp 1.txt", "--ref", folder / "réf.txt", "--metric", "chrf")
    ended = shell(*arguments, environment=environment)
    assert (ended.returncode, ended.stderr) == (0, b"")
    plain = shell(*arguments, environment={"LC_ALL": "C.UTF-8"})
    assert ended.stdout == plain.stdout
    recipe = folder / "récipe.yaml"
    recipe.write_text(RECIPE.replace("src: train.en", "src: né.en"), encoding="utf-8")
    wrong = shell("prepare", recipe, environment=environment)
    assert wrong.returncode == 2
    assert wrong.stderr.decode() == (
        f"Error: {recipe}, line 7: data.train.0.src: 'né.en' ({folder}/né.en): there is no such file.\n"
    )
