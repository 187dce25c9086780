"""Ways to call `mt` in tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from cli.main import main
from mt.events import finish
from mt.pipeline import run
from mt.recipe import load_recipe
from tests.tiny import write_task

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Called:
    """What a call of `mt` left behind."""

    code: int
    out: str
    err: str


Call = Callable[..., Called]


@pytest.fixture
def mt(capsys: pytest.CaptureFixture[str]) -> Call:
    """Call `mt` in this process."""

    def call(*arguments: object) -> Called:
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main([str(argument) for argument in arguments])
        assert isinstance(end.value.code, int)
        return Called(end.value.code, *capsys.readouterr())

    return call


def start(*arguments: object, environment: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Call `mt` in a process of its own, and let it run."""
    command = [sys.executable, "-m", "mt", *map(str, arguments)]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "PYTHON"))}
    settings = {**inherited, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **(environment or {})}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=settings)


def shell(
    *arguments: object, stdin: bytes = b"", environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Call `mt` in a process of its own, and wait for its end."""
    with start(*arguments, environment=environment) as process:
        out, err = process.communicate(stdin)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run folder of a tiny training; tests leave it as it is."""
    recipe = load_recipe(write_task(tmp_path_factory.mktemp("tiny")))
    finish(run(recipe))
    return recipe.model_dir
