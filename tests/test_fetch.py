"""`mt fetch` as a whole: downloads, copies, archives, splits and generated text, each kept when it is there already."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import re
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from mt.corpora.download import Patience
from mt.corpora.kinds import Draw, Say
from mt.errors import ConfigError, DataError
from mt.events import Event, Notice, finish
from mt.fetch import FetchReport, fetch
from mt.recipe import load_recipe
from tests.corpora.server import Site, serve

TEXT = "".join(f"Satz {k}\n" for k in range(50)).encode()
SUM = hashlib.sha256(TEXT).hexdigest()
TABLE = "".join(f"line {k // 2}\tZeile {k}\tnote\n" for k in range(400)) + "line 0\tZeile 0\tagain\nempty\t\t\n"
PARTS = ["train.en", "train.de", "dev.en", "dev.de", "test.en", "test.de"]
FILES = """
  train: [{src: d/train.en, tgt: d/train.de}]
  valid: {src: d/dev.en, tgt: d/dev.de}
  test: {test: {src: d/test.en, tgt: d/test.de}}
"""


@pytest.fixture
def site() -> Iterator[Site]:
    with serve(Site(TEXT)) as site:
        yield site


def write_recipe(folder: Path, data: str, files: str = FILES) -> Path:
    path = folder / "r.yaml"
    path.write_text(
        f"name: r\nmodel_dir: run\ntrain: {{max_steps: 1}}\ndata:\n  src_lang: en\n  tgt_lang: de{files}{data}"
    )
    return path


def run(recipe: Path, source: Path | None = None, overrides: Sequence[str] = ()) -> tuple[FetchReport, list[str]]:
    """The report, and the lines that the person reads; as FOLDER what stands above the recipe."""
    events: list[Event] = []
    work = fetch(load_recipe(recipe, overrides), source, Patience(timeout=5.0, attempts=2, pause=0.0))
    report = finish(work, events.append)
    notices = [event.text for event in events if isinstance(event, Notice)]
    return report, [text.replace(str(recipe.parent), "FOLDER") for text in notices]


def origins(report: FetchReport) -> list[str]:
    return [file.origin for file in report.files]


def refusal(recipe: Path, source: Path | None = None, overrides: Sequence[str] = ()) -> str:
    with pytest.raises((DataError, ConfigError)) as error:
        run(recipe, source, overrides)
    return str(error.value).replace(str(recipe.parent), "FOLDER")


def download_recipe(folder: Path, url: str, sha256: str | None = SUM) -> Path:
    pin = f", sha256: {sha256}" if sha256 else ""
    return write_recipe(folder, f"  download: [{{url: '{url}', to: d/train.de{pin}}}]\n")


def test_a_file_is_downloaded_once(site: Site, tmp_path: Path) -> None:
    recipe = download_recipe(tmp_path, f"{site.url}/a")
    report, notices = run(recipe)
    assert (origins(report), notices) == (["downloaded"], ["FOLDER/d/train.de: downloaded."])
    assert str(report) == f"downloaded  {tmp_path}/d/train.de"
    assert (tmp_path / "d" / "train.de").read_bytes() == TEXT
    assert (origins(run(recipe)[0]), len(site.requests)) == (["kept"], 1)


def test_the_sum_of_a_file_without_one_is_told(site: Site, tmp_path: Path) -> None:
    _, notices = run(download_recipe(tmp_path, f"{site.url}/a", None))
    assert notices == [f"FOLDER/d/train.de: downloaded; to pin it, write sha256: {SUM} into data.download[0]."]


def test_another_file_of_that_name_is_never_written_over(site: Site, tmp_path: Path) -> None:
    recipe = download_recipe(tmp_path, f"{site.url}/a")
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "train.de").write_text("mine\n")
    mine = hashlib.sha256(b"mine\n").hexdigest()
    assert refusal(recipe) == (
        f"FOLDER/d/train.de exists, but its sha256 is {mine} and the recipe wants {SUM}; move it away to fetch it "
        "again."
    )
    assert (tmp_path / "d" / "train.de").read_text() == "mine\n"


@pytest.mark.parametrize("place", ["train.de", "train.de.gz", "d/train.de", "d/train.de.gz"])
@pytest.mark.parametrize("sha256", [SUM, None])
def test_a_folder_gives_the_file_or_a_compressed_copy(tmp_path: Path, place: str, sha256: str | None) -> None:
    recipe = download_recipe(tmp_path, "http://127.0.0.1:9/a", sha256)
    path = tmp_path / "have" / place
    path.parent.mkdir(parents=True)
    path.write_bytes(gzip.compress(TEXT) if place.endswith(".gz") else TEXT)
    report, _ = run(recipe, tmp_path / "have")
    assert origins(report) == ["copied"]
    assert (tmp_path / "d" / "train.de").read_bytes() == TEXT


def test_a_folder_with_the_wrong_file_or_without_it_or_that_is_none(tmp_path: Path) -> None:
    recipe, have = download_recipe(tmp_path, "http://127.0.0.1:9/a"), tmp_path / "have"
    assert refusal(recipe, have) == "--from FOLDER/have is no folder; name one that holds the files."
    have.mkdir()
    assert refusal(recipe, have) == (
        "FOLDER/have holds no train.de, nor a compressed copy of it, with or without the folders of FOLDER/d/train.de; "
        "put it there, or fetch without --from."
    )
    (have / "train.de").write_text("other\n")
    other = hashlib.sha256(b"other\n").hexdigest()
    assert refusal(recipe, have) == (
        f"FOLDER/have/train.de is not the file that the recipe wants: its sha256 is {other}, but data.download wants "
        f"{SUM}."
    )
    assert not (tmp_path / "d").exists()


def zipped(files: dict[str, str]) -> bytes:
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return memory.getvalue()


def split_recipe(folder: Path, url: str) -> Path:
    data = f"  download: [{{url: '{url}/de.zip', to: d, members: [de.txt]}}]\n"
    return write_recipe(folder, f"{data}  split: {{tsv: d/de.txt, valid: 20, test: 30}}\n")


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def test_an_archive_is_unpacked_and_split(site: Site, tmp_path: Path) -> None:
    site.content = zipped({"de.txt": TABLE})
    recipe = split_recipe(tmp_path, site.url)
    report, notices = run(recipe)
    assert origins(report) == ["downloaded", "unpacked", *["split"] * 6]
    assert notices[1] == (
        "FOLDER/d/de.txt: 402 lines; left out 1 with an empty side and 1 repeated; train 350, valid 20, test 30 pairs."
    )
    texts = {name: lines(tmp_path / "d" / name) for name in PARTS}
    assert not set(texts["train.en"]) & set(texts["dev.en"] + texts["test.en"])
    pairs = {
        pair for part in ("train", "dev", "test") for pair in zip(texts[f"{part}.en"], texts[f"{part}.de"], strict=True)
    }
    assert pairs == {(f"line {k // 2}", f"Zeile {k}") for k in range(400)}
    assert origins(run(recipe)[0]) == ["kept"] * 6
    assert len(site.requests) == 1


def test_a_changed_setting_or_part_makes_the_parts_anew(site: Site, tmp_path: Path) -> None:
    site.content = zipped({"de.txt": TABLE})
    recipe = split_recipe(tmp_path, site.url)
    run(recipe)
    before = lines(tmp_path / "d" / "test.en")
    report, _ = run(recipe, overrides=["data.split.valid=10"])
    assert origins(report) == ["kept", "kept", *["split"] * 6]
    assert lines(tmp_path / "d" / "test.en") == before
    (tmp_path / "d" / "test.en").write_text("cut\n")
    assert origins(run(recipe)[0]) == ["kept", "kept", *["split"] * 6]
    assert lines(tmp_path / "d" / "test.en") == before
    (tmp_path / "d" / "de.txt").unlink()
    assert origins(run(recipe)[0]) == ["kept", "unpacked", *["split"] * 6]


def test_ready_made_parts_of_a_folder_are_taken(tmp_path: Path) -> None:
    recipe, have = split_recipe(tmp_path, "http://127.0.0.1:9"), tmp_path / "have"
    have.mkdir()
    for name in PARTS:
        path = have / (f"{name}.gz" if name.startswith("train") else name)
        path.write_bytes(gzip.compress(TEXT) if name.startswith("train") else TEXT)
    report, notices = run(recipe, have)
    assert (origins(report), notices) == (
        ["copied"] * 6,
        ["FOLDER/have: the ready-made texts were taken as they are; data.split was not used."],
    )
    assert (tmp_path / "d" / "train.en").read_bytes() == TEXT
    assert origins(run(recipe)[0]) == ["kept"] * 6
    (have / "dev.de").unlink()
    (tmp_path / "d" / "parts.json").unlink()
    (tmp_path / "d" / "dev.de").unlink()
    assert refusal(recipe, have).startswith("FOLDER/have holds no de.zip")


@pytest.mark.parametrize("block", ["split: {tsv: all.tsv, valid: 20, test: 30}", "generate: {pairs: 50, held_out: 5}"])
def test_texts_of_somebody_else_are_never_written_over(tmp_path: Path, block: str) -> None:
    recipe = write_recipe(tmp_path, f"  {block}\n")
    (tmp_path / "all.tsv").write_text(TABLE)
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "dev.de").write_text("mine\n")
    assert refusal(recipe) == (
        "FOLDER/d/dev.de exists and was not made by mt fetch, so it is not written over; move it away."
    )
    assert [path.name for path in (tmp_path / "d").iterdir()] == ["dev.de"]


@pytest.mark.parametrize("note", ["{", "[]", "[1]", '{"made_from": {}}', '{"made_from": {}, "sha256": 1}'])
def test_a_damaged_note_is_named_and_the_advice_helps(tmp_path: Path, note: str) -> None:
    recipe = write_recipe(tmp_path, "  split: {tsv: all.tsv, valid: 20, test: 30}\n")
    (tmp_path / "all.tsv").write_text(TABLE)
    run(recipe)
    (tmp_path / "d" / "parts.json").write_text(note)
    assert refusal(recipe) == (
        "FOLDER/d/parts.json is damaged: delete it, with the texts that mt fetch made, and run mt fetch again."
    )
    for name in ["parts.json", *PARTS]:
        (tmp_path / "d" / name).unlink()
    assert origins(run(recipe)[0]) == ["split"] * 6


@pytest.mark.parametrize("block", ["split: {tsv: all.tsv, valid: 20, test: 30}", "generate: {pairs: 50, held_out: 5}"])
def test_all_six_texts_of_somebody_else_are_used(tmp_path: Path, block: str) -> None:
    recipe = write_recipe(tmp_path, f"  {block}\n")
    (tmp_path / "d").mkdir()
    for name in PARTS:
        (tmp_path / "d" / name).write_text("mine\n")
    report, notices = run(recipe)
    assert (origins(report), notices) == (
        ["kept"] * 6,
        [
            "FOLDER/d/train.en and the other texts were put there by somebody: they are used as they are, and "
            f"data.{block.split(':')[0]} is not."
        ],
    )


def test_phrases_are_generated_once_for_the_same_settings(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, "  generate: {pairs: 300, held_out: 20}\n")
    report, notices = run(recipe)
    assert origins(report) == ["generated"] * 6
    assert notices == [
        "Generated en-de phrases: train 300, valid 20, test 20 pairs; left out 0 sources with two translations."
    ]
    texts = {name: lines(tmp_path / "d" / name) for name in PARTS}
    for side in ("en", "de"):
        assert not set(texts[f"train.{side}"]) & set(texts[f"dev.{side}"] + texts[f"test.{side}"])
        assert not set(texts[f"dev.{side}"]) & set(texts[f"test.{side}"])
    assert origins(run(recipe)[0]) == ["kept"] * 6
    for override in ("seed=2", "data.generate.pairs=301", "data.src_lang=fr"):
        assert origins(run(recipe, overrides=[override])[0]) == ["generated"] * 6
    run(recipe)
    assert {name: lines(tmp_path / "d" / name) for name in PARTS} == texts


def test_what_cannot_be_said_in_a_language_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def odd(draw: Draw) -> Say:
        number = draw.below(10_000)
        return lambda language: {1: f"{number} {language.code}"}[number % 2]

    monkeypatch.setattr("mt.corpora.phrases.KINDS", {"odd": (odd, 1)})
    _, (notice,) = run(write_recipe(tmp_path, "  generate: {pairs: 30, held_out: 2}\n"))
    assert re.search(r"two translations, and for want of words in one language \d+ of kind odd\.$", notice)


def test_languages_that_cannot_be_generated(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, "  generate: {pairs: 300, held_out: 20}\n")
    assert refusal(recipe, overrides=["data.tgt_lang=en"]) == (
        "data.src_lang and data.tgt_lang are both 'en'; data.generate needs two languages."
    )
    assert "data.tgt_lang is 'tlh', which Babel" in refusal(recipe, overrides=["data.tgt_lang=tlh"])
    assert not (tmp_path / "d").exists()


def test_nothing_to_fetch(tmp_path: Path) -> None:
    report, notices = run(write_recipe(tmp_path, ""))
    assert (str(report), notices) == ("This recipe has nothing to fetch.", [])


def test_a_full_disk(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("mt.corpora.partial.Partial.open", full)
    assert refusal(download_recipe(tmp_path, f"{site.url}/a")) == (
        "The disk is full; make room and fetch again: a download goes on where it stopped."
    )


@pytest.mark.parametrize(
    ("data", "files", "message"),
    [
        (
            "  download: [{url: 'file:///etc/passwd', to: d}]\n",
            FILES,
            "data.download: the url 'file:///etc/passwd' must be like https://host/path, without spaces.",
        ),
        (
            "  download: [{url: 'https://a/b', to: d, sha256: ABC}]\n",
            FILES,
            "data.download: the sha256 'ABC' must be 64 digits of 0-9 and a-f.",
        ),
        (
            "  download: [{url: 'https://a/b', to: d, members: [a, ../b]}]\n",
            FILES,
            "data.download: the member '../b' must be a path in the archive, without '..'.",
        ),
        (
            "  download: [{url: 'https://a/b', to: d, members: [/etc/passwd]}]\n",
            FILES,
            "data.download: the member '/etc/passwd' must be a path in the archive, without '..'.",
        ),
        (
            "  split: {tsv: a, columns: [2, 2]}\n",
            FILES,
            "data.split.columns must be two different columns, but is [2, 2].",
        ),
        (
            "  split: {tsv: a}\n  generate: {}\n",
            FILES,
            "data.split and data.generate both write the train, valid and test text; take one out.",
        ),
        (
            "  generate: {}\n",
            "\n  train: [{src: a, tgt: b}]\n",
            "data.generate writes one training, one validation and one test text: data.train must have one corpus, "
            "data.valid must be there, and data.test must have one set with one reference.",
        ),
        (
            "  split: {tsv: a}\n",
            FILES.replace("dev.en", "dev.en.gz"),
            "data.split writes six plain texts, but data.train, valid and test name FOLDER/d/dev.en.gz.",
        ),
        (
            "  split: {tsv: a}\n",
            FILES.replace("dev", "test"),
            "data.split writes six plain texts, but data.train, valid and test name FOLDER/d/test.en.",
        ),
    ],
)
def test_contradictions_are_refused_when_the_recipe_is_read(
    tmp_path: Path, data: str, files: str, message: str
) -> None:
    assert refusal(write_recipe(tmp_path, data, files)).endswith(message)
