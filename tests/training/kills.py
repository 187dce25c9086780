"""A training that is killed again and again: each session is a fork that sends itself SIGKILL at a drawn moment.

    python -m tests.training.kills FOLDER NAME SEED KILLS

A moment is a number of calls, of any function or of those that write files, so that it is the same in each run.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from mt.data.training_data import TrainingData
from mt.events import finish
from mt.recipe import Recipe, load_recipe
from mt.train import train

BASE = ("train.precision=fp32", "train.max_steps=16", "train.batch_tokens=60", "train.log_every=1", "model.dropout=0.3")
SETTINGS = {
    # Saved in the middle of an epoch and of an interval of validations.
    "plain": (*BASE, "train.save_every=3", "train.valid_every=5", "train.keep_last=2", "train.keep_best=2"),
    # Epochs of 4 or 5 updates, the last of which has fewer micro-batches.
    "accumulated": (
        *(*BASE, "train.accumulate=3", "train.save_every=2", "train.valid_every=1e", "train.ema=0.9"),
        *("train.average={of: last, n: 2}", "train.keep_last=2", "train.keep_every=7"),
    ),
}
WRITING = ("checkpoint.py", "files.py", "final.py", "log.py", "run_folder.py", "weights.py")


class Death:
    """Kills this process at call number `moment`; counts calls of the files that write only, or of all."""

    def __init__(self, moment: int, writing: bool) -> None:
        self.left = moment
        self.writing = writing

    def __call__(self, frame: FrameType, _event: str, _argument: Any) -> None:
        if not self.writing or frame.f_code.co_filename.endswith(WRITING):
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


def recipe_of(folder: Path, name: str, run: str) -> Recipe:
    places = (f"data.dir={folder / 'data'}", f"model_dir={folder / run}")
    return load_recipe(folder / "recipe.yaml", [*places, *SETTINGS[name]])


def session(recipe: Recipe, ahead: int, death: Death | None) -> bool:
    """Train in a fork; whether it came to the end. `ahead`: batches made ahead by threads."""
    child = os.fork()
    if child == 0:
        try:
            torch.set_num_threads(1)
            assert TrainingData.__init__.__kwdefaults__ is not None
            TrainingData.__init__.__kwdefaults__["ahead"] = ahead
            sys.setprofile(death)
            finish(train(recipe))
            sys.setprofile(None)
            os._exit(0)
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(1)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code == 1:
        raise SystemExit(1)
    return code == 0


def outcome(recipe: Recipe) -> dict[str, Any]:
    """What must be the same: weights, the log's losses and scores, the last state but for its time, the files."""
    run = recipe.model_dir
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text("utf-8").split("\n")[:-1]]
    checkpoints = sorted((run / "checkpoints").iterdir())
    state = json.loads((checkpoints[-1] / "state.json").read_text("utf-8"))
    return {
        "weights": (run / "model.safetensors").read_bytes(),
        "optimizer": (checkpoints[-1] / "optimizer.safetensors").read_bytes(),
        "losses": [(line["update"], line["loss"]) for line in lines if line["event"] == "trained"],
        "scores": [(line["update"], line["loss"], line["best"]) for line in lines if line["event"] == "validated"],
        "state": {name: value for name, value in state["state"].items() if name != "seconds"},
        "checkpoints": [path.name for path in checkpoints],
    }


def main(folder: Path, name: str, seed: int, kills: int) -> None:
    """Train once without and once with kills, and compare."""
    whole, parts = (recipe_of(folder, name, f"{name}-{run}") for run in ("whole", f"parts-{seed}"))
    assert session(whole, 16, None)
    draw = random.Random(seed)
    killed = 0
    while killed < kills:
        writing = draw.random() < 0.5
        death = Death(draw.randint(1, 12_000 if writing else 500_000), writing)
        if session(parts, draw.choice([0, 1, 16]), death):
            break
        killed += 1
    else:
        assert session(parts, 16, None)
    expected, found = outcome(whole), outcome(parts)
    different = [key for key in expected if expected[key] != found[key]]
    print(f"{killed} kills; different: {', '.join(different) or 'nothing'}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
