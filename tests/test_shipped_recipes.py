"""The recipes that come with the toolkit: they load, what they fetch is what they read, and the checksums fit."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mt.events import finish
from mt.fetch import fetch
from mt.recipe import load_recipe, shipped_folder, shipped_recipes

ROOT = Path(__file__).resolve().parents[1]
RECIPES = sorted(shipped_recipes())
FROM_SHARED_DATA = [
    "eutrans-es-en",
    "multi30k-en-de",
    "multi30k-en-de-tok",
    "multi30k-en-fr",
    "small-parallel-enja",
    "tatoeba-en-de",
]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shipped recipes write below the current directory."""
    monkeypatch.chdir(tmp_path)


def texts(name: str) -> set[Path]:
    data = load_recipe(name).data
    pairs = [*data.train, *([data.valid] if data.valid else [])]
    references = [path for test in data.test.values() for path in (test.src, *test.tgt)]
    return {path for pair in pairs for path in (pair.src, pair.tgt)} | set(references)


def test_the_recipes_promised_are_there() -> None:
    assert {"quickstart", "wmt14-en-de-base", "wmt14-en-de-big", *FROM_SHARED_DATA} <= set(RECIPES)


@pytest.mark.parametrize("name", RECIPES)
def test_a_shipped_recipe_loads_and_lies_below_the_current_directory(name: str, tmp_path: Path) -> None:
    recipe = load_recipe(name)
    assert recipe.name == name
    assert recipe.model_dir.resolve() == (tmp_path / "runs" / name).resolve()
    for path in texts(name):
        assert path.resolve().is_relative_to((tmp_path / "data").resolve())


@pytest.mark.parametrize("name", RECIPES)
def test_a_shipped_recipe_fetches_what_it_reads(name: str) -> None:
    data = load_recipe(name).data
    if data.generate or data.split:
        return
    assert {item.file for item in data.download} == texts(name)
    for item in data.download:
        assert item.url.endswith(f"/{item.file.name}")


@pytest.mark.parametrize("name", RECIPES)
def test_a_shipped_recipe_begins_with_what_it_is(name: str) -> None:
    text = (shipped_folder() / f"{name}.yaml").read_text(encoding="utf-8")
    comment = re.match(r"(# .*\n)+", text)
    assert comment
    assert len(comment[0]) > 60


@pytest.mark.parametrize("name", RECIPES)
def test_the_table_of_recipes_names_each(name: str) -> None:
    assert f"\n| `{name}` |" in (ROOT / "recipes" / "README.md").read_text(encoding="utf-8")


def test_the_page_of_data_tells_of_each_corpus() -> None:
    page = (ROOT / "data" / "README.md").read_text(encoding="utf-8")
    for name in RECIPES:
        text = load_recipe(name).data.train[0].src.resolve().relative_to(Path.cwd().resolve())
        assert f"`{'/'.join(text.parts[:2])}/`" in page


def test_the_example_for_own_files_is_a_recipe(tmp_path: Path) -> None:
    page = (ROOT / "recipes" / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```yaml\n(.*?)```", page, flags=re.S)
    (tmp_path / "my.yaml").write_text(block, encoding="utf-8")
    assert load_recipe(tmp_path / "my.yaml").data.train[0].src.name == "train.en"


@pytest.mark.parametrize("name", FROM_SHARED_DATA)
def test_the_published_files_fit_the_checksums(name: str, shared_data: Path) -> None:
    report = finish(fetch(load_recipe(name), shared_data))
    assert {file.origin for file in report.files} == {"copied"}
    assert {file.path for file in report.files} >= texts(name)
    assert {file.origin for file in finish(fetch(load_recipe(name))).files} == {"kept"}
