"""The reference pages say what the code does."""

from __future__ import annotations

import re

import pytest

from cli.main import COMMANDS
from cli.reference import PAGES
from mt.config import key_paths
from mt.recipe import Recipe
from mt.reference import reference
from tests.cli.conftest import ROOT


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_what_the_code_says(name: str) -> None:
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert page == PAGES[name](), f"docs/{name} is out of date: python -m cli.reference docs"


def test_every_key_has_a_row_and_a_meaning() -> None:
    rows = dict(re.findall(r"^\| `([\w.]+)` \|.*\| ([^|]+) \|$", reference(), re.MULTILINE))
    assert set(key_paths(Recipe)) <= set(rows)
    assert all(meaning.strip() for meaning in rows.values())


def test_every_command_has_a_section() -> None:
    assert re.findall(r"^## mt (\w+)$", PAGES["cli.md"](), re.MULTILINE) == list(COMMANDS)
