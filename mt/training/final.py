"""The final model of a run: the mean of the checkpoints that the recipe names, as one file in the run folder.

    model.safetensors    weights: all that translation needs
    model.json           what they are the mean of, and their size and SHA-256

`model.json` is there only beside the very weights that it describes; by being there it says that training came to its
end. Without it (a model may be given away alone), or where it names no checksum, as those of early runs, weights are
read unchecked, save that safetensors finds a torn file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from mt.errors import DataError, RunError
from mt.text.files import read_json, write_json
from mt.training.checkpoint import WEIGHTS, Checkpoints
from mt.training.checksum import DamagedError, Known, check_file, checksum
from mt.training.config import AverageConfig, TrainConfig
from mt.training.state import TrainingState
from mt.training.weights import average, write_tensors

DESCRIPTION = "model.json"


def write_final(run: Path, config: AverageConfig) -> list[int]:
    """Write `model.safetensors`, the mean of checkpoints, and `model.json`; return the checkpoints' updates.

    Without any validation the best are the last. Where there are fewer than `config.n`, all there are.

    Raises:
        RunError: a checkpoint is damaged, or the model could not be written; one that was there before is untouched.
    """
    checkpoints = Checkpoints(run)
    updates = _chosen(checkpoints, config)
    files = _whole(checkpoints, updates)
    aside = run / f".{WEIGHTS}.aside"
    try:
        write_tensors(aside, average(files))
        with aside.open("rb+") as file:
            os.fsync(file.fileno())
        described = {"mean_of": [checkpoints.path(update).name for update in updates], **checksum(aside)}
        (run / DESCRIPTION).unlink(missing_ok=True)
        aside.replace(run / WEIGHTS)
    except (OSError, SafetensorError) as error:
        aside.unlink(missing_ok=True)
        raise RunError(f"{run / WEIGHTS} could not be written ({error}): make room there and train again.") from error
    write_json(run / DESCRIPTION, described)
    return updates


def _chosen(checkpoints: Checkpoints, config: AverageConfig) -> list[int]:
    """The updates of the checkpoints that the final model is the mean of."""
    last = checkpoints.last(config.n)
    return sorted((checkpoints.best(config.n) or last) if config.of == "best" else last)


@dataclass(frozen=True)
class TrainReport:
    """How a training ended."""

    state: TrainingState
    reason: str
    finished: bool
    """False where it was asked to stop; the same command goes on."""
    final: list[int]
    """The updates whose checkpoints the final model is the mean of; empty while training is not finished."""


def finished_training(run: Path, config: TrainConfig, corpus: str, validates: bool) -> TrainReport | None:
    """The training in `run`, if nothing of it is left to be done; None too where something of it is damaged.

    Args:
        corpus: the fingerprint of the prepared corpus.
        validates: whether there is a validation text.
    """
    checkpoints = Checkpoints(run)
    try:
        state = checkpoints.state(max(checkpoints.updates(), default=0))
        updates, described = _chosen(checkpoints, config.average), read_json(run / DESCRIPTION)
        final_weights(run)
    except (RunError, DataError):
        return None
    reason = state.end(config)
    is_whole = isinstance(described, dict) and described.get("mean_of") == [
        checkpoints.path(update).name for update in updates
    ]
    is_validated = not validates or state.scored == state.update
    if reason and is_whole and is_validated and state.data == corpus:
        return TrainReport(state, reason, True, updates)
    return None


def _whole(checkpoints: Checkpoints, updates: Iterable[int]) -> list[Path]:
    """The files of the weights, each compared with its checksum."""
    try:
        return [checkpoints.weights(update).path for update in updates]
    except DamagedError as error:
        raise RunError(
            f"{error} The final model is to be the mean of it and others: restore it, or delete that folder to do "
            "without, and train again."
        ) from error


def final_weights(run: Path) -> Known:
    """The file of the final model's weights, compared with the size and checksum in `model.json`, if that is there.

    Raises:
        RunError: there is no final model, it is damaged, or `model.json` is.
    """
    if not (run / WEIGHTS).is_file():
        raise RunError(f"{run} has no final model: let mt train end, or choose a checkpoint (best, last, ...).")
    if (run / DESCRIPTION).exists() and (expected := _checksum(run / DESCRIPTION)):
        try:
            return check_file(run / WEIGHTS, expected)
        except DamagedError as error:
            raise RunError(f"{error} Restore it, or train again: mt train makes it from its checkpoints.") from error
    return Known.of(run / WEIGHTS)


def _checksum(path: Path) -> dict[str, Any]:
    try:
        described = dict(read_json(path))
    except (DataError, TypeError, ValueError):
        raise RunError(
            f"{path} is damaged, so that {WEIGHTS} cannot be compared with the checksum in it: restore it, or delete "
            "it to use the model unchecked."
        ) from None
    return {key: described[key] for key in ("bytes", "sha256") if {"bytes", "sha256"} <= described.keys()}
