from __future__ import annotations

import errno
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from mt.errors import RunError
from mt.training import checkpoint as module
from mt.training.checkpoint import OPTIMIZER, STATE, WEIGHTS, Checkpoint, Checkpoints
from mt.training.checksum import DamagedError
from mt.training.state import TrainingState


def made(update: int, value: float | None = None, metric: str = "loss") -> Checkpoint:
    state = TrainingState(metric=metric, update=update)
    if value is not None:
        state = state.after_validation({metric: value})
    return Checkpoint(state, {"w": torch.full((4,), float(update))}, {"w/exp_avg": torch.ones(4)})


@pytest.fixture
def checkpoints(tmp_path: Path) -> Checkpoints:
    return Checkpoints(tmp_path / "run")


def names(checkpoints: Checkpoints) -> list[str]:
    return sorted(entry.name for entry in checkpoints.folder.iterdir())


def test_a_checkpoint_comes_back_as_it_was(checkpoints: Checkpoints) -> None:
    path = checkpoints.save(made(100, 2.5))
    assert path == checkpoints.run / "checkpoints" / "step-00000100"
    loaded = checkpoints.load(100)
    assert loaded.state == made(100, 2.5).state
    assert torch.equal(loaded.weights["w"], torch.full((4,), 100.0))
    assert torch.equal(loaded.optimizer["w/exp_avg"], torch.ones(4))
    assert names(checkpoints) == ["step-00000100"]
    assert sorted(file.name for file in path.iterdir()) == sorted([WEIGHTS, OPTIMIZER, STATE])


def test_a_run_folder_can_be_moved(checkpoints: Checkpoints, tmp_path: Path) -> None:
    checkpoints.save(made(100))
    moved = checkpoints.run.rename(tmp_path / "moved")
    assert Checkpoints(moved).load(100).state.update == 100


def test_checkpoints_are_sorted_by_number(checkpoints: Checkpoints) -> None:
    """Fault 61: save_every 100, keep_last 2, up to 1100; the best is older."""
    for update in range(100, 1200, 100):
        checkpoints.save(made(update, abs(update - 300)))
        checkpoints.prune(keep_last=2, keep_best=1)
    assert checkpoints.updates() == [300, 1000, 1100]
    newest, notices = checkpoints.newest()
    assert newest is not None
    assert newest.state.update == 1100
    assert notices == []


def test_numbers_may_grow_wider_than_their_padding(checkpoints: Checkpoints) -> None:
    """Fault 61."""
    for update in (900, 99_999_999, 100_000_000):
        checkpoints.save(made(update))
    assert checkpoints.updates() == [900, 99_999_999, 100_000_000]


@pytest.mark.parametrize(("metric", "best"), [("loss", [200, 300]), ("bleu", [100, 400])])
def test_the_best_are_those_of_the_metric(checkpoints: Checkpoints, metric: str, best: list[int]) -> None:
    """Fault 56: direction by metric, the earlier of equal ones."""
    for update, value in ((100, 9.0), (200, 1.0), (300, 1.0), (400, 9.0), (500, 5.0)):
        checkpoints.save(made(update, value, metric))
    assert checkpoints.best(2) == best
    assert checkpoints.best(1) == best[:1]
    assert checkpoints.prune(keep_last=1, keep_best=1) == [
        update for update in (100, 200, 300, 400) if update != best[0]
    ]


def test_only_a_number_can_be_best(checkpoints: Checkpoints) -> None:
    """Fault 58: neither NaN nor a checkpoint without validation."""
    for update, value in ((100, float("nan")), (200, 3.0), (300, None), (400, 2.5)):
        checkpoints.save(made(update, value))
    assert checkpoints.best(9) == [400, 200]


def test_without_keep_best_only_the_newest_stay(checkpoints: Checkpoints) -> None:
    for update in (100, 200, 300):
        checkpoints.save(made(update, update))
    assert checkpoints.prune(keep_last=1, keep_best=0) == [100, 200]
    assert names(checkpoints) == ["step-00000300"]


def test_other_files_in_the_folder_are_let_be(checkpoints: Checkpoints) -> None:
    checkpoints.save(made(100))
    (checkpoints.folder / "step-best").mkdir()
    (checkpoints.folder / "notes.txt").write_text("mine")
    checkpoints.save(made(200))
    checkpoints.prune(keep_last=1, keep_best=0)
    assert names(checkpoints) == ["notes.txt", "step-00000200", "step-best"]


def torn(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-2])


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


DAMAGE: list[tuple[str, Any, str]] = [
    (WEIGHTS, torn, "model.safetensors has {smaller} bytes, but had {size}."),
    (OPTIMIZER, flipped, "optimizer.safetensors was changed after it was written."),
    (OPTIMIZER, Path.unlink, "optimizer.safetensors is missing."),
    (STATE, torn, "its state.json cannot be read."),
    (STATE, Path.unlink, "its state.json cannot be read."),
    (STATE, lambda path: path.write_text("[]"), "its state.json cannot be read."),
    (STATE, lambda path: path.write_text('{"version": 1}'), "its state.json is not as this toolkit writes it."),
    (
        STATE,
        lambda path: path.write_text('{"version": 1, "state": {}, "files": {}}'),
        "its state.json is not as this toolkit writes it.",
    ),
]


@pytest.mark.parametrize(("name", "damage", "sentence"), DAMAGE)
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_taken(
    checkpoints: Checkpoints, name: str, damage: Any, sentence: str
) -> None:
    checkpoints.save(made(100))
    path = checkpoints.save(made(200))
    size = (path / name).stat().st_size
    damage(path / name)
    with pytest.raises(DamagedError):
        checkpoints.load(200)
    newest, notices = checkpoints.newest()
    assert newest is not None
    assert newest.state.update == 100
    assert notices == [f"{path} is damaged: " + sentence.format(size=size, smaller=size - 2)]
    checkpoints.save(made(200))
    assert checkpoints.load(200).state.update == 200
    assert names(checkpoints) == ["step-00000100", "step-00000200"]


def test_training_that_went_back_does_not_lose_its_newest_to_a_damaged_one(checkpoints: Checkpoints) -> None:
    checkpoints.save(made(100))
    torn(checkpoints.save(made(200)) / WEIGHTS)
    checkpoints.save(made(150))
    checkpoints.prune(keep_last=1, keep_best=0)
    assert names(checkpoints) == ["step-00000150"]


def test_training_does_not_begin_anew_where_all_are_damaged(checkpoints: Checkpoints) -> None:
    path = checkpoints.save(made(100))
    (path / OPTIMIZER).unlink()
    with pytest.raises(RunError) as caught:
        checkpoints.newest()
    assert str(caught.value) == (
        f"{checkpoints.folder} has no whole checkpoint left, and training would begin anew: restore one, choose "
        "another model_dir, or delete that training with --overwrite. "
        f"{path} is damaged: optimizer.safetensors is missing."
    )


def test_without_a_checkpoint_there_is_no_newest(checkpoints: Checkpoints) -> None:
    assert checkpoints.newest() == (None, [])
    with pytest.raises(RunError) as caught:
        checkpoints.load(7)
    assert str(caught.value) == f"{checkpoints.path(7)} does not exist."


def test_a_version_of_the_future_is_refused(checkpoints: Checkpoints) -> None:
    """Fault 62: the sentence names both versions; an older checkpoint is not taken instead."""
    checkpoints.save(made(100))
    path = checkpoints.save(made(200))
    content = json.loads((path / STATE).read_text())
    (path / STATE).write_text(json.dumps({**content, "version": 7}))
    with pytest.raises(RunError) as caught:
        checkpoints.newest()
    assert str(caught.value) == (
        f"{path} has version 7 of the checkpoint format, but this toolkit reads versions 1 to 2: "
        "use the toolkit that wrote it."
    )


def test_the_version_before_is_read(checkpoints: Checkpoints) -> None:
    """Fault 62: its state has less in it."""
    path = checkpoints.save(made(200, 3.0))
    content = json.loads((path / STATE).read_text())
    new = ("loss_scale", "lr_scale", "rewinds", "skipped_in_row", "cuts", "batch_tokens", "validating", "saving")
    state = {name: value for name, value in content["state"].items() if name not in (*new, "unscheduled", "milestone")}
    (path / STATE).write_text(json.dumps({**content, "version": 1, "state": state}))
    assert checkpoints.state(200) == made(200, 3.0).state
    assert checkpoints.best(1) == checkpoints.last(1) == [200]


def full_disk(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("update", [100, 200])
@pytest.mark.parametrize("failing", ["write_tensors", "checksum", "_sync", "json.dumps"])
def test_a_full_disk_leaves_what_was_there(
    checkpoints: Checkpoints, monkeypatch: pytest.MonkeyPatch, failing: str, update: int
) -> None:
    """Fault 90, in training: at any moment, also when a checkpoint is written anew."""
    checkpoints.save(made(100, 1.0))
    with monkeypatch.context() as patch:
        patch.setattr(f"mt.training.checkpoint.{failing}", full_disk)
        with pytest.raises(RunError) as caught:
            checkpoints.save(made(update, 2.0))
    assert str(caught.value) == (
        f"{checkpoints.path(update)} could not be written ([Errno 28] No space left on device): "
        "the checkpoints before it are whole; make room there and run the same command again."
    )
    assert names(checkpoints) == ["step-00000100"]
    assert checkpoints.load(100).state.value == 1.0


def test_what_a_killed_process_left_aside_is_no_checkpoint(
    checkpoints: Checkpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints.save(made(100))

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, "_sync", killed)
        with pytest.raises(KeyboardInterrupt):
            checkpoints.save(made(200))
    assert checkpoints.updates() == [100]
    checkpoints.save(made(300))
    assert names(checkpoints) == ["step-00000100", "step-00000300"]


def test_nothing_is_deleted_before_its_successor_is_whole(
    checkpoints: Checkpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint that is dropped loses its name before its files."""
    for update in (100, 200):
        checkpoints.save(made(update))
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", lambda *_, **__: None)
        checkpoints.prune(keep_last=1, keep_best=0)
    assert checkpoints.updates() == [200]


def test_a_checkpoint_of_the_same_update_is_replaced(checkpoints: Checkpoints) -> None:
    checkpoints.save(made(100))
    checkpoints.save(replace(made(100, 4.0), weights={"w": torch.zeros(1)}))
    assert checkpoints.load(100).state.value == 4.0
    assert checkpoints.load(100).weights["w"].tolist() == [0.0]
    assert names(checkpoints) == ["step-00000100"]
