"""What holds for the repository as a whole: import direction, light start-up, packages, and what is never committed."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# Top to bottom: a room imports what stands below it, never its own row's other rooms. A room is a package or a module.
ROWS: tuple[tuple[str, ...], ...] = (
    ("mt.__main__",),
    ("cli",),
    ("mt.pipeline",),
    ("mt.train",),
    ("mt.trainer",),
    ("mt.validation", "mt.evaluate", "mt.export", "mt.inspection"),
    ("mt.translate", "mt.score", "mt.prepare", "mt.fetch", "mt.estimate", "mt.plot"),
    ("mt.workers",),
    ("mt.translator", "mt.checks", "mt.reference", "mt.curves", "mt.heat_map", "mt.module_tree"),
    ("mt.window", "mt.shards", "mt.given", "mt.pictures"),
    ("mt.recipe", "mt.training", "mt.corpora", "mt.interop", "mt.engine", "mt.lines"),
    ("mt.ensemble",),
    ("mt.models", "mt.search", "mt.objectives", "mt.scoring"),
    ("mt.nn",),
    ("mt.seq2seq",),
    ("mt.data",),
    ("mt.text",),
    # The blocks of a recipe: read and checked before anything heavy is imported.
    ("mt.training.config", "mt.models.config", "mt.search.config", "mt.scoring.config"),
    ("mt.data.config",),
    ("mt.text.config",),
    ("mt.config_reader",),
    ("mt.config", "mt.yaml_tree", "mt.synonyms", "mt.device", "mt.place"),
    ("mt.errors", "mt.events"),
)
RANKS = {room: rank for rank, row in enumerate(ROWS) for room in row}
SOURCES = sorted(path for folder in ("mt", "cli") for path in (ROOT / folder).rglob("*.py"))
HEAVY = ("torch", "sentencepiece", "sacrebleu", "safetensors", "babel", "num2words")


def module_name(path: Path) -> str:
    """`mt/text/files.py` -> `mt.text.files`; a package's `__init__.py` -> the package."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_name(path): path for path in SOURCES}


def room_of(module: str) -> str:
    """The package or top-level module that `module` belongs to."""
    parts = module.split(".")
    return "cli" if parts[0] == "cli" else ".".join(parts[:2])


@cache
def tree_of(path: Path) -> ast.Module:
    """The file, parsed."""
    return ast.parse(path.read_text(encoding="utf-8"))


def imports_of(path: Path) -> Iterator[tuple[int, str]]:
    """(line, module) of each import in `path`, those inside functions and for type checkers included."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are written in full, without leading dots"
            base = node.module or ""
            for alias in node.names:
                full = f"{base}.{alias.name}"
                yield node.lineno, full if full in MODULES else base


def rank_of(module: str) -> int:
    """The row of `module`: a package's `config` has its own, below all packages."""
    room = module if module in RANKS else room_of(module)
    assert room in RANKS, f"{module} has no row: add {room} to ROWS, where it belongs"
    return RANKS[room]


def upward_imports(module: str, path: Path) -> list[str]:
    """Imports of `module` that do not go downwards."""
    found = []
    for line, name in imports_of(path):
        ours = name.split(".")[0] in ("mt", "cli") and name != "mt"
        same_room = room_of(name) == room_of(module)  # a config builds its owner: inside a room all directions are free
        if ours and not same_room and rank_of(name) <= rank_of(module):
            found.append(f"{path.relative_to(ROOT)}:{line}: {module} must not import {name}")
    return found


def test_imports_go_downwards() -> None:
    assert [found for name in MODULES if name != "mt" for found in upward_imports(name, MODULES[name])] == []


def test_an_upward_or_sideways_import_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    path = tmp_path / "beam.py"
    path.write_text(
        "import mt.scoring.metrics\nfrom mt.translate import Translator\nfrom mt.text.files import read_lines\n"
    )
    assert [message.split(": ", 1)[1] for message in upward_imports("mt.search.beam", path)] == [
        "mt.search.beam must not import mt.scoring.metrics",
        "mt.search.beam must not import mt.translate",
    ]


LIBRARY = {name: path for name, path in MODULES.items() if room_of(name) != "cli"}


def imported(path: Path) -> set[str]:
    """The top-level packages that a file imports."""
    return {name.split(".")[0] for _, name in imports_of(path)}


def test_click_and_progress_bars_stay_in_the_command_line() -> None:
    assert [name for name, path in LIBRARY.items() if imported(path) & {"click", "tqdm"}] == []


def test_the_library_never_prints_or_exits() -> None:
    speaking = {"print", "exit", "sys.exit", "sys.stdout.write", "sys.stderr.write"}
    calls = {
        (name, ast.unparse(node.func))
        for name, path in LIBRARY.items()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call)
    }
    assert [(name, call) for name, call in calls if call in speaking] == []


def loaded_by(statement: str) -> set[str]:
    """The heavy packages that a fresh interpreter has loaded after `statement`."""
    program = f"import sys\n{statement}\nprint('loaded', *(name for name in {HEAVY!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stdout.strip().split("\n")[-1].removeprefix("loaded").split())


def test_import_mt_loads_nothing_heavy() -> None:
    assert loaded_by("import mt") == set()


def test_mt_help_loads_nothing_heavy() -> None:
    assert loaded_by("from cli.main import main\ntry: main(['--help'])\nexcept SystemExit: pass") == set()


def test_reading_a_recipe_and_preparing_load_no_torch() -> None:
    configs = [name for name in MODULES if name.endswith(".config")]
    names = ["mt.recipe", "mt.prepare", "mt.fetch", "mt.data.store", "cli.prepare", *configs]
    assert "torch" not in loaded_by(f"import {', '.join(names)}")


def test_each_package_is_named_in_pyproject() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    listed = re.search(r"^packages = \[(.*?)\]", text, re.DOTALL | re.MULTILINE)
    assert listed is not None
    there = {module_name(path) for path in SOURCES if path.name == "__init__.py"}
    assert set(re.findall(r'"([\w.]+)"', listed[1])) == there | {"mt.recipes"}


def test_each_module_says_what_it_is() -> None:
    trees = {name: tree_of(path) for name, path in MODULES.items()}
    assert [name for name, tree in trees.items() if tree.body and not ast.get_docstring(tree)] == []


PICKLES = {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
LOADERS = {"torch.load", "torch.save", "torch.jit.load", "torch.hub.load"}


def test_nothing_runs_pickled_code() -> None:
    """Fault 62."""
    for name, path in MODULES.items():
        assert not imported(path) & PICKLES, name
        nodes = list(ast.walk(tree_of(path)))
        assert not {ast.unparse(node) for node in nodes if isinstance(node, ast.Attribute)} & LOADERS, name
        assert not [node for node in nodes if isinstance(node, ast.keyword) and node.arg == "allow_pickle"], name


def tracked_texts() -> Iterator[tuple[str, str]]:
    """(name, text) of each file that git knows; there is nothing to check in an unpacked source distribution."""
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        pytest.skip("not a git checkout")
    for name in filter(None, done.stdout.split("\0")):
        if (ROOT / name).is_file():
            yield name, (ROOT / name).read_text(encoding="utf-8")


def test_no_path_of_somebodys_machine_is_committed() -> None:
    path = re.compile(r"(?<![\w.~/])/(?:work|root)/[\w.]")
    found = [
        f"{name}:{number}"
        for name, text in tracked_texts()
        for number, line in enumerate(text.split("\n"), 1)
        if path.search(line)
    ]
    assert found == []


def test_nothing_is_left_open() -> None:
    words = re.compile("|".join(("TO" + "DO", "FIX" + "ME", "HA" + "CK")))
    assert [name for name, text in tracked_texts() if words.search(text)] == []
