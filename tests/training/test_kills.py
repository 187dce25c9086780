"""kill -9 at many moments, also while files are written: what is resumed is the uninterrupted training, bit for bit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mt.events import finish
from mt.prepare import prepare
from tests.tiny import write_task
from tests.training.kills import SETTINGS, recipe_of

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")


def killed(folder: Path, name: str, seed: int, kills: int) -> str:
    """Train with and without kills in another process; what it says of both."""
    write_task(folder)
    finish(prepare(recipe_of(folder, name, "any"), workers=1))
    command = [sys.executable, "-m", "tests.training.kills", str(folder), name, str(seed), str(kills)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_killed_training_is_the_uninterrupted_one(tmp_path: Path) -> None:
    assert killed(tmp_path, "plain", seed=7, kills=2) == "2 kills; different: nothing"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", SETTINGS)
def test_a_training_killed_many_times_is_the_uninterrupted_one(tmp_path: Path, name: str, seed: int) -> None:
    assert killed(tmp_path, name, seed, kills=40).endswith(" kills; different: nothing")
