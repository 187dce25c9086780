"""`mt train` as a process of its own: signals, a full disk, a torn file, a second process. The next start goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mt.errors import RunError
from mt.events import finish
from mt.prepare import prepare
from mt.recipe import Recipe, load_recipe
from mt.train import train
from mt.training.checkpoint import Checkpoints
from tests.cli.conftest import start
from tests.tiny import write_task

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")

ENDLESS = ("-o", "train.max_steps=1000000", "-o", "train.save_every=2", "-o", "train.valid_every=1000000")
SHORT = ("-o", "train.max_steps=4", "-o", "train.valid_every=2")


@pytest.fixture
def task(tmp_path: Path) -> Path:
    """A recipe whose corpus is prepared."""
    recipe = write_task(tmp_path)
    finish(prepare(load_recipe(recipe), workers=1))
    return recipe


@pytest.fixture
def running() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that end with the test."""
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


def begin(task: Path, *options: str) -> subprocess.Popen[bytes]:
    return start("train", task, "--device", "cpu", "-o", "train.log_every=1", *options)


def go_on(task: Path, *options: str) -> None:
    """Train as the processes do, in this one."""
    finish(train(load_recipe(task, ["train.log_every=1", *options[1::2]])))


def log(run: Path) -> list[dict[str, Any]]:
    lines = (run / "log.jsonl").read_text("utf-8").split("\n")[:-1] if (run / "log.jsonl").exists() else []
    return [json.loads(line) for line in lines]


def wait_for(process: subprocess.Popen[bytes], run: Path, event: str, update: int) -> None:
    """Until the log has an event of this update, or of a later one."""
    for _ in range(6000):
        if any(line["event"] == event and line["update"] >= update for line in log(run)):
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    raise AssertionError(f"no {event} at update {update}: {log(run)}")


def uninterrupted(folder: Path, *options: str) -> bytes:
    """The final weights of a training of the same recipe that nobody disturbs."""
    overrides = [f"model_dir={folder / 'whole'}", f"data.dir={folder / 'run' / 'data'}", "train.log_every=1"]
    recipe: Recipe = load_recipe(folder / "recipe.yaml", [*overrides, *options[1::2]])
    finish(train(recipe))
    return (folder / "whole" / "model.safetensors").read_bytes()


def test_sigterm_in_a_validation_does_not_wait_for_its_end(task: Path, running: list[subprocess.Popen[bytes]]) -> None:
    run = task.parent / "run"
    for side in ("en", "de"):  # validated for longer than it takes to see that it has begun
        text = task.parent / f"valid.{side}"
        text.write_text(text.read_text("utf-8") * 200, encoding="utf-8", newline="\n")
    finish(prepare(load_recipe(task), workers=1))
    process = begin(task, *SHORT)
    running.append(process)
    wait_for(process, run, "trained", 2)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 0
    state = Checkpoints(run).load(2).state
    assert (state.validating, state.scored) == (True, None)
    go_on(task, *SHORT)
    assert [line["update"] for line in log(run) if line["event"] == "validated"] == [2, 4]
    assert (run / "model.safetensors").read_bytes() == uninterrupted(task.parent, *SHORT)


def test_a_second_signal_ends_at_once(task: Path, running: list[subprocess.Popen[bytes]]) -> None:
    run = task.parent / "run"
    process = begin(task, *ENDLESS)
    running.append(process)
    wait_for(process, run, "saved", 2)
    os.kill(process.pid, signal.SIGSTOP)  # both are there before it can act on the first
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCONT):
        process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode in (130, 143), err
    newest = Checkpoints(run).updates()[-1]
    assert Checkpoints(run).load(newest).state.update == newest


def test_a_full_disk_leaves_the_state_before(task: Path) -> None:
    run = task.parent / "run"
    go_on(task, *SHORT, "-o", "train.max_steps=2")
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file() and path.name not in LIVE}
    limited = ["sh", "-c", 'ulimit -f 20; exec "$@"', "sh", *start_arguments(task)]
    full = subprocess.run(limited, capture_output=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert full.returncode == 2, full.stderr
    message = full.stderr.decode().strip().split("\n")[-1]
    assert message.startswith(f"Error: {run / 'checkpoints' / 'step-00000004'} could not be written (")
    assert message.endswith("the checkpoints before it are whole; make room there and run the same command again.")
    after = {path: path.read_bytes() for path in run.rglob("*") if path.is_file() and path.name not in LIVE}
    assert after == before
    go_on(task, *SHORT)
    assert (run / "model.safetensors").read_bytes() == uninterrupted(task.parent, *SHORT)


LIVE = {".lock", "log.jsonl", "recipe.yaml", "step-00000004.de"}
"""Files of a run that a session which fails may have written: they hold no weights."""


def start_arguments(task: Path) -> list[str]:
    process = begin(task, *SHORT)
    process.kill()
    process.communicate()
    return [str(argument) for argument in process.args]  # type: ignore[union-attr]


def test_a_torn_file_a_second_process_and_sigterm(task: Path, running: list[subprocess.Popen[bytes]]) -> None:
    run = task.parent / "run"
    go_on(task, *ENDLESS, "-o", "train.max_steps=6", "-o", "train.keep_last=3")
    torn = Checkpoints(run).path(6) / "optimizer.safetensors"
    torn.write_bytes(torn.read_bytes()[:-100])
    process = begin(task, *ENDLESS, "-o", "train.keep_last=3")
    running.append(process)
    wait_for(process, run, "trained", 7)
    with pytest.raises(RunError) as second:
        go_on(task, *ENDLESS, "-o", "train.keep_last=3")
    assert str(second.value) == (
        f"{run} is in use by another command (process {process.pid}): wait until it ends or choose another model_dir."
    )
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, "a scheduler's way to end what went well"
    done = log(run)[-1]["update"]
    assert log(run)[-1]["event"] == "stopped"
    assert out.decode() == f"{run}: asked to stop, update {done}\n"
    assert Checkpoints(run).load(done).state.update == done >= 7
    assert b"Stopping with a checkpoint; once more to stop at once." in err
    assert f"{torn.parent} is damaged: optimizer.safetensors has ".encode() in err
    assert b"Resuming from update 4, epoch " in err
