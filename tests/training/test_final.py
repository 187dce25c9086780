"""The final model: what it is the mean of, and that it is whole."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from mt.errors import RunError
from mt.text.files import read_json, sha256_of, write_json
from mt.training.checkpoint import Checkpoint, Checkpoints
from mt.training.config import AverageConfig, TrainConfig
from mt.training.final import final_weights, finished_training, write_final
from mt.training.state import TrainingState
from mt.training.weights import read_tensors

LAST = AverageConfig(of="last", n=2)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run folder with checkpoints of updates 1 to 3, whose weights are their updates."""
    for update in (1, 2, 3):
        weights = {"w": torch.full((4,), float(update))}
        Checkpoints(tmp_path).save(Checkpoint(TrainingState(update=update, data="corpus"), weights, {}))
    return tmp_path


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-2])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def test_it_is_the_mean_and_is_described(run: Path) -> None:
    assert write_final(run, LAST) == [2, 3]
    assert read_tensors(final_weights(run).path)["w"].tolist() == [2.5] * 4
    file = run / "model.safetensors"
    assert read_json(run / "model.json") == {
        "mean_of": ["step-00000002", "step-00000003"],
        "bytes": file.stat().st_size,
        "sha256": sha256_of(file),
    }


@pytest.mark.parametrize(
    ("damage", "what"),
    [(cut, r"model.safetensors has \d+ bytes, but had \d+\."), (flip, "model.safetensors was changed after it was wr")],
)
def test_a_damaged_one_is_refused_and_made_again(run: Path, damage: Callable[[Path], None], what: str) -> None:
    write_final(run, LAST)
    damage(run / "model.safetensors")
    with pytest.raises(RunError, match=f"^{re.escape(str(run))} is damaged: {what}.*train makes it from its check"):
        final_weights(run)
    write_final(run, LAST)
    assert final_weights(run) == (run / "model.safetensors", sha256_of(run / "model.safetensors"))


@pytest.mark.parametrize(
    ("steps", "average", "corpus", "validates", "reason"),
    [
        (3, LAST, "corpus", False, "train.max_steps 3 reached"),
        (4, LAST, "corpus", False, None),
        (3, AverageConfig(of="last", n=3), "corpus", False, None),
        (3, LAST, "another", False, None),
        (3, LAST, "corpus", True, None),
    ],
)
def test_a_training_is_over_when_nothing_is_left_to_be_done(
    run: Path, steps: int, average: AverageConfig, corpus: str, validates: bool, reason: str | None
) -> None:
    config = TrainConfig(max_steps=steps, average=average, keep_last=3)
    assert finished_training(run, config, corpus, validates) is None
    write_final(run, LAST)
    found = finished_training(run, config, corpus, validates)
    assert (found and found.reason) == reason
    assert found is None or (found.state.update, found.final) == (3, [2, 3])


@pytest.mark.parametrize("damaged", ["model.safetensors", "checkpoints/step-00000003/optimizer.safetensors"])
def test_a_damaged_training_is_not_over(run: Path, damaged: str) -> None:
    write_final(run, LAST)
    (run / damaged).unlink()
    assert finished_training(run, TrainConfig(max_steps=3, average=LAST, keep_last=2), "corpus", False) is None


@pytest.mark.parametrize("description", [b"\xff{", b"[1, 2]", b""])
def test_a_damaged_description_is_named(run: Path, description: bytes) -> None:
    write_final(run, LAST)
    (run / "model.json").write_bytes(description)
    with pytest.raises(RunError) as raised:
        final_weights(run)
    assert str(raised.value) == (
        f"{run / 'model.json'} is damaged, so that model.safetensors cannot be compared with the checksum in it: "
        "restore it, or delete it to use the model unchecked."
    )


def test_without_a_checksum_there_is_nothing_to_compare(run: Path) -> None:
    write_final(run, LAST)
    flip(run / "model.safetensors")
    write_json(run / "model.json", {"mean_of": ["step-00000003"]})
    assert final_weights(run).path.is_file()
    (run / "model.json").unlink()
    assert final_weights(run).path.is_file()


@pytest.mark.parametrize("damage", [cut, flip])
def test_no_mean_is_made_of_a_damaged_checkpoint(run: Path, damage: Callable[[Path], None]) -> None:
    """What was there before is untouched."""
    write_final(run, LAST)
    path = Checkpoints(run).path(2)
    damage(path / "model.safetensors")
    with pytest.raises(RunError, match=f"^{path} is damaged: .* restore it, or delete that folder to do without, and"):
        write_final(run, LAST)
    assert read_tensors(final_weights(run).path)["w"].tolist() == [2.5] * 4


def test_no_description_is_left_beside_weights_of_which_it_does_not_tell(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is killed between the two files."""
    write_final(run, LAST)
    Checkpoints(run).save(Checkpoint(TrainingState(update=4), {"w": torch.zeros(4)}, {}))

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("mt.training.final.write_json", killed)
        with pytest.raises(KeyboardInterrupt):
            write_final(run, LAST)
    assert read_tensors(final_weights(run).path)["w"].tolist() == [1.5] * 4


def test_whoever_may_read_the_description_may_read_the_weights(run: Path) -> None:
    mask = os.umask(0o022)
    try:
        write_final(run, LAST)
        checkpoint = Checkpoints(run).save(Checkpoint(TrainingState(update=4), {"w": torch.zeros(4)}, {}))
    finally:
        os.umask(mask)
    files = [run / "model.json", run / "model.safetensors", *checkpoint.iterdir()]
    assert {file.stat().st_mode & 0o777 for file in files} == {0o644}
