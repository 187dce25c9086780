"""Evaluation of files: what is read, refused, noticed and reported."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest

from mt.data.config import DataConfig, TestSet
from mt.errors import ConfigError, DataError, MissingExtraError
from mt.evaluate import evaluate_files, evaluate_run, expectations
from mt.events import Event, Notice, Progress, finish
from mt.recipe import Recipe
from mt.scoring.config import EvaluateConfig, Expected
from mt.scoring.report import Evaluation, Expectation, table
from mt.training.config import TrainConfig

MAT = "the cat sat on the mat"
PARK = "there is a dog in the park"
GARDEN = "there is a dog in the garden"


def written(path: Path, data: bytes | Sequence[str]) -> Path:
    path.write_bytes(data if isinstance(data, bytes) else "".join(f"{line}\n" for line in data).encode())
    return path


def evaluate(
    hypotheses: Path | Sequence[Path], references: Path | Sequence[Path], config: EvaluateConfig | None = None
) -> tuple[Evaluation, list[str]]:
    """The evaluation, and its notices."""
    hyps = [hypotheses] if isinstance(hypotheses, Path) else hypotheses
    refs = [references] if isinstance(references, Path) else references
    notices: list[str] = []
    events = evaluate_files(hyps, refs, config, "en")
    found = finish(events, lambda event: notices.append(event.text) if isinstance(event, Notice) else None)
    return found, notices


def value(evaluation: Evaluation, metric: str = "bleu", system: int = 0) -> float:
    return evaluation.tests[0].systems[system].score(metric).value


@pytest.fixture
def ref(tmp_path: Path) -> Path:
    return written(tmp_path / "ref.en", [MAT, GARDEN])


@pytest.fixture
def hyp(tmp_path: Path) -> Path:
    return written(tmp_path / "hyp.en", [MAT, PARK])


def test_all_metrics(hyp: Path, ref: Path) -> None:
    """Fault 105."""
    found, notices = evaluate(hyp, ref, EvaluateConfig(metrics=("bleu", "chrf", "chrf++", "ter")))
    values = [score.value for score in found.tests[0].systems[0].scores]
    assert values == pytest.approx([89.4204, 84.4774, 86.2699, 7.6923], abs=1e-4)
    assert notices == []


def test_progress_ends_at_its_total(hyp: Path, ref: Path) -> None:
    events = list(evaluate_files([hyp], [ref]))
    progress = [event for event in events if isinstance(event, Progress)]
    assert [event.done for event in progress] == [0, 1, 2]
    assert {event.total for event in progress} == {2}


def test_lone_carriage_return_is_no_line_end(tmp_path: Path) -> None:
    """Fault 2."""
    hyp = written(tmp_path / "hyp", b"a b c d e\rf g h i j\nx y z w v\r\n")
    ref = written(tmp_path / "ref", b"a b c d e f g h i j\nx y z w v\n")
    found, _ = evaluate(hyp, ref)
    assert found.tests[0].lines == 2
    assert value(found) == 100.0
    assert "hyp_len = 15 ref_len = 15" in found.tests[0].systems[0].scores[0].details


@pytest.mark.parametrize(
    "data",
    [
        f"{MAT}\r\n{PARK}\r\n".encode(),
        f"{MAT}\n{PARK}".encode(),
        b"\xef\xbb\xbf" + f"{MAT}\n{PARK}\n".encode(),
        gzip.compress(f"{MAT}\n{PARK}\n".encode()),
        gzip.compress(f"{MAT}\n".encode()) + gzip.compress(f"{PARK}\n".encode()),
    ],
    ids=["crlf", "no final line end", "byte order mark", "gzip", "gzip of two members"],
)
def test_same_text_same_score(data: bytes, tmp_path: Path, ref: Path) -> None:
    """Faults 3, 15 and 19."""
    found, _ = evaluate(written(tmp_path / "hyp", data), ref)
    assert value(found) == pytest.approx(89.4204, abs=1e-4)


@pytest.mark.parametrize("separator", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028"])
def test_other_separators_are_no_line_ends(separator: str, tmp_path: Path) -> None:
    """Fault 2's kind."""
    lines = [f"the cat{separator}sat on the mat", PARK]
    found, _ = evaluate(written(tmp_path / "hyp", lines), written(tmp_path / "ref", [MAT, PARK]))
    assert found.tests[0].lines == 2


@pytest.mark.parametrize("lines", [[MAT], [MAT, PARK, ""]])
def test_unequal_lengths_are_refused(lines: list[str], tmp_path: Path, ref: Path) -> None:
    """Faults 14 and 95."""
    hyp = written(tmp_path / "hyp.en", lines)
    count = "1 line" if len(lines) == 1 else "3 lines"
    message = f"hyp.en has {count}, but ref.en has 2 lines: line k of one must belong to line k of the other."
    with pytest.raises(DataError) as caught:
        evaluate(hyp, ref)
    assert str(caught.value) == message
    with pytest.raises(DataError) as caught:
        evaluate(ref, [ref, hyp])
    assert str(caught.value) == message


def test_nothing_to_score(tmp_path: Path, ref: Path) -> None:
    empty = written(tmp_path / "empty.en", b"")
    with pytest.raises(DataError, match=r"^empty\.en has no lines: there is nothing to score\.$"):
        evaluate(empty, empty)
    with pytest.raises(DataError, match=r"^empty\.en has 0 lines, but ref\.en has 2 lines: "):
        evaluate(empty, ref)
    with pytest.raises(ConfigError, match=r"^Evaluation needs at least one file of translations and one file of ref"):
        evaluate([], ref)


def test_files_that_cannot_be_read(tmp_path: Path, ref: Path) -> None:
    """Faults 17 and 120."""
    with pytest.raises(DataError, match=r"absent\.en"):
        evaluate(tmp_path / "absent.en", ref)
    with pytest.raises(DataError, match=r"bad\.en, line 2, byte offset 4"):
        evaluate(written(tmp_path / "bad.en", b"yes\n\xff\n"), ref)


def test_empty_lines(tmp_path: Path) -> None:
    """Faults 97 and 98."""
    full, half = written(tmp_path / "full", [MAT, PARK]), written(tmp_path / "half", [MAT, ""])
    found, notices = evaluate(half, full)
    assert value(found) == pytest.approx(31.1403, abs=1e-4)
    assert notices == []
    _, notices = evaluate(full, half)
    assert notices == ["half has empty lines (line 2); nothing matches an empty reference."]


def test_all_empty(tmp_path: Path, ref: Path) -> None:
    """Fault 97."""
    found, notices = evaluate(
        written(tmp_path / "none", ["", ""]), ref, EvaluateConfig(metrics=("bleu", "chrf", "ter"), confidence=50)
    )
    assert [score.value for score in found.tests[0].systems[0].scores] == [0.0, 0.0, 100.0]
    assert notices == ["none: every line is empty."]


def test_tokenised_hypothesis_is_noticed(tmp_path: Path) -> None:
    """Fault 93."""
    ref = written(tmp_path / "ref", ["I don't know, said the man."])
    found, notices = evaluate(written(tmp_path / "hyp", ["I do n't know , said the man ."]), ref)
    assert value(found) == pytest.approx(61.0474, abs=1e-4)
    assert notices[0].startswith("hyp looks tokenised (line 1: 'I do n't know , said the man .')")


def test_tokenizer_follows_the_language(tmp_path: Path) -> None:
    """Fault 94."""
    hyp = written(tmp_path / "hyp", ["我今天去学校。", "他喜欢吃苹果。"])
    ref = written(tmp_path / "ref", ["我今天去了学校。", "他喜欢吃香蕉。"])
    score = finish(evaluate_files([hyp], [ref], tgt_lang="zh")).tests[0].systems[0].score("bleu")
    assert score.value == pytest.approx(48.1334, abs=1e-4)
    assert "|tok:zh|" in score.signature
    score = (
        finish(evaluate_files([hyp], [ref], EvaluateConfig(tokenize="char"), "zh")).tests[0].systems[0].score("bleu")
    )
    assert "|tok:char|" in score.signature


def test_missing_mecab_is_found_before_a_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Faults 94 and 120."""
    monkeypatch.setitem(sys.modules, "MeCab", None)
    with pytest.raises(MissingExtraError):
        next(evaluate_files([tmp_path / "absent"], [tmp_path / "absent"], tgt_lang="ja"))
    text = written(tmp_path / "text", ["私は東京へ行きます。"])
    found = finish(evaluate_files([text], [text], EvaluateConfig(metrics=("chrf",)), "ja"))
    assert value(found, "chrf") == 100.0


def test_several_references(tmp_path: Path) -> None:
    """Fault 95."""
    hyp = written(tmp_path / "hyp", ["the dog bit the man", "it was not surprising"])
    first = written(tmp_path / "r1", ["the dog bit the man", "it was not unexpected"])
    second = written(tmp_path / "r2", ["the dog had bitten the man", "it was not surprising"])
    assert value(evaluate(hyp, first)[0]) == pytest.approx(79.8408, abs=1e-4)
    assert value(evaluate(hyp, second)[0]) == pytest.approx(48.2680, abs=1e-4)
    assert value(evaluate(hyp, [first, second])[0]) == 100.0


def test_a_system_against_itself(hyp: Path, ref: Path) -> None:
    """Fault 104."""
    for paired in ("bootstrap", "randomization"):
        found, _ = evaluate([hyp, hyp], ref, EvaluateConfig(metrics=("bleu", "chrf", "ter"), paired=paired))
        assert [one.p_value for one in found.tests[0].systems[1].comparisons] == [1.0, 1.0, 1.0]
        assert [one.difference for one in found.tests[0].systems[1].comparisons] == [0.0, 0.0, 0.0]
        assert found.tests[0].systems[0].comparisons == ()


@pytest.mark.parametrize(("paired", "key"), [("bootstrap", "bs"), ("randomization", "ar")])
def test_two_systems(paired: str, key: str, tmp_path: Path) -> None:
    """Fault 104."""
    lines = [f"sentence number {number} of the reference text" for number in range(30)]
    ref = written(tmp_path / "ref", lines)
    good = written(tmp_path / "good", [*lines[:28], "something else", "wrong"])
    bad = written(tmp_path / "bad", [f"a line {number} of another text" for number in range(30)])
    config = EvaluateConfig(metrics=("bleu", "ter"), paired=paired, seed=3)
    first, second = evaluate([good, bad], ref, config)[0], evaluate([good, bad], ref, config)[0]
    assert first == second
    bleu, ter = first.tests[0].systems[1].comparisons
    assert bleu.difference < 0 < ter.difference
    assert bleu.p_value == ter.p_value == pytest.approx(1 / 1001)
    assert f"|{key}:1000|seed:3|" in bleu.signature
    assert first.tests[0].paired == f"paired {paired}, 1000 trials, seed 3"
    without, _ = evaluate([good, bad], ref, EvaluateConfig(paired="none"))
    assert without.tests[0].systems[1].comparisons == ()
    assert without.tests[0].paired == ""


def test_systems_of_one_name_are_told_apart(tmp_path: Path, ref: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        written(tmp_path / folder / "out.en", [MAT, PARK])
    found, _ = evaluate([tmp_path / "a" / "out.en", tmp_path / "b" / "out.en"], ref)
    assert [system.name for system in found.tests[0].systems] == [
        str(tmp_path / "a/out.en"),
        str(tmp_path / "b/out.en"),
    ]


def test_table_and_json(tmp_path: Path, hyp: Path, ref: Path) -> None:
    """Faults 101 and 106: two decimals for people, four in JSON, and the signature in both."""
    same = written(tmp_path / "same.en", [MAT, GARDEN])
    found, _ = evaluate([same, hyp], ref, EvaluateConfig(metrics=("bleu", "ter"), confidence=100))
    text = table(found)
    rows = text.split("\n")
    assert rows[0].split() == ["test", "BLEU", "TER", "(lower", "is", "better)"]
    assert rows[1].split()[:4] == ["same.en", "100.00", "[100.00,", "100.00]"]
    assert rows[2].split()[:2] == ["hyp.en", "89.42"]
    assert "BLEU|nrefs:1|bs:100|seed:12345|case:mixed|eff:no|tok:13a|smooth:exp|version:" in text
    assert "hyp.en: BLEU 92.3/90.9/88.9/85.7 (BP = 1.000 ratio = 1.000 hyp_len = 13 ref_len = 13)" in rows
    assert "p: paired bootstrap, 1000 trials, seed 12345, against same.en; * is p < 0.05" in rows
    as_json = json.loads(json.dumps(found.to_json()))["tests"]["test"]
    assert as_json["lines"] == 2
    best, other = as_json["systems"]
    assert best["scores"]["bleu"]["value"] == 100.0
    assert other["scores"]["bleu"]["value"] == 89.4204
    assert other["scores"]["bleu"]["confidence"].keys() == {"mean", "low", "high"}
    assert other["comparisons"]["ter"]["difference"] == 7.6923


def test_expectations(hyp: Path, ref: Path) -> None:
    promised = {
        "bleu": Expected(89.42),
        "chrf": Expected(90.0, tolerance=6.0),
        "chrf++": Expected(90.0, tolerance=1.0),
        "ter": Expected(5.0, tolerance=2.0),
    }
    config = EvaluateConfig(metrics=tuple(promised), expect={"test": promised})
    found, _ = evaluate(hyp, ref, config)
    checked = expectations(found, config)
    assert [one.kept for one in checked] == [True, True, False, False]
    assert [str(one) for one in checked] == [
        "test BLEU: expected 89.42, measured 89.4204: kept",
        "test chrF2: expected 90 (tolerance 6), measured 84.4774: kept",
        "test chrF2++: expected 90 (tolerance 1), measured 86.2699: missed by 2.7301",
        "test TER: expected 5 (tolerance 2), measured 7.6923: missed by 0.6923",
    ]
    evaluation = Evaluation(found.tests, checked)
    assert not evaluation.kept
    assert [one["kept"] for one in evaluation.to_json()["expectations"]] == [True, True, False, False]
    assert table(evaluation).endswith("missed by 0.6923")


@pytest.mark.parametrize(("measured", "kept"), [(41.02, True), (41.01996, True), (41.0199, False), (50.0, True)])
def test_an_expectation_has_no_dust(measured: float, kept: bool) -> None:
    """Fault 106."""
    assert Expectation("test", "bleu", Expected(41.02), measured).kept is kept


def test_expectations_of_unknown_tests(hyp: Path, ref: Path) -> None:
    config = EvaluateConfig(expect={"tset": {"bleu": Expected(30.0)}})
    found, _ = evaluate(hyp, ref)
    with pytest.raises(ConfigError, match=r"^evaluate\.expect\.tset names no test set; data\.test has test\.$"):
        expectations(found, config)


def test_an_expected_metric_must_be_measured() -> None:
    with pytest.raises(ConfigError) as caught:
        EvaluateConfig(expect={"test": {"ter": Expected(30.0)}})
    assert str(caught.value) == (
        "evaluate.expect.test.ter is not among evaluate.metrics (bleu, chrf): a score that is not computed cannot be "
        "expected."
    )
    with pytest.raises(ConfigError, match=r"^evaluate\.metrics must name at least one of bleu, chrf, chrf\+\+, ter\.$"):
        EvaluateConfig(metrics=())
    with pytest.raises(ConfigError, match=r"^evaluate\.metrics names bleu twice\.$"):
        EvaluateConfig(metrics=("bleu", "ter", "bleu"))


def test_a_run_is_scored_on_all_its_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Faults 95 and 102: against all references, as raw text; scores.json says the same."""
    translated = {"one": written(tmp_path / "one.en", [MAT, PARK]), "two": written(tmp_path / "two.en", [MAT, PARK])}
    refs = [written(tmp_path / "a", [MAT, GARDEN]), written(tmp_path / "b", [GARDEN, PARK])]
    source = written(tmp_path / "source.de", ["ja", "nein"])
    recipe = Recipe(
        name="toy",
        model_dir=tmp_path / "run",
        data=DataConfig(
            src_lang="de",
            tgt_lang="en",
            train=(),
            test={"one": TestSet(source, (refs[0],)), "two": TestSet(source, tuple(refs))},
        ),
        train=TrainConfig(max_steps=1),
        evaluate=EvaluateConfig(expect={"one": {"bleu": Expected(95.0)}, "two": {"bleu": Expected(95.0)}}),
    )

    def translate_tests(*arguments: object) -> Generator[Event, None, dict[str, Path]]:
        assert arguments == (recipe, "cpu", None)
        yield Progress("translate", 2)
        return translated

    monkeypatch.setattr("mt.translate.translate_tests", translate_tests)
    found = finish(evaluate_run(recipe, "cpu", check=True))
    assert [test.systems[0].score("bleu").value for test in found.tests] == pytest.approx([89.4204, 100.0], abs=1e-4)
    assert [one.kept for one in found.expectations] == [False, True]
    assert json.loads((tmp_path / "run" / "scores.json").read_text("utf-8")) == found.to_json()
    assert finish(evaluate_run(recipe, "cpu")).expectations == ()


def test_a_recipe_without_tests(tmp_path: Path) -> None:
    data = DataConfig(src_lang="de", tgt_lang="en", train=())
    recipe = Recipe(name="toy", model_dir=tmp_path / "run", data=data, train=TrainConfig(max_steps=1))
    with pytest.raises(ConfigError, match=r"^data\.test names no test set: there is nothing to evaluate\.$"):
        finish(evaluate_run(recipe))
