"""Two processes on the CPU (gloo) do what one does with twice the accumulation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from mt.events import finish
from mt.prepare import prepare
from mt.training.checkpoint import Checkpoints
from mt.training.distributed import ALONE
from mt.training.resume import ranks_notice
from mt.training.weights import read_tensors
from tests.ranks import run_ranks, start
from tests.tiny import write_task
from tests.training.ranks_at_work import CUT, RUNS, recipe_of, train_for, update, updates


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what two ranks made, and in `alone-*` what one process makes of the same recipes."""
    folder = tmp_path_factory.mktemp("ranks")
    write_task(folder)
    for run in ("replicated", "resampled"):
        finish(prepare(recipe_of(folder, run, 1), workers=1))
    train_for(recipe_of(folder, "continued", 2), updates=5)
    work = f"from tests.training.ranks_at_work import main; main(Path({str(folder)!r}))"
    run_ranks(2, f"from pathlib import Path; {work}")
    return folder


@pytest.fixture(scope="module")
def found(task: Path) -> list[dict[str, Any]]:
    """What the ranks say."""
    return [json.loads((task / f"rank{rank}.json").read_text("utf-8")) for rank in range(2)]


def files(run: Path) -> list[str]:
    return sorted(str(path.relative_to(run)) for path in run.rglob("*") if path.is_file())


def assert_same(run: Path, expected: Path) -> None:
    """The same files, and the same numbers in all weights and in what the optimiser remembers."""
    assert files(run) == files(expected)
    for name in [name for name in files(run) if name.endswith(".safetensors")]:
        torch.testing.assert_close(read_tensors(run / name), read_tensors(expected / name), rtol=1e-5, atol=1e-6)
        assert (run / name).stat().st_size == (expected / name).stat().st_size
    last = [Checkpoints(folder).state(Checkpoints(folder).updates()[-1]) for folder in (run, expected)]
    assert [(state.epoch, state.batch, state.tokens, state.pairs) for state in last[:1]] == [
        (state.epoch, state.batch, state.tokens, state.pairs) for state in last[1:]
    ]
    assert last[0].scores == pytest.approx(last[1].scores, rel=1e-5)


@pytest.mark.parametrize("sharding", ["none", "full"])
def test_loss_and_gradient_are_divided_once_by_the_tokens_of_all_ranks(
    found: list[dict[str, Any]], sharding: str
) -> None:
    """Fault 68: also where a rank has fewer batches than another, or none."""
    alone = updates(ALONE)["none"]
    assert alone[0][0] == 1.25
    for rank in found:
        assert [pytest.approx(update) for update in rank["updates"][sharding]] == alone


def test_a_rank_that_has_not_enough_memory_does_its_batch_in_halves(found: list[dict[str, Any]]) -> None:
    """The others wait for it; the result is the same."""
    for rank in found:
        assert rank["cut"] == pytest.approx(update(ALONE, "none", *CUT))


def test_all_ranks_hear_the_same(found: list[dict[str, Any]]) -> None:
    for rank in found:
        assert rank["any"] == [False, True, True]
        assert rank["gathered"] == [{"rank": 0, "text": ""}, {"rank": 1, "text": "ü"}]


@pytest.mark.parametrize("run", ["replicated", "sharded", "resampled"])
def test_two_ranks_equal_one_process_that_accumulates(task: Path, run: str) -> None:
    """Faults 55 and 68: dropout, subword regularisation, validation and averages among it; no pair twice."""
    train_for(recipe_of(task, run, 2, f"alone-{run}"))
    assert_same(task / run, task / f"alone-{run}")


def test_another_number_of_ranks_goes_on_where_the_former_stood(task: Path) -> None:
    told = train_for(recipe_of(task, "begun", 2))
    assert any(text.startswith("Resuming from update 5, epoch ") for text in told)
    assert (
        "Trained by 2 processes before, by 1 now; the place in the corpus is kept, and an update takes 2 "
        in " ".join(told)
    )
    train_for(recipe_of(task, "begun", 2, "alone-begun"))
    for run in ("begun", "continued"):
        expected = read_tensors(task / "alone-begun" / "model.safetensors")
        torch.testing.assert_close(read_tensors(task / run / "model.safetensors"), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("numbers", "notice"),
    [
        ((2, 2, 4, 1), ""),
        ((1, 2, 2, 1), "by 1 process before, by 2 now; the place in the corpus is kept, and an update takes 2 "),
        ((4, 2, 2, 2), ", but an update takes 4 micro-batches where it took 8 (train.accumulate=4 keeps it)."),
        ((3, 2, 1, 1), ", but an update takes 2 micro-batches where it took 3 (no train.accumulate of 2 makes 3)."),
    ],
)
def test_a_change_of_the_global_batch_is_told(numbers: tuple[int, int, int, int], notice: str) -> None:
    told = ranks_notice(*numbers)
    assert notice in told
    assert bool(notice) == bool(told)


def test_only_the_first_rank_speaks(found: list[dict[str, Any]]) -> None:
    """Fault 68: and writes, or the files would not be those of one process."""
    assert all(found[0]["told"].values())
    assert found[1]["told"] == {run: [] for run in RUNS}


def test_a_rank_that_fails_when_the_others_are_done_alone_says_why() -> None:
    """They wait for it, and end as it does, but quietly."""
    statements = """
import torch
from mt.errors import RunError
from mt.place import Place
from mt.training.distributed import joined
with joined(Place.of(), torch.device("cpu")) as group:
    group.wait()
    if group.leads:
        raise RunError("no room")
"""
    first, other = (process.communicate(timeout=240)[1] for process in start(2, "-c", statements))
    assert "mt.errors.RunError: no room" in first
    assert "mt.errors.EchoError" in other
