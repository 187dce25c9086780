"""The run folder as a whole: who may write in it, and how a training is taken out of it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from mt.errors import RunError
from mt.text.locks import take

LOCK = ".lock"
LOG = "log.jsonl"
BOARD = "tensorboard"
_TRAINED = ("model.json", "model.safetensors", "scores.json", "translations", "validations", LOG, BOARD, "checkpoints")
_DELETED = ".deleted-"


@contextmanager
def locked(run: Path) -> Iterator[None]:
    """Be the only process that trains in `run`. The system lifts the lock of a process that ends, however it ends.

    Raises:
        RunError: another process is at it, or the folder cannot be made.
    """
    try:
        run.mkdir(parents=True, exist_ok=True)
        file = (run / LOCK).open("ab+")
    except OSError as error:
        raise RunError(f"{run} cannot be used as a run folder ({error}).") from error
    with file:
        if holder := take(file):
            raise RunError(
                f"{run} is in use by another command ({holder}): wait until it ends or choose another model_dir."
            )
        yield


@contextmanager
def idle(run: Path) -> Iterator[None]:
    """Let no process train in `run`, where one ever did. Raises as `locked`."""
    with locked(run) if (run / LOCK).exists() else nullcontext():
        yield


def clear(run: Path) -> None:
    """Delete all that training made in `run` and what was made with its model; the prepared corpus stays.

    Raises:
        RunError: something could not be deleted.
    """
    try:
        _sweep(run)
        for name in _TRAINED:
            path = run / name
            if path.is_dir() and not path.is_symlink():
                # Renamed first: half-deleted checkpoints must not look like a training.
                path.rename(run / f"{_DELETED}{name}")
            else:
                path.unlink(missing_ok=True)
        _sweep(run)
    except OSError as error:
        raise RunError(f"The training in {run} could not be deleted ({error}).") from error


def _sweep(run: Path) -> None:
    for left in run.glob(_DELETED + "*"):
        shutil.rmtree(left)
