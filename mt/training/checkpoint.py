"""Checkpoints of a run folder:

    checkpoints/step-00000100/model.safetensors       weights
                              optimizer.safetensors   optimiser's state
                              state.json              format version, `TrainingState`, size and SHA-256 of both files

A checkpoint is written aside and renamed when it is whole; none is deleted before its successor is.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from torch import Tensor

from mt.errors import RunError
from mt.training.checksum import DamagedError, Known, check_file, checksum
from mt.training.state import TrainingState
from mt.training.weights import read_tensors, write_tensors

VERSION, READABLE = 2, (1, 2)
"""Of the format: 2 has more in its state, for all of which there is a default."""
WEIGHTS, OPTIMIZER, STATE = "model.safetensors", "optimizer.safetensors", "state.json"
_NAME = re.compile(r"step-(\d{8,})")
_ASIDE = ".aside-"


@dataclass(frozen=True)
class Checkpoint:
    """A saved training: its state, the model's weights, and what the optimiser remembers."""

    state: TrainingState
    weights: Mapping[str, Tensor]
    optimizer: Mapping[str, Tensor]


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of the run folder `run`. Their number is that of the update they were made after."""

    run: Path

    @property
    def folder(self) -> Path:
        return self.run / "checkpoints"

    def path(self, update: int) -> Path:
        """The folder of the checkpoint of `update`."""
        return self.folder / f"step-{update:08d}"

    def updates(self) -> list[int]:
        """Updates that have a checkpoint, the earliest first. Anything else in the folder is let be."""
        if not self.folder.is_dir():
            return []
        names = (_NAME.fullmatch(entry.name) for entry in self.folder.iterdir() if entry.is_dir())
        return sorted(int(name[1]) for name in names if name)

    def save(self, checkpoint: Checkpoint) -> Path:
        """Save a checkpoint, in place of one of the same update or of later ones; return its folder.

        Later ones are left from before training went back to a whole one: they are damaged, and never the newest again.

        Raises:
            RunError: it could not be written. All that was there before is untouched.
        """
        path = self.path(checkpoint.state.update)
        aside = self._aside(path)
        try:
            self._sweep()
            aside.mkdir(parents=True)
            _write(aside, checkpoint)
            if path.exists():
                path.rename(self._aside(path, "-old"))
            aside.rename(path)
            _sync(self.folder)
        except (OSError, SafetensorError) as error:
            shutil.rmtree(aside, ignore_errors=True)
            raise RunError(
                f"{path} could not be written ({error}): the checkpoints before it are whole; "
                "make room there and run the same command again."
            ) from error
        self._drop([update for update in self.updates() if update > checkpoint.state.update])
        return path

    def load(self, update: int) -> Checkpoint:
        """Load the checkpoint of `update` to the CPU.

        Raises:
            DamagedError: it is torn or was changed.
            RunError: it does not exist, or a toolkit of another format version wrote it.
        """
        path = self.path(update)
        state = self.state(update)
        return Checkpoint(state, read_tensors(path / WEIGHTS), read_tensors(path / OPTIMIZER))

    def state(self, update: int) -> TrainingState:
        """The state of the checkpoint of `update`, whose files are compared with their checksums. Raises as `load`."""
        path = self.path(update)
        state, files = _read_state(path)
        for name, expected in files.items():
            check_file(path / name, expected)
        return state

    def weights(self, update: int) -> Known:
        """The file of the weights of `update`, compared with its checksum. Raises as `load`."""
        path = self.path(update)
        _, files = _read_state(path)
        return check_file(path / WEIGHTS, files[WEIGHTS])

    def newest(self, accept: Callable[[TrainingState], bool] = lambda _: True) -> tuple[Checkpoint | None, list[str]]:
        """The newest whole checkpoint that `accept` takes, if any, and a sentence for each damaged newer one.

        Raises:
            RunError: all are damaged, or a toolkit of another format version wrote the newest.
        """
        notices: list[str] = []
        for update in reversed(self.updates()):
            try:
                if accept(_read_state(self.path(update))[0]):
                    return self.load(update), notices
            except DamagedError as error:
                notices.append(str(error))
        if notices:
            raise RunError(
                f"{self.folder} has no whole checkpoint left, and training would begin anew: restore one, choose "
                f"another model_dir, or delete that training with --overwrite. {notices[0]}"
            )
        return None, notices

    def best(self, count: int) -> list[int]:
        """The `count` best checkpoints by the metric of their training, the best first; of equal ones the earlier."""
        ranks = (state.rank for state in self._states().values())
        return [update for _, update in sorted(rank for rank in ranks if rank is not None)[:count]]

    def is_among_best(self, state: TrainingState, count: int) -> bool:
        """Whether a checkpoint of `state` would be one of the `count` best."""
        if state.rank is None:
            return False
        others = (other.rank for update, other in self._states().items() if update != state.update)
        return sum(rank is not None and rank < state.rank for rank in others) < count

    def last(self, count: int) -> list[int]:
        """The `count` newest checkpoints, the earliest first.

        One that was saved for no period's sake, but since training stopped, is none of them once there is a newer one:
        training that was stopped keeps the checkpoints of one that was not.
        """
        updates = self.updates()
        unscheduled = {update for update, state in self._states().items() if state.unscheduled == update}
        return [update for update in updates if update not in unscheduled or update == updates[-1]][-count:]

    def prune(self, keep_last: int, keep_best: int, keep_good: int = 1) -> list[int]:
        """Delete all but the newest `keep_last`, the best `keep_best` and milestones; return the deleted updates.

        The newest `keep_good` of those that were made when updates worked are always kept.
        """
        states = self._states()
        good = [update for update, state in states.items() if not state.skipped_in_row]
        milestones = [update for update, state in states.items() if state.milestone == update]
        kept = {*self.last(keep_last), *self.best(keep_best), *good[-keep_good:], *milestones}
        dropped = [update for update in self.updates() if update not in kept]
        self._drop(dropped)
        return dropped

    def budget(self) -> int | None:
        """Tokens of a micro-batch of this training, where a checkpoint says so."""
        return next((state.batch_tokens for state in self._states().values() if state.batch_tokens), None)

    def corpora(self) -> set[str]:
        """Fingerprints of the prepared corpora that they were trained on."""
        return {state.data for state in self._states().values()}

    def _states(self) -> dict[int, TrainingState]:
        """The states that can be read, by their update, the earliest first; their checkpoints may still be torn."""
        states = {}
        for update in self.updates():
            with contextlib.suppress(DamagedError):
                states[update], _ = _read_state(self.path(update))
        return states

    def _drop(self, updates: list[int]) -> None:
        for update in updates:
            # Renamed first: what bears a checkpoint's name is whole at any moment.
            self.path(update).rename(self._aside(self.path(update)))
        self._sweep()

    def _aside(self, path: Path, suffix: str = "") -> Path:
        return self.folder / f"{_ASIDE}{path.name}{suffix}"

    def _sweep(self) -> None:
        """Delete what an ended process left aside."""
        for left in self.folder.glob(_ASIDE + "*"):
            shutil.rmtree(left, ignore_errors=True)


def _write(folder: Path, checkpoint: Checkpoint) -> None:
    write_tensors(folder / WEIGHTS, checkpoint.weights)
    write_tensors(folder / OPTIMIZER, checkpoint.optimizer)
    files = {name: checksum(folder / name) for name in (WEIGHTS, OPTIMIZER)}
    content = {"version": VERSION, "state": checkpoint.state.to_json(), "files": files}
    (folder / STATE).write_text(json.dumps(content, indent=2, allow_nan=False) + "\n", "utf-8")
    for name in (WEIGHTS, OPTIMIZER, STATE):
        _sync(folder / name)
    _sync(folder)


def _sync(path: Path) -> None:
    """Have the disk hold what was written: a file, or (where the system can) the names in a folder."""
    if path.is_dir() and os.name == "nt":
        return
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read_state(path: Path) -> tuple[TrainingState, dict[str, dict[str, Any]]]:
    if not path.is_dir():
        raise RunError(f"{path} does not exist.")
    try:
        content = json.loads((path / STATE).read_text("utf-8"))
        version = content["version"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedError(f"{path} is damaged: its {STATE} cannot be read.") from error
    if version not in READABLE:
        raise RunError(
            f"{path} has version {version} of the checkpoint format, but this toolkit reads versions "
            f"{READABLE[0]} to {READABLE[-1]}: use the toolkit that wrote it."
        )
    try:
        files = {name: dict(content["files"][name]) for name in (WEIGHTS, OPTIMIZER)}
        return TrainingState.from_json(content["state"]), files
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedError(f"{path} is damaged: its {STATE} is not as this toolkit writes it.") from error
