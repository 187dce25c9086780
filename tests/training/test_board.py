"""What TensorBoard is shown of a log: each step once, also of a training that was resumed."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest

from mt.errors import MissingExtraError
from mt.training.board import Board, check_installed
from mt.training.log import EventLog


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Tag -> steps and values, as TensorBoard's own reader finds them, in the order of the files."""
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    found: dict[str, list[tuple[int, float]]] = {}
    for path in sorted(folder.iterdir()):
        for event in EventFileLoader(str(path)).Load():
            for value in event.summary.value:
                found.setdefault(value.tag, []).append((event.step, value.tensor.float_val[0]))
    return found


@pytest.fixture
def _tensorboard() -> None:
    pytest.importorskip("tensorboard", reason="needs the extra tensorboard")


@pytest.mark.usefixtures("_tensorboard")
def test_steps_are_there_once_after_resuming(tmp_path: Path) -> None:
    """Also where the training that is resumed was without TensorBoard, or was killed after the last checkpoint."""
    log, folder = tmp_path / "log.jsonl", tmp_path / "tensorboard"
    with EventLog(log) as first:
        first.write("trained", {"update": 1, "epoch": 0.1, "tokens": 9, "seconds": 1.0, "loss": 4.0, "skipped": 0})
    for update, losses in ((1, (3.0, 2.0)), (2, (2.5, 1.5))):
        with EventLog(log, update, Board(folder)) as resumed:
            for number, loss in enumerate(losses, start=update + 1):
                resumed.write("trained", {"update": number, "loss": loss})
                resumed.write("validated", {"update": number, "loss": loss + 1, "bleu": math.nan, "best": True})
            resumed.write("saved", {"update": number})
    found = scalars(folder)
    assert found.keys() == {"train/loss", "train/skipped", "valid/loss", "valid/bleu"}
    assert found["train/loss"] == [(1, 4.0), (2, 3.0), (3, 2.5), (4, 1.5)]
    assert found["valid/loss"] == [(2, 4.0), (3, 3.5), (4, 2.5)]
    assert [step for step, value in found["valid/bleu"] if math.isnan(value)] == [2, 3, 4]


@pytest.mark.usefixtures("_tensorboard")
def test_what_a_training_takes_back_is_taken_back(tmp_path: Path) -> None:
    with EventLog(tmp_path / "log", board=Board(tmp_path / "board")) as log:
        for update in (1, 2, 3):
            log.write("trained", {"update": update, "loss": 4.0 / update})
        log.cut(1)
        log.write("trained", {"update": 2, "loss": 0.5})
    assert scalars(tmp_path / "board") == {"train/loss": [(1, 4.0), (2, 0.5)]}


def test_a_missing_package_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(MissingExtraError) as caught:
        check_installed()
    assert str(caught.value) == "train.tensorboard needs an optional package: pip install 'mt-toolkit[tensorboard]'."
