from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from mt.data import store as store_module
from mt.data.config import DataConfig, TestSet
from mt.data.report import PrepareReport, warnings
from mt.data.store import Store
from mt.errors import ConfigError, DataError, RunError
from mt.events import Event, Notice, finish
from mt.prepare import prepare
from mt.recipe import Recipe
from mt.text.config import Filters, TokenizerConfig
from mt.text.files import read_json
from mt.text.folders import locked
from mt.training import run_folder
from tests.prepared import WORD, recipe_of, simple, write_pair
from tests.tiny import write_task

ROOT = Path(__file__).resolve().parents[1]
SUBWORD = TokenizerConfig(vocab_size=60, soft_vocab_limit=True)


def done(recipe: Recipe, workers: int | None = 1) -> PrepareReport:
    return finish(prepare(recipe, workers))


def notices(recipe: Recipe) -> list[str]:
    events: list[Event] = []
    finish(prepare(recipe, 1), events.append)
    return [event.text for event in events if isinstance(event, Notice)]


def pairs(recipe: Recipe, split: str = "train") -> list[tuple[str, str]]:
    """The pairs that were stored, as text."""
    store = Store.open(recipe.data_dir)
    ids, tokenizers = store.split(split), store.tokenizers
    sources = [tokenizers.src.decode(ids.src[index].tolist()) for index in range(len(ids))]
    return list(
        zip(sources, [tokenizers.tgt.decode(ids.tgt[index].tolist()) for index in range(len(ids))], strict=True)
    )


def contents(folder: Path) -> dict[str, bytes]:
    """All files below a folder; of the manifest, without the places and times of the input."""
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    manifest = json.loads(files.pop("manifest.json"))
    for entry in manifest["inputs"]:
        del entry["path"], entry["mtime_ns"]
    return {**files, "manifest": json.dumps(manifest).encode()}


def test_bad_pairs_are_dropped_as_pairs_and_counted(tmp_path: Path) -> None:
    """Fault 13."""
    recipe = simple(tmp_path, b"a\n\nb\n", b"x\ny\nz\n")
    report = done(recipe)
    assert pairs(recipe) == [("a", "x"), ("b", "z")]
    assert (report.read, report.kept, report.dropped) == (3, 2, {"source empty": 1})
    assert str(report).startswith("2 of 3 pairs left: 1 source empty\n")


@pytest.mark.parametrize("tokenizer", [WORD, SUBWORD])
def test_carriage_returns_make_no_difference(tmp_path: Path, tokenizer: TokenizerConfig) -> None:
    """Faults 2 and 3."""
    text = b"the cat .\nthe dog .\n"
    unix = simple(tmp_path / "unix", text, text, tokenizer)
    windows = simple(tmp_path / "windows", text.replace(b"\n", b"\r\n"), text, tokenizer)
    done(unix)
    done(windows)
    stores = [Store.open(recipe.data_dir) for recipe in (unix, windows)]
    assert len({store.tokenizers.fingerprint for store in stores}) == 1
    for side in ("src", "tgt"):
        ids = [getattr(store.split("train"), side).items.tolist() for store in stores]
        assert ids[0] == ids[1], side


def test_nul_bytes_shift_nothing(tmp_path: Path) -> None:
    """Fault 5."""
    recipe = simple(tmp_path, b"a\x00b c\nd e\n", b"x y\nz\n")
    done(recipe)
    assert pairs(recipe) == [("a b c", "x y"), ("d e", "z")]


@pytest.mark.parametrize(("tgt", "count"), [(b"x\ny\n", 2), (b"", 0)])
def test_unequal_text_is_refused_before_anything_is_written(tmp_path: Path, tgt: bytes, count: int) -> None:
    """Fault 14."""
    recipe = simple(tmp_path, b"a\nb\nc\n", tgt)
    with pytest.raises(DataError, match=rf"has 3 lines and .* has {count};"):
        done(recipe)
    assert list((tmp_path / "run").iterdir()) == []


def test_unequal_validation_text_is_refused(tmp_path: Path) -> None:
    """Fault 14."""
    valid = write_pair(tmp_path, b"a\nb\n", b"x\n", "valid")
    with pytest.raises(DataError, match=r"valid.src has 2 lines and .*valid.tgt has 1;"):
        done(recipe_of(tmp_path, write_pair(tmp_path, b"a\n", b"x\n"), valid=valid))


def test_text_that_is_not_utf8_is_an_error_or_dropped(tmp_path: Path) -> None:
    """Fault 17."""
    src, tgt = b"ok\ncaf\xe9 noir\nlast\n", b"a\nb\nc\n"
    with pytest.raises(DataError, match=r"train.src, line 2, byte offset 6: 0xE9 is not UTF-8"):
        done(simple(tmp_path, src, tgt))
    recipe = simple(tmp_path, src, tgt, invalid="drop")
    assert done(recipe).dropped == {"not UTF-8": 1}
    assert pairs(recipe) == [("ok", "a"), ("last", "c")]
    assert "\ufffd" not in "".join(Store.open(recipe.data_dir).tokenizers.src.pieces)


def test_validation_text_that_is_not_utf8_is_always_an_error(tmp_path: Path) -> None:
    """Fault 17."""
    valid = write_pair(tmp_path, b"\xff\n", b"x\n", "valid")
    with pytest.raises(DataError, match=r"valid.src, line 1, byte offset 0"):
        done(recipe_of(tmp_path, write_pair(tmp_path, b"a\n", b"x\n"), valid=valid, invalid="drop"))


def test_compressed_text_is_read_to_its_end(tmp_path: Path) -> None:
    """Fault 19."""
    recipe = simple(tmp_path, gzip.compress(b"a\nb\n") + gzip.compress(b"c\n"), b"x\ny\nz\n")
    done(recipe)
    assert pairs(recipe) == [("a", "x"), ("b", "y"), ("c", "z")]


def test_duplicates_are_those_of_pairs(tmp_path: Path) -> None:
    """Fault 20."""
    recipe = simple(tmp_path, b"a\na\na\nb\n", b"x\ny\nx\nx\n", dedup=True)
    assert done(recipe).dropped == {"duplicate": 1}
    assert pairs(recipe) == [("a", "x"), ("a", "y"), ("b", "x")]


def test_duplicates_are_found_across_corpora_and_blocks(tmp_path: Path) -> None:
    """Fault 20."""
    src = b"".join(b"a%d\n" % (number % 5000) for number in range(9000))
    corpora = write_pair(tmp_path, src, src, "one"), write_pair(tmp_path, b"a1\nnew\n", b"a1\nneu\n", "two")
    report = done(recipe_of(tmp_path, *corpora, tokenizer=replace(WORD, vocab_size=9000), dedup=True))
    assert [(corpus.name, corpus.read, corpus.dropped) for corpus in report.corpora] == [
        ("one.src", 9000, {"duplicate": 4000}),
        ("two.src", 2, {"duplicate": 1}),
    ]
    assert str(report).splitlines()[:3] == [
        "5001 of 9002 pairs left: 4001 duplicate",
        "  one.src: 5000 of 9000 pairs left: 4000 duplicate",
        "  two.src: 1 of 2 pairs left: 1 duplicate",
    ]


@pytest.mark.parametrize("data", [b"", b"\n\n\n"])
def test_text_without_lines_is_refused(tmp_path: Path, data: bytes) -> None:
    """Fault 22."""
    with pytest.raises(DataError) as error:
        done(simple(tmp_path, data, data, SUBWORD))
    origin = f"{tmp_path / 'train.src'} and {tmp_path / 'train.tgt'}"
    assert str(error.value) == f"no non-empty lines in {origin}: there is nothing to learn a vocabulary from."


def test_a_vocabulary_that_does_not_fit_leaves_nothing(tmp_path: Path) -> None:
    """Faults 21 and 22."""
    with pytest.raises(ConfigError, match="set it to at most"):
        done(simple(tmp_path, b"the cat\n" * 9, b"die katze\n" * 9, TokenizerConfig()))
    with pytest.raises(ConfigError, match="vocab_size 6 is less than the"):
        done(simple(tmp_path, b"the cat\n" * 9, b"die katze\n" * 9, TokenizerConfig(vocab_size=6)))
    assert list((tmp_path / "run").iterdir()) == []


def test_characters_left_out_are_listed(tmp_path: Path) -> None:
    """Fault 23."""
    src = "我 的 你 他 好\n".encode() * 2000 + "龘 x\n".encode()
    char = TokenizerConfig(type="char", character_coverage=0.9995, shared=False)
    report = done(simple(tmp_path, src, b"a\n" * 2001, char))
    assert report.src.counts.left_out == {"龘": 1, "x": 1}
    assert report.src.left_out_share == 2 / (2000 * 9 + 3)
    assert "source: characters without a piece: 2 (0.0111% of the text): 龘 x" in report.lines()
    report = done(simple(tmp_path, src, b"a\n" * 2001, replace(char, character_coverage=1.0)))
    assert not report.src.counts.left_out


def test_characters_spelled_as_bytes_are_listed_and_not_unknown(tmp_path: Path) -> None:
    """Fault 23."""
    tokenizer = TokenizerConfig(vocab_size=300, soft_vocab_limit=True, byte_fallback=True, character_coverage=0.99)
    report = done(simple(tmp_path, b"a b c\n" * 200 + "龘\n".encode(), b"a\n" * 201, tokenizer))
    assert report.src.counts.left_out == {"龘": 1}
    assert report.src.unknown_rate == 0


def test_normalisation_and_markers_are_counted(tmp_path: Path) -> None:
    """Faults 9 and 11."""
    src = "½ a\nplain\ta\n  two  spaces\na\u2581b\n".encode()
    recipe = simple(tmp_path, src, b"x\n" * 4, replace(SUBWORD, normalization="nmt_nfkc"))
    report = done(recipe)
    assert report.src.counts.changed == 3
    assert report.src.counts.markers == 1
    assert "source: lines that normalisation changed: 3" in report.lines()
    assert "source: lines with U+2581, which becomes a space: 1" in report.lines()
    assert done(replace(recipe, tokenizer=replace(SUBWORD, normalization="identity"))).src.counts.changed == 0


def test_replacement_characters_are_counted_and_noticed(tmp_path: Path) -> None:
    """Fault 17: what another program lost is not learned in silence."""
    recipe = simple(tmp_path, "caf\ufffd noir\ncafé\n".encode(), b"x\ny\n")
    assert notices(recipe)[-1] == (
        "source lines with U+FFFD (\ufffd), which stands for text that was lost when it was decoded: 1; mend them or "
        "leave them out."
    )
    assert "source: lines with U+FFFD, which stands for lost text: 1" in done(recipe).lines()


def test_an_unknown_rate_above_5_percent_is_noticed(tmp_path: Path) -> None:
    """Fault 31."""
    first = simple(tmp_path / "a", b"ab\n" * 9, b"xy\n" * 9, TokenizerConfig(type="char", shared=False))
    report = done(first)
    assert (report.src.unknown_rate, report.tgt.unknown_rate) == (0, 0)
    swapped = simple(tmp_path / "b", b"xy\n" * 9, b"ab\n" * 9, replace(first.tokenizer, reuse=first.data_dir))
    assert notices(swapped)[-1].startswith(
        "50.0% of the target pieces are unknown: is the vocabulary that of this text"
    )


@pytest.mark.parametrize(
    ("kind", "advice"),
    [
        ("word", "A larger vocab_size keeps more of it."),
        ("char", "A larger vocab_size or character_coverage: 1 keeps more of it."),
        ("bpe", "A larger vocab_size, character_coverage: 1 or byte_fallback: true keeps more of it."),
    ],
)
def test_the_advice_on_unknown_pieces_is_what_the_tokenizer_can_do(tmp_path: Path, kind: str, advice: str) -> None:
    report = done(simple(tmp_path, b"a b\n", b"c d\n"))
    report.tgt.counts.unknown = report.tgt.counts.pieces
    assert warnings(report, kind) == [
        f"100.0% of the target pieces are unknown: is the vocabulary that of this text and side? {advice}"
    ]


def test_reuse_takes_over_a_vocabulary(tmp_path: Path) -> None:
    """Fault 35."""
    first = simple(tmp_path / "a", b"ab\n" * 9, b"xy\n" * 9, TokenizerConfig(type="char"))
    done(first)
    second = simple(tmp_path / "b", b"ab\nqb\n", b"xy\nxy\n", replace(first.tokenizer, reuse=first.data_dir))
    report = done(second)
    for name in ("shared.model", "tokenizer.json"):
        assert (second.data_dir / "tokenizer" / name).read_bytes() == (first.data_dir / "tokenizer" / name).read_bytes()
    assert report.src.counts.unknown == 1
    assert notices(second)[0].endswith("neither its text nor its settings have changed")


@pytest.mark.parametrize("type", ["bpe", "unigram", "char", "word"])
def test_preparing_twice_gives_the_same_bytes(tmp_path: Path, type: str) -> None:
    """Fault 34."""
    data = b"".join(b"the cat %d sat\n" % number for number in range(200))
    config = TokenizerConfig(type=type, vocab_size=40, soft_vocab_limit=True, sample_size=100)
    recipes = [simple(tmp_path / name, data, data, config) for name in ("a", "b")]
    for recipe in recipes:
        done(recipe)
    assert contents(recipes[0].data_dir) == contents(recipes[1].data_dir)


def test_workers_make_no_difference(tmp_path: Path) -> None:
    """Fault 40."""
    src = "".join(
        "é" * (number % 7) + f" {number}\n" * (number % 7 != 3) + "\n" * (number % 7 == 3) for number in range(9000)
    )
    keys = {"vocab_size": 60, "dropout": 0.1}
    recipes = [simple(tmp_path / name, src.encode(), src.encode(), replace(SUBWORD, **keys), dedup=True)  # type: ignore[arg-type]
               for name in ("a", "b")]  # fmt: skip
    for recipe, workers in zip(recipes, (1, 2), strict=True):
        done(recipe, workers)
    assert contents(recipes[0].data_dir) == contents(recipes[1].data_dir)


UNGUARDED = """\
from mt.events import finish
from mt.prepare import prepare
from mt.recipe import load_recipe

print("begun")
print(finish(prepare(load_recipe("recipe.yaml"), workers=2)).kept)
"""


@pytest.mark.parametrize("name", ["script.py", "-"])
def test_the_calling_program_is_not_run_by_workers(tmp_path: Path, name: str) -> None:
    """Be it a script without a guard or one from standard input, of which there is no file."""
    write_task(tmp_path)
    (tmp_path / "script.py").write_text(UNGUARDED)
    ended = subprocess.run(
        [sys.executable, name],
        input=UNGUARDED,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert (ended.stdout, ended.stderr, ended.returncode) == ("begun\n60\n", "", 0)


def test_less_text_leaves_nothing_of_more(tmp_path: Path) -> None:
    """Fault 42."""
    done(simple(tmp_path, b"a\n" * 100, b"x\n" * 100))
    recipe = simple(tmp_path, b"a\n" * 30, b"x\n" * 30)
    done(recipe)
    assert len(Store.open(recipe.data_dir).split("train")) == 30
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["data"]
    listed = {*read_json(recipe.data_dir / "manifest.json")["files"], "manifest.json", "report.json", "tokenizer"}
    assert {path.name for path in recipe.data_dir.iterdir()} == listed


def test_unchanged_text_and_settings_are_not_prepared_again(tmp_path: Path) -> None:
    recipe = simple(tmp_path, b"a b\n", b"x\n")
    first = done(recipe)
    before = (recipe.data_dir / "manifest.json").stat().st_mtime_ns
    second = done(recipe)
    assert second.up_to_date
    assert replace(second, up_to_date=False) == first
    for text in (recipe.data.train[0].src, recipe.data.train[0].tgt):
        os.utime(text, (1, 1))  # only touched
    assert notices(recipe) == [f"{recipe.data_dir} is up to date: neither its text nor its settings have changed"]
    assert (recipe.data_dir / "manifest.json").stat().st_mtime_ns == before


def test_what_has_changed_is_said(tmp_path: Path) -> None:
    recipe = simple(tmp_path, b"a b\n", b"x\n")
    done(recipe)
    other = replace(
        recipe, tokenizer=replace(WORD, vocab_size=500), data=replace(recipe.data, filters=Filters(max_length=9))
    )
    assert notices(other)[0] == (
        f"preparing {recipe.data_dir} again: tokenizer.vocab_size was 1000 and is 500; "
        "data.filters.max_length was 250 and is 9"
    )
    recipe.data.train[0].src.write_bytes(b"c d\n")
    valid = write_pair(tmp_path, b"a\n", b"x\n", "valid")
    other = replace(other, data=replace(other.data, valid=valid))
    assert notices(other)[0] == (
        f"preparing {recipe.data_dir} again: data.train.0.src ({recipe.data.train[0].src}) has other content; "
        f"data.valid.src ({valid.src}) is new; data.valid.tgt ({valid.tgt}) is new"
    )
    assert notices(replace(other, data=replace(other.data, valid=None)))[0] == (
        f"preparing {recipe.data_dir} again: data.valid.src is gone; data.valid.tgt is gone"
    )


def test_settings_of_other_stages_do_not_matter(tmp_path: Path) -> None:
    recipe = simple(tmp_path, b"a b\n", b"x\n", replace(SUBWORD, dropout=0.1))
    done(recipe)
    other = replace(recipe, seed=7, name="other", tokenizer=replace(recipe.tokenizer, dropout=0.2))
    assert done(other).up_to_date
    assert notices(replace(recipe, tokenizer=SUBWORD))[0].endswith(
        "again: keeping text for segmentation in training was true and is false"
    )


def test_a_damaged_corpus_is_prepared_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault 43."""
    monkeypatch.setattr(store_module, "SMALL", 0)
    recipe = simple(tmp_path, b"a b\n", b"x\n")
    done(recipe)
    path = recipe.data_dir / "train.src.ids"
    path.write_bytes(path.read_bytes()[:-1] + b"\7")
    assert notices(recipe)[0].endswith(
        f"{path} is not as mt prepare wrote it (its checksum differs); run mt prepare again."
    )
    assert done(recipe).up_to_date


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("tokenizer/src.json", b"[]", "tokenizer/src.json is damaged (no list of distinct words"),
        ("tokenizer/tokenizer.json", b"{", "tokenizer/tokenizer.json is not whole JSON"),
        ("manifest.json", b'{"format": "mt-prepared", "version": 1}', "manifest.json is damaged: entries are missing"),
        ("report.json", b"[]", "report.json is damaged: entries are missing; run mt prepare again."),
    ],
)
def test_a_damaged_file_of_any_kind_is_made_again(tmp_path: Path, name: str, content: bytes, reason: str) -> None:
    """Fault 43: training refuses such a corpus and says to prepare again, so that has to help."""
    recipe = simple(tmp_path, b"a b\n", b"x\n", replace(WORD, shared=False))
    done(recipe)
    (recipe.data_dir / name).write_bytes(content)
    assert notices(recipe)[0].startswith(f"preparing {recipe.data_dir} again: {recipe.data_dir}/{reason}")
    assert done(recipe).up_to_date
    assert len(Store.open(recipe.data_dir).tokenizers.src) == 6


def test_odd_paths_work(tmp_path: Path) -> None:
    """Faults 32 and 44."""
    text = write_pair(tmp_path / "sp dir" / "a b, c", b"ab\n" * 9, b"xy\n" * 9, "-données")
    recipe = recipe_of(tmp_path, text, tokenizer=SUBWORD, dir=tmp_path / "my run" / "é (1)" / "data")
    done(recipe)
    assert pairs(recipe) == [("ab", "xy")] * 9


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    """Fault 44."""
    (tmp_path / "run").write_bytes(b"")
    with pytest.raises(DataError, match=r"run cannot be a folder: a file of that name is in the way\.$"):
        done(simple(tmp_path, b"a\n", b"x\n"))
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(
        DataError, match=r"file is a file; the prepared corpus needs a folder: name another one as data.dir\.$"
    ):
        done(simple(tmp_path, b"a\n", b"x\n", dir=tmp_path / "file"))


def test_a_folder_of_other_files_is_not_touched(tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        done(simple(tmp_path, b"a\n", b"x\n", dir=tmp_path))
    assert str(error.value) == f"{tmp_path} holds files that mt prepare did not make; name another folder as data.dir."
    assert (tmp_path / "train.src").read_bytes() == b"a\n"


def test_the_length_limit_is_inclusive(tmp_path: Path) -> None:
    """Fault 45."""
    lengths = [(source, target) for source in (3, 4, 5) for target in (3, 4, 5)]
    src = b"".join(b" ".join([b"a"] * source) + b"\n" for source, _ in lengths)
    tgt = b"".join(b" ".join([b"x"] * target) + b"\n" for _, target in lengths)
    recipe = simple(tmp_path, src, tgt, filters=Filters(max_length=4))
    assert done(recipe).dropped == {"too long": 5}
    ids = Store.open(recipe.data_dir).split("train")
    kept = list(zip(ids.src.lengths.tolist(), ids.tgt.lengths.tolist(), strict=True))
    assert kept == [(3, 3), (3, 4), (4, 3), (4, 4)]


def test_a_line_of_70000_pieces_is_counted_and_filtered(tmp_path: Path) -> None:
    """Fault 38."""
    src = b"a\n" + b"b " * 70_000 + b"\nc\n"
    recipe = simple(tmp_path, src, b"x\ny\nz\n", filters=Filters(max_length=5000))
    assert done(recipe).dropped == {"too long": 1}
    recipe = simple(tmp_path, src, b"x\ny\nz\n", filters=Filters(max_length=None))
    done(recipe)
    assert Store.open(recipe.data_dir).split("train").src.lengths.tolist() == [1, 70_000, 1]


def test_nothing_left_is_said_with_counts(tmp_path: Path) -> None:
    """Fault 46."""
    with pytest.raises(DataError) as error:
        done(simple(tmp_path, b"a b c\n", b"x\n", filters=Filters(max_length=1)))
    assert str(error.value) == "0 of 1 pair left: 1 too long; nothing is left to train on: loosen data.filters."
    assert list((tmp_path / "run").iterdir()) == []


def test_empty_validation_text_is_refused(tmp_path: Path) -> None:
    """Fault 46."""
    valid = write_pair(tmp_path, b"", b"", "valid")
    with pytest.raises(DataError, match=r"valid.src has no lines; validation needs at least one pair\.$"):
        done(recipe_of(tmp_path, write_pair(tmp_path, b"a\n", b"x\n"), valid=valid))


@pytest.mark.parametrize(
    ("src", "tgt", "message"),
    [
        (b"a\nb\n", b"x\n", r"test.src has 2 lines and .*test.tgt has 1;"),
        (b"a\nb\n", b"x\n\xff\n", r"test.tgt, line 2, byte offset 2: 0xFF is not UTF-8"),
        (gzip.compress(b"a\n" * 99, mtime=0)[:-4], b"x\n", r"test.src is cut off: its gzip data end too soon"),
        (b"", b"", r"test.src has no lines; test set held_out needs at least one pair\.$"),
    ],
)
def test_test_text_that_cannot_be_used_is_refused_before_training(
    tmp_path: Path, src: bytes, tgt: bytes, message: str
) -> None:
    """Faults 14, 17, 19 and 46, which evaluation would find after hours of training."""
    recipe = simple(tmp_path, b"a\n", b"x\n")
    text = write_pair(tmp_path, src, tgt, "test")
    test = {"held_out": TestSet(text.src, (text.tgt,))}
    with pytest.raises(DataError, match=message):
        done(replace(recipe, data=replace(recipe.data, test=test)))
    assert list((tmp_path / "run").iterdir()) == []


def test_one_pair_is_enough(tmp_path: Path) -> None:
    """Fault 46."""
    recipe = simple(tmp_path, b"a b c\n", b"x\n")
    assert done(recipe).kept == 1


def test_validation_text_is_never_filtered(tmp_path: Path) -> None:
    train = write_pair(tmp_path, b"a b\n", b"x\n")
    valid = write_pair(tmp_path, b"a b a b\n\nc\n", b"x\nx\n\n", "valid")
    recipe = recipe_of(tmp_path, train, valid=valid, filters=Filters(max_length=2))
    assert notices(recipe)[-1] == "validation pairs with an empty side, kept as they are: 2"
    assert pairs(recipe, "valid") == [("a b a b", "x"), ("", "x"), ("\u2047", "")]


def test_two_preparations_at_once_are_refused(tmp_path: Path) -> None:
    recipe = simple(tmp_path, b"a\n", b"x\n")
    with (
        locked(recipe.data_dir, "mt prepare"),
        pytest.raises(RunError, match=r"another mt prepare \(process \d+\) is writing "),
    ):
        done(recipe)


def test_nothing_is_prepared_again_under_a_running_training(tmp_path: Path) -> None:
    recipe = simple(tmp_path, b"a b\n", b"x\n")
    done(recipe)
    before = contents(recipe.data_dir)
    with run_folder.locked(recipe.model_dir):
        assert done(recipe).up_to_date
        with pytest.raises(RunError, match=r"run is in use by another command \(process \d+\): wait until it ends or"):
            finish(prepare(replace(recipe, tokenizer=replace(WORD, vocab_size=500)), 1, overwrite=True))
    assert contents(recipe.data_dir) == before


def test_text_that_changes_meanwhile_is_refused(tmp_path: Path) -> None:
    recipe = simple(tmp_path, b"a\n", b"x\n")
    work = prepare(recipe, 1)
    next(work)  # counted
    recipe.data.train[0].src.write_bytes(b"longer\n")
    with pytest.raises(DataError, match=r"data.train.0.src: .*train.src changed while it was read; prepare again"):
        finish(work)
    assert not recipe.data_dir.exists()


def test_a_work_that_is_given_up_leaves_nothing(tmp_path: Path) -> None:
    recipe = simple(tmp_path, b"a\n", b"x\n")
    work = prepare(recipe, 1)
    for event in work:
        if getattr(event, "label", "") == "encoding":
            break
    work.close()
    assert list((tmp_path / "run").iterdir()) == []


def test_missing_text_is_named(tmp_path: Path) -> None:
    data = DataConfig("en", "de", (write_pair(tmp_path, b"a\n", b"x\n"),))
    data.train[0].tgt.unlink()
    recipe = replace(simple(tmp_path / "other", b"a\n", b"x\n"), data=data)
    with pytest.raises(DataError, match=r"^data.train.0.tgt: .*train.tgt is not a file; name an existing file\.$"):
        done(recipe)


def test_memory_does_not_grow_with_the_text(tmp_path: Path) -> None:
    """Fault 39: the vocabulary's sample is bounded, the rest is streamed."""
    config = replace(WORD, sample_size=1000)
    peaks = []
    for pairs in (20_000, 100_000):
        recipe = simple(
            tmp_path / str(pairs), b"the same line each time\n" * pairs, b"und\n" * pairs, config, dedup=True
        )
        tracemalloc.start()
        done(recipe)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 2 * peaks[0]  # of five times the text: how many blocks wait at once is the scheduler's choice
