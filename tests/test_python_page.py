"""The page on the Python interface: its examples run, and what it names is there."""

from __future__ import annotations

import importlib
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from mt.events import finish
from mt.lines.formats import FORMATS
from mt.pipeline import run
from mt.recipe import load_recipe
from mt.text.streams import PAUSE
from mt.translate import Translation
from mt.translator import WINDOW
from tests.tiny import write_task

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "python.md").read_text(encoding="utf-8")


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    finish(run(load_recipe(write_task(tmp_path))))
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for example in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(example, names)
    said = capsys.readouterr().out
    assert "60 pairs\n" in said
    assert "nrefs:1" in said
    assert said.endswith("12 lines\n")
    assert (tmp_path / "test.jsonl").read_bytes().count(b"\n") == 12


@pytest.mark.parametrize(("module", "name"), re.findall(r"^\| `(mt\.\w+)\.(\w+)\(", PAGE, re.MULTILINE))
def test_functions_named_are_there(module: str, name: str) -> None:
    assert callable(getattr(importlib.import_module(module), name))


def test_each_field_of_a_translation_and_each_format_is_described() -> None:
    table = "\n".join(re.findall(r"^\| `.*", PAGE, re.MULTILINE))
    assert [field.name for field in fields(Translation) if f"`{field.name}`" not in table] == []
    assert [name for name in FORMATS if f"- `{name}`:" not in PAGE] == []


def test_numbers_are_those_of_the_code() -> None:
    assert f"translates {WINDOW} lines" in PAGE.replace("\n", " ")
    assert f"for {PAUSE} seconds" in PAGE.replace("\n", " ")
