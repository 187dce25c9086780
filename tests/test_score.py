from __future__ import annotations

import io
import json
import math
from pathlib import Path
from typing import Any

import pytest

from mt.errors import DataError
from mt.events import Event, Notice, finish
from mt.given import Given
from mt.score import FORMATS, ScoreReport, score_files, score_translations
from mt.search.config import DecodeConfig, LengthPenaltyConfig
from mt.translate import Style, translate_stream
from tests.translators import untrained

SOURCES = ["a b c", "d", "e f g h i j", "", "a b c", "k l m n o"]


def files(folder: Path, sources: bytes, targets: bytes) -> tuple[Path, Path]:
    (folder / "src").write_bytes(sources)
    (folder / "tgt").write_bytes(targets)
    return folder / "src", folder / "tgt"


@pytest.mark.parametrize(
    "penalty", [LengthPenaltyConfig(), LengthPenaltyConfig("wu", 0.6), LengthPenaltyConfig("none")]
)
def test_the_score_of_a_translation_is_that_of_the_search(penalty: LengthPenaltyConfig) -> None:
    """Fault 92."""
    translator = untrained(DecodeConfig(beam_size=4, n_best=4, max_length=9, length_penalty=penalty))
    checked = 0
    for one in translator.translate(SOURCES):
        for found in (one, *one.alternatives):
            given = Given(one.source, found.text, found.tokens or None)
            [scored] = translator.score_window([given])
            assert scored.log_prob == pytest.approx(found.log_prob, abs=1e-4)
            assert scored.token_scores == pytest.approx(found.token_scores, abs=1e-4)
            assert scored.tokens == found.tokens
            if not found.truncated:
                assert scored.score == pytest.approx(found.score, abs=1e-4)
                checked += 1
    assert checked > 3


@pytest.mark.parametrize("logits", [1, 200, 2**24])
def test_company_changes_no_score(logits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mt.engine.LOGITS", logits)
    translator = untrained()
    targets = ["a", "b c", "", "", "d e f g h", "a a a"]
    together = list(translator.score(SOURCES, targets))
    alone = [next(translator.score([source], [target])) for source, target in zip(SOURCES, targets, strict=True)]
    assert [one.log_prob for one in together] == pytest.approx([one.log_prob for one in alone], abs=1e-4)
    assert [one.translation for one in together] == targets
    assert (together[3].log_prob, together[3].tokens) == (0.0, ())
    assert together[2].tokens == ("</s>",)


def test_files_line_for_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """N lines in, N lines out, whatever the windows; the same for a file and for a stream."""
    monkeypatch.setattr("mt.score.WINDOW", 2)
    translator = untrained()
    source, target = files(tmp_path, b"a b\nc\n\nd e\nf", b"a\nb c\n\n\nd")
    out = io.BytesIO()
    report = finish(score_files(translator, source, target, out))
    lines = out.getvalue().decode().split("\n")
    assert (len(lines), lines[2], lines[-1]) == (6, "0.000000\t0.000000", "")
    expected = [one.log_prob for one in translator.score(["a b", "c", "", "d e", "f"], ["a", "b c", "", "", "d"])]
    assert [float(line.split("\t")[0]) for line in lines[:-1]] == pytest.approx(expected, abs=1e-4)
    assert report.lines == 5
    assert report.tokens == 2 + 3 + 0 + 1 + 2
    assert report.log_prob == pytest.approx(math.fsum(expected), abs=1e-4)
    finish(score_files(translator, source, target, tmp_path / "out"))
    assert (tmp_path / "out").read_bytes() == out.getvalue()


@pytest.mark.parametrize("format", FORMATS)
def test_different_numbers_of_lines_are_refused_before_anything_is_scored(format: str, tmp_path: Path) -> None:
    source, target = files(tmp_path, b"a\nb\nc\n", b"a\nb\n")
    out = io.BytesIO()
    with pytest.raises(DataError) as raised:
        finish(score_files(untrained(), source, target, out, format))
    assert str(raised.value) == (
        f"{source} has 3 lines and {target} has 2; line k of one must translate line k of the other, so the numbers "
        "must be equal."
    )
    assert out.getvalue() == b""


@pytest.mark.parametrize(("kind", "alpha"), [("average", 1.0), ("average", 0.6), ("wu", 1.0), ("none", 1.0)])
def test_what_translate_wrote_is_scored_with_its_very_pieces(kind: str, alpha: float, tmp_path: Path) -> None:
    """Fault 92: also of a line that was split, and of one that was cut, or parts of it."""
    penalty = LengthPenaltyConfig(kind, alpha)
    translator = untrained(DecodeConfig(beam_size=2, max_length=5, max_source_length=2, length_penalty=penalty))
    (tmp_path / "in").write_text("".join(line + "\n" for line in SOURCES))
    finish(translate_stream(translator, tmp_path / "in", tmp_path / "out", Style("jsonl")))
    out = io.BytesIO()
    finish(score_translations(translator, tmp_path / "out", out, "jsonl"))
    translated = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    scored: list[dict[str, Any]] = [json.loads(line) for line in out.getvalue().decode().splitlines()]
    assert any(one["tokens"].count("</s>") < len(one.get("parts", ())) for one in translated)
    for one, other in zip(translated, scored, strict=True):
        assert one["log_prob"] == pytest.approx(other["log_prob"], abs=1e-4)
        assert one["score"] == pytest.approx(other["score"], abs=1e-4)
        assert one["tokens"] == other["tokens"]
        assert one["token_scores"] == pytest.approx(other["token_scores"], abs=1e-4)


def test_a_line_without_a_translation_is_no_sure_thing(tmp_path: Path) -> None:
    """Fault 92: what could not be translated is scored as empty text, which has a probability; a blank line has 1."""
    line = {"translation": "", "tokens": [], "error": "No."}
    (tmp_path / "in").write_text("".join(json.dumps({"source": text, **line}) + "\n" for text in ("a b", "")))
    out, translator = io.BytesIO(), untrained()
    finish(score_translations(translator, tmp_path / "in", out, "jsonl"))
    found = [json.loads(line)["log_prob"] for line in out.getvalue().splitlines()]
    assert found == [one.log_prob for one in translator.score(["a b", ""], ["", ""])]
    assert found[0] < found[1] == 0


def test_unknown_pieces_are_counted(tmp_path: Path) -> None:
    events: list[Event] = []
    source, target = files(tmp_path, b"a\nb\n", b"zzz\na\n")
    finish(score_files(untrained(), source, target, io.BytesIO()), events.append)
    assert events[-1] == Notice(
        "1 translation has pieces that the target vocabulary lacks; these are scored as the unknown piece."
    )


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ('{"source": "a"}', '"translation" must be there and be text.'),
        ('{"source": "a", "translation": "b", "tokens": "b"}', '"tokens" must be a list of texts.'),
        ('{"source": "a", "translation": "b", "tokens": []}',
         '"tokens" is empty, but "translation" is not; leave "tokens" out to score the text.'),
        ('{"source": "a b", "translation": "c", "tokens": ["c"], "parts": ["a", "b"], "part_tokens": [1]}',
         '"part_tokens" must say of each of "parts" how many of "tokens" are its own.'),
        ('{"source": "a b", "translation": "c", "tokens": ["c"], "part_tokens": null}',
         '"part_tokens" must say of each of "parts" how many of "tokens" are its own.'),
        ('{"source": "a", "translation": "\\udce9"}',
         "the JSON holds half a surrogate pair, which is no character."),
        ("a\tb", "it is not a JSON object on one line (Expecting value: line 1 column 1 (char 0))."),
    ],
)  # fmt: skip
def test_a_line_that_translate_did_not_write_is_named(line: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "in").write_text(line + "\n")
    with pytest.raises(DataError) as raised:
        finish(score_translations(untrained(), tmp_path / "in", io.BytesIO()))
    assert str(raised.value) == f"{tmp_path / 'in'}, line 1: {sentence}"


@pytest.mark.parametrize("piece", ["zz", ""])
def test_pieces_of_another_vocabulary_are_refused_with_their_line(piece: str, tmp_path: Path) -> None:
    good = '{"source": "a", "translation": "", "tokens": ["</s>"]}\n'
    bad = json.dumps({"source": "a", "translation": "b", "tokens": [piece]}) + "\n"
    (tmp_path / "in").write_text(2 * good + bad + good)
    with pytest.raises(DataError) as raised:
        finish(score_translations(untrained(), tmp_path / "in", io.BytesIO()))
    assert str(raised.value) == (
        f"{tmp_path / 'in'}, line 3: '{piece}' is no piece of this model's target vocabulary; score it as plain text."
    )


def test_nothing_is_nothing(tmp_path: Path) -> None:
    assert finish(score_files(untrained(), *files(tmp_path, b"", b""), io.BytesIO())) == ScoreReport(0, 0, 0.0)
