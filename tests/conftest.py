"""Fixtures that tests of several packages use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# Before torch is imported, here and in the processes that tests start: on tiny shapes a second thread only costs, and
# on a busy machine the threads of several processes wait for one another.
os.environ.setdefault("OMP_NUM_THREADS", "1")

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of published corpora beside the checkout; a test that needs it is skipped where it is absent."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"{SHARED_DATA} is absent: the published corpora are not part of the project.")
    return SHARED_DATA


@pytest.fixture(scope="session")
def task(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny task that is prepared, and of one with BPE-dropout; see `tests.trainings`."""
    from mt.events import finish
    from mt.prepare import prepare
    from mt.recipe import load_recipe
    from tests.tiny import write_task
    from tests.trainings import BPE

    folder = tmp_path_factory.mktemp("task")
    recipe = write_task(folder)
    finish(prepare(load_recipe(recipe, [f"data.dir={folder / 'words'}"]), workers=1))
    finish(prepare(load_recipe(recipe, [f"data.dir={folder / 'bpe'}", *BPE]), workers=1))
    return folder
