from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mt.errors import RunError
from mt.training.run_folder import LOCK, clear, locked


def test_a_second_training_is_refused(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with locked(run), pytest.raises(RunError) as caught, locked(run):
        pass
    assert str(caught.value) == (
        f"{run} is in use by another command (process {os.getpid()}): wait until it ends or choose another model_dir."
    )
    with locked(run):
        pass


def test_the_lock_is_lifted_by_an_exception(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), locked(tmp_path):
        raise KeyboardInterrupt
    with locked(tmp_path):
        pass


def test_the_lock_of_a_killed_process_does_not_block(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from mt.training.run_folder import locked\n"
        "with locked(Path(sys.argv[1])): os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False).returncode != 0
    assert (tmp_path / LOCK).read_text()
    with locked(tmp_path):
        pass


def test_a_file_in_the_place_of_the_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("mine")
    with pytest.raises(RunError, match=r"run cannot be used as a run folder \("), locked(tmp_path / "run"):
        pass


def test_clearing_leaves_no_old_checkpoint_and_spares_the_rest(tmp_path: Path) -> None:
    """Fault 60."""
    for name in (
        "checkpoints/step-00000100/model.safetensors",
        "translations/test.de",
        "validations/step-00000100.de",
        "data/manifest.json",
    ):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("")
    for name in ("model.safetensors", "model.json", "log.jsonl", "scores.json", "recipe.yaml", "notes.txt"):
        (tmp_path / name).write_text("")
    (tmp_path / ".deleted-checkpoints").mkdir()  # left by a process that was killed
    clear(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "notes.txt", "recipe.yaml"]
    clear(tmp_path)
