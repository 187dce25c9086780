"""`torchrun`, as a person calls it: a worker that is killed, a signal, and an error that is said once."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from mt.events import finish
from mt.prepare import prepare
from mt.training.checkpoint import Checkpoints
from mt.training.weights import read_tensors
from tests.ranks import ROOT, free_port
from tests.tiny import write_task
from tests.training.ranks_at_work import recipe_of, train_for

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("torchrun")
    write_task(folder)
    finish(prepare(recipe_of(folder, "replicated", 1), workers=1))
    return folder


def torchrun(*arguments: str) -> subprocess.Popen[str]:
    """Two processes of `python -m ARGUMENTS`, with nothing of this test's own place in the environment."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


RENDEZVOUS = {
    "static": ["--master-port", str(free_port())],
    "c10d": ["--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0"],
}


@pytest.mark.parametrize("kind", RENDEZVOUS)
def test_a_killed_worker_costs_what_was_done_since_the_last_checkpoint(task: Path, kind: str) -> None:
    """kill -9 after 8 updates; torchrun starts both anew, and they go on from update 5."""
    shutil.rmtree(task / "killed", ignore_errors=True)
    done = torchrun(*RENDEZVOUS[kind], "--max-restarts", "1", "-m", "tests.training.ranks_killed", str(task))
    _, said = done.communicate(timeout=300)
    assert done.returncode == 0, said
    train_for(recipe_of(task, "replicated", 2, "alone"))
    expected = read_tensors(task / "alone" / "model.safetensors")
    torch.testing.assert_close(read_tensors(task / "killed" / "model.safetensors"), expected, rtol=1e-5, atol=1e-6)


def train(task: Path, run: str, *overrides: str) -> list[str]:
    """`mt train` of the task, in the run folder `run`."""
    keys = [f"data.dir={task / 'words'}", f"model_dir={task / run}", "train.save_every=20", *overrides]
    return ["-m", "mt", "train", str(task / "recipe.yaml"), "--device", "cpu", *(f"-o{key}" for key in keys)]


def test_sigterm_saves_and_ends_all(task: Path) -> None:
    running = torchrun(*RENDEZVOUS["c10d"], *train(task, "stopped", "train.max_steps=1000000"))
    end, checkpoints = time.monotonic() + 120, Checkpoints(task / "stopped")
    while not checkpoints.updates() and time.monotonic() < end:
        time.sleep(0.1)
    running.send_signal(signal.SIGTERM)
    told, said = running.communicate(timeout=60)
    assert "asked to stop, update " in told
    assert said.count("Stopping with a checkpoint") == 1
    assert checkpoints.updates()[-1] == int(told.split()[-1])


def test_an_error_is_said_once(task: Path) -> None:
    """By the rank that met it first; the others end, too, and quietly. The one traceback is torchrun's own."""
    train_for(recipe_of(task, "replicated", 2, "begun"))
    refused = torchrun(*RENDEZVOUS["c10d"], *train(task, "begun", "model.dim=32"))
    _, said = refused.communicate(timeout=120)
    assert refused.returncode == 1
    assert said.count(f"Error: {task / 'begun'} holds a training begun with another recipe (model.dim: 16 -> 32") == 1
    assert said.count("Traceback (most recent call last)") == 1
    assert "Terminated" not in said


def test_mt_run_prepares_and_evaluates_once(tmp_path: Path) -> None:
    recipe = write_task(tmp_path)
    done = torchrun(*RENDEZVOUS["c10d"], "-m", "mt", "run", str(recipe), "--device", "cpu", "-o", "train.max_steps=4")
    told, said = done.communicate(timeout=300)
    assert done.returncode == 0, said
    assert told.count("10 held-out samples") == 1
    assert said.count("learning a word vocabulary") == 1
    assert (tmp_path / "run" / "scores.json").is_file()


def test_every_kind_of_model_learns_the_same_on_two_ranks(tmp_path: Path) -> None:
    """With DDP and with FSDP2, also where a layer is left out on one rank."""
    done = torchrun(*RENDEZVOUS["c10d"], "-m", "tests.training.ranks_and_models", str(tmp_path / "wrong.json"))
    _, said = done.communicate(timeout=600)
    assert done.returncode == 0, said
    assert json.loads((tmp_path / "wrong.json").read_text("utf-8")) == []
