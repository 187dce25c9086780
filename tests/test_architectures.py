"""The comparison of architectures: what is compared, what is concluded, and the whole of it on a task of seconds."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.architectures import command_of, main
from benchmarks.side_by_side.claims import CLAIMS, Claim, Found, better, keeps_order, more_on_long_sentences
from benchmarks.side_by_side.claims import trains_faster as faster
from benchmarks.side_by_side.models import MODELS, PREFIX, recipe_of
from benchmarks.side_by_side.results import Result, length_classes
from benchmarks.side_by_side.speed import FILE, Speeds, Turn
from mt.curves import RunLog
from mt.errors import MissingExtraError
from mt.models.presets import PRESETS
from mt.recipe import shipped_recipes
from mt.scoring.metrics import Scorer
from tests.tiny import write_task


def test_each_recipe_and_each_preset_of_that_size_is_compared() -> None:
    recipes = {name.removeprefix(PREFIX) for name in shipped_recipes() if name.startswith(PREFIX)}
    assert recipes == {model.recipe or name for name, model in MODELS.items()}
    compared = {recipe_of(name, Path("runs")).model.preset for name in MODELS}
    assert compared == set(PRESETS) - {"transformer_small", "transformer_base", "transformer_big"}


def test_models_share_all_but_themselves() -> None:
    recipes = [recipe_of(name, Path("runs"), ("seed=7",)) for name in MODELS]
    for recipe in recipes:
        assert (recipe.data, recipe.tokenizer, recipe.decode, recipe.seed) == (
            recipes[0].data,
            recipes[0].tokenizer,
            recipes[0].decode,
            7,
        )
    assert len({recipe.model_dir for recipe in recipes}) == len(MODELS)
    assert not recipe_of("seq2seq-lstm-forward", Path("runs")).model.encoder.reverse_source


def test_claims_are_about_models_that_are_compared() -> None:
    assert {name for claim in CLAIMS for name in (claim.first, claim.second)} <= set(MODELS)


LINES = [f"w{line} " + " ".join(f"a{word} b{word}" for word in range(2 + line // 20)) for line in range(60)]
LENGTHS = np.array([len(line.split()) for line in LINES])


def result(name: str, hypotheses: list[str]) -> Result:
    scorer = Scorer("bleu", [LINES], "none")
    statistics = scorer.statistics(hypotheses)
    recipe = recipe_of(name, Path("runs"))
    return Result(name, recipe, 1, RunLog(name, []), {"bleu": scorer.score(statistics)}, statistics, LENGTHS)


def found(first: list[str], second: list[str], speeds: Speeds | None = None) -> Found:
    return Found({"hybrid": result("hybrid", first), "gnmt": result("gnmt", second)}, speeds)


def cut(line: str) -> str:
    """Without its last words."""
    return " ".join(line.split()[:4])


def turned(line: str) -> str:
    """The right words backwards."""
    return " ".join(line.split()[::-1])


@pytest.mark.parametrize(
    ("judge", "first", "second", "verdict"),
    [
        (better, LINES, list(map(turned, LINES)), "shows"),
        (better, list(map(turned, LINES)), LINES, "the contrary shows"),
        (better, LINES, LINES, "undecided"),
        (keeps_order, LINES, list(map(turned, LINES)), "shows"),
        (keeps_order, LINES, list(map(cut, LINES)), "undecided"),
        (more_on_long_sentences, LINES, [line if len(line.split()) < 8 else turned(line) for line in LINES], "shows"),
        (
            more_on_long_sentences,
            [line if len(line.split()) < 8 else turned(line) for line in LINES],
            LINES,
            "the contrary shows",
        ),
    ],
)
def test_verdicts_follow_from_translations(judge: object, first: list[str], second: list[str], verdict: str) -> None:
    claim = Claim("It does", "1999", judge, "hybrid", "gnmt")  # type: ignore[arg-type]
    assert claim.finding(found(first, second)).verdict == verdict


@pytest.mark.parametrize(
    ("mine", "other", "verdict"),
    [
        ((2, 4), (1, 3), "shows"),
        ((1, 3), (2, 4), "the contrary shows"),
        ((1, 3), (2, 2), "undecided"),
        ((103, 120), (100, 100), "undecided"),
        ((100, 100), (103, 120), "undecided"),
    ],
)
def test_speeds_are_compared_round_by_round(mine: tuple[int, int], other: tuple[int, int], verdict: str) -> None:
    turns = {"hybrid": [Turn(value, 1) for value in mine], "gnmt": [Turn(value, 1) for value in other]}
    finding = faster(found(LINES, LINES, Speeds("here", turns)), "hybrid", "gnmt")
    assert finding.verdict == verdict
    assert faster(found(LINES, LINES), "hybrid", "gnmt").evidence == "speed was not measured"


def test_what_was_not_trained_is_not_judged() -> None:
    claim = Claim("It does", "1999", better, "hybrid", "rnnsearch")
    finding = claim.finding(found(LINES, LINES))
    assert (finding.verdict, finding.evidence) == ("not tested", "not trained: rnnsearch")


def test_classes_of_length_hold_each_sentence_once() -> None:
    classes = length_classes(np.array([1, 8, 9, 30, 18]))
    assert {name: chosen.nonzero()[0].tolist() for name, chosen in classes.items()} == {
        "1 to 8": [0, 1],
        "9 to 11": [2],
        "15 to 18": [4],
        "19+": [3],
    }


@pytest.mark.parametrize("given", [["--data", "data"], ["--data=data"]])
def test_the_page_names_no_folder_of_a_machine(given: list[str]) -> None:
    command = command_of(["--runs", "my/data", *given, "--only", "gnmt"])
    assert command == "python -m benchmarks.architectures --runs my/data --data FOLDER --only gnmt"


def settings(folder: Path) -> list[str]:
    """The tiny task in place of Multi30k."""
    write_task(folder)
    pairs = {part: f"{{src: {folder / part}.en, tgt: {folder / part}.de}}" for part in ("train", "valid", "test")}
    keys = {
        "data.train": f"[{pairs['train']}]",
        "data.valid": pairs["valid"],
        **{f"data.test.{name}": pairs["test"] for name in ("test_2016", "test_2017", "mscoco")},
        "data.download": "[]",
        "tokenizer": "{type: word, vocab_size: 20, shared: true, soft_vocab_limit: true}",
        "model.dim": 8,
        "train.batch_tokens": 100,
        "train.schedule.warmup": 1,
        "train.max_steps": 2,
        "train.valid_every": 2,
        "train.save_every": 2,
        "train.average.n": 1,
    }
    return [word for key, value in keys.items() for word in ("--set", f"{key}={value}")]


def test_the_extra_is_missed_before_anything_is_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"^Drawing the comparison needs an optional package: "):
        main(["--runs", str(tmp_path), "--data", str(tmp_path)])
    assert not list(tmp_path.iterdir())


def test_from_text_to_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra plots")
    common = ["--runs", str(tmp_path / "runs"), "--page", str(tmp_path / "page.md"), *settings(tmp_path)]
    common += ["--device", "cpu", "--updates", "1", "--lines", "2"]
    main([*common, "--only", "luong-global", "--rounds", "0"])
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert "| luong-global | " in page
    assert "20 shared pieces (word), batches of 100 tokens, schedule linear, beam 5, seed 1" in page
    assert "| **not tested** | not trained: seq2seq-lstm |" in page
    assert not (tmp_path / "runs" / FILE).exists()

    capsys.readouterr()
    main([*common, "--only", "luong-global,luong-local", "--rounds", "1"])
    said = capsys.readouterr().err
    assert said.count("is up to date") == 3  # what is prepared, for both, and the training of the first
    assert said.count("are up to date") == 3  # translations of the first
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert "luong-local translated " in page
    assert "Not trained: seq2seq-lstm, seq2seq-lstm-forward, " in page
    assert "![BLEU by the length of the source](page/lengths.svg)" in page
    assert {path.name for path in (tmp_path / "page").iterdir()} == {"lengths.svg", "curves.svg"}
    measured = json.loads((tmp_path / "runs" / FILE).read_text())
    assert set(measured["turns"]) == {"luong-global", "luong-local"}
