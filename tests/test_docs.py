"""What the pages say is there: files, commands, recipes, plug points, examples; CI calls the README's test command."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from cli.main import COMMANDS
from mt.recipe import load_recipe, shipped_recipes

ROOT = Path(__file__).resolve().parents[1]
PAGES = (
    *("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "recipes/README.md", "benchmarks/README.md", "data/README.md"),
    *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")),
)
README = (ROOT / "README.md").read_text(encoding="utf-8")


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text_of(page))
    missing = [link for link in links if "://" not in link and not ((ROOT / page).parent / link).exists()]
    assert missing == []


def test_the_readme_links_the_other_pages() -> None:
    assert [page for page in PAGES[1:] if f"({page})" not in README] == []


def test_the_file_map_names_what_is_there() -> None:
    lines = README.split("## Where things are")[1].split("###")[0].strip("\n").split("\n")
    named, folder = [], Path()
    for line in filter(None, lines):
        indent, name = len(line) - len(line.lstrip()), line.split()[0]
        folder = Path(name) if indent == 4 else folder
        named.append(folder if indent == 4 else folder / name)
    assert len(named) > 15
    assert [str(name) for name in named if not (ROOT / name).exists()] == []
    rooms = {path.parent.name for path in (ROOT / "mt").glob("*/__init__.py")}
    assert rooms <= {name.name for name in named}, "a package of mt/ is missing from the file map"


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_is_in_the_readme(command: str) -> None:
    assert f"| `mt {command} " in README


@pytest.mark.parametrize("page", PAGES)
def test_commands_named_exist(page: str) -> None:
    named = re.findall(r"(?:^ {4}|`|bin/|\| )mt ([a-z]+) [A-Za-z<-]", text_of(page), re.MULTILINE)
    assert set(named) <= set(COMMANDS)


@pytest.mark.parametrize("page", PAGES)
def test_recipes_named_exist(page: str) -> None:
    named = re.findall(
        r"(?:^ {4,}|`|bin/)mt (?:run|fetch|prepare|train) ([a-z][\w-]+)\b(?![\w./])", text_of(page), re.MULTILINE
    )
    assert set(named) <= set(shipped_recipes())


@pytest.mark.parametrize("benchmark", [path.stem for path in (ROOT / "benchmarks").glob("[a-z]*.py")])
def test_each_benchmark_says_how_it_is_run(benchmark: str) -> None:
    assert f"\n    python -m benchmarks.{benchmark} " in text_of("benchmarks/README.md")


@pytest.mark.parametrize("recipe", shipped_recipes())
def test_each_recipe_is_in_the_recipes_page(recipe: str) -> None:
    assert f"`{recipe}`" in text_of("recipes/README.md")


def test_the_readmes_recipe_is_one(tmp_path: Path) -> None:
    written = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    assert len(written) == 1
    (tmp_path / "mine.yaml").write_text(written[0], encoding="utf-8")
    recipe = load_recipe(tmp_path / "mine.yaml")
    assert recipe.model_dir == tmp_path / "runs" / "mine"


def test_the_readmes_python_compiles() -> None:
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        ast.parse(block)


def plug_points() -> list[tuple[str, str]]:
    """(table, file) of each row of the README's table of additions."""
    rows = re.findall(r"^\| [\w -]+ \| [^|]*\| (`.*` in `.*`) \|$", README, re.MULTILINE)
    return [(table, file) for row in rows for *tables, file in [re.findall(r"`([^`]+)`", row)] for table in tables]


@pytest.mark.parametrize(("table", "file"), plug_points())
def test_plug_points_are_where_the_readme_says(table: str, file: str) -> None:
    assert re.search(rf"^{table}\b.*= \{{", text_of(file), re.MULTILINE)


def test_there_are_plug_points() -> None:
    assert {"ENCODERS", "SEARCHES", "METRICS", "FILTERS", "SCHEDULES", "COMMANDS"} <= {
        table for table, _ in plug_points()
    }


def test_ci_runs_the_readmes_test_command() -> None:
    commands = re.findall(r"^ {4}(make \w+) ", README, re.MULTILINE)
    assert commands[:2] == ["make demo", "make test"]
    assert "make test" in text_of(".ci/run").split("\n")
    for command in commands:
        assert re.search(rf"^{command.split()[1]}:", text_of("Makefile"), re.MULTILINE)
    assert text_of("Makefile").count("torch==2.13.0") == 1
    assert "\ntorch==2.13.0\n" in text_of("requirements.lock")


def test_the_locks_pin_what_pyproject_asks_for() -> None:
    project = text_of("pyproject.toml")
    demo = re.findall(
        r'"([\w-]+)>=', project.split("dependencies = [")[1].split("]")[0] + project.split("demo = [")[1].split("]")[0]
    )
    pins = set(re.findall(r"^([\w-]+)==", text_of("requirements.lock"), re.MULTILINE))
    assert len(demo) == 10
    assert {name.lower() for name in demo} <= pins
    assert pins <= set(re.findall(r"^([\w-]+)==", text_of("requirements-dev.lock"), re.MULTILINE))


def test_the_tests_environment_has_every_extra() -> None:
    """What only an extra brings would otherwise never be tested where `make test` is all that runs."""
    project = text_of("pyproject.toml")
    extras = project[project.index("[project.optional-dependencies]") : project.index("[project.scripts]")]
    names = set(re.findall(r"^([\w-]+) = \[", extras, re.MULTILINE)) - {"dev"}
    assert f'"mt-toolkit[{",".join(sorted(names))}]"' in extras
    asked = set(re.findall(r'"([\w-]+)(?:>=|")', extras)) - {"mt-toolkit"}
    assert {name.lower() for name in asked} <= set(
        re.findall(r"^([\w-]+)==", text_of("requirements-dev.lock"), re.MULTILINE)
    )
