"""The curves of logs: what is run along, gaps, means, names, and what is no training."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from mt.curves import AXES, POINTS, QUANTITIES, Curve, RunLog, distinct_names, read_runs
from mt.errors import RunError


def trained(update: int, nll: Any = 2.0, **values: Any) -> dict[str, Any]:
    """An epoch of 10 updates, 100 tokens and 0.5 seconds an update."""
    line = {"event": "trained", "update": update, "epoch": update / 10, "tokens": update * 100, "seconds": update / 2}
    return {**line, "nll": nll, "learning_rate": 0.1 / update, "tokens_per_second": 200.0, **values}


def validated(update: int, loss: Any, bleu: Any = 20.0, best: bool = False) -> dict[str, Any]:
    return {"event": "validated", "update": update, "seconds": update / 2, "loss": loss, "bleu": bleu, "best": best}


def write_log(folder: Path, events: Iterable[dict[str, Any]]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "log.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events), encoding="utf-8")
    return folder


def test_curves_run_along_each_axis(tmp_path: Path) -> None:
    """A validation's line does not tell epoch and tokens: it stands between the updates that do."""
    events = [trained(10), validated(15, 3.0), trained(20), validated(20, 2.5, best=True), trained(30)]
    (log,) = read_runs([write_log(tmp_path, events)])
    found = {name: log.curve(QUANTITIES["valid_loss"], axis).x for name, axis in AXES.items()}
    assert found == {"updates": [15, 20], "epochs": [1.5, 2], "tokens": [1500, 2000], "time": [7.5, 10]}
    assert log.curve(QUANTITIES["learning_rate"], AXES["updates"]) == Curve([10, 20, 30], [0.01, 0.005, 0.1 / 30])
    assert log.best(QUANTITIES["bleu"], AXES["updates"]) == Curve([20], [20])
    assert log.best(QUANTITIES["loss"], AXES["updates"]) == Curve([], [])


@pytest.mark.parametrize(
    ("name", "longest", "label", "factor"),
    [
        ("updates", 5000, "updates", 1),
        ("tokens", 900, "target tokens", 1),
        ("tokens", 1_500_000, "target tokens, millions", 1e6),
        ("time", 50, "training time, seconds", 1),
        ("time", 3000, "training time, minutes", 60),
        ("time", 8000, "training time, hours", 3600),
    ],
)
def test_an_axis_is_in_a_unit_that_can_be_read(name: str, longest: float, label: str, factor: float) -> None:
    axis = AXES[name].fitted([RunLog("a", [{AXES[name].key: longest}]), RunLog("b", [{AXES[name].key: 1}])])
    assert (axis.label, axis.factor, axis.end) == (label, factor, longest / factor)


@pytest.mark.parametrize("value", [math.nan, math.inf, "nan", "inf", None])
def test_what_is_not_a_number_is_a_gap(tmp_path: Path, value: Any) -> None:
    """Faults 58 and 72: a training that diverged can be looked at."""
    events = [trained(1), validated(1, 3.0), trained(2, nll="nan"), validated(2, value), trained(3), validated(3, 2.0)]
    (log,) = read_runs([write_log(tmp_path, events)])
    curve = log.curve(QUANTITIES["valid_loss"], AXES["updates"])
    assert curve.x == [1, 2, 3]
    assert math.isnan(curve.y[1])
    assert curve.finite == [3.0, 2.0]


def test_a_curve_of_means_weighs_each_line_by_its_updates() -> None:
    """The first line, and the first after resuming, are of a single update."""
    events = [trained(1, 9.0), trained(10, 5.0), trained(20, 4.0), {"event": "resumed", "update": 25}, trained(26, 1.0)]
    log = RunLog("a", [*events, trained(30, 3.0), trained(31, 0.0)])
    curve = log.curve(QUANTITIES["loss"], AXES["updates"].fitted([log]))
    assert curve.x == [10, 20, 31]
    assert curve.y == pytest.approx([(9 + 9 * 5) / 10, 4, (1 + 4 * 3 + 0) / 6])


def test_a_long_curve_of_means_has_few_points_and_the_same_mean() -> None:
    log = RunLog("a", [trained(update, update % 7) for update in range(1, 10_001)])
    curve = log.curve(QUANTITIES["loss"], AXES["updates"].fitted([log]))
    assert POINTS / 2 < len(curve.x) <= POINTS
    assert curve.x[-1] == 10_000
    assert sum(curve.y) / len(curve.y) == pytest.approx(3, abs=0.05)


@pytest.mark.parametrize(
    ("folders", "names"),
    [
        (["runs/a"], ["a"]),
        (["runs/a", "runs/b"], ["a", "b"]),
        (["x/run", "y/run", "y/other"], ["x/run", "y/run", "y/other"]),
        (["a", "a"], ["a", "a"]),
    ],
)
def test_runs_are_told_apart_by_as_little_as_it_takes(folders: list[str], names: list[str]) -> None:
    assert distinct_names(list(map(Path, folders))) == names


def test_a_folder_without_a_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError) as caught:
        read_runs([write_log(tmp_path / "a", [trained(1)]), tmp_path / "b"])
    assert str(caught.value) == (
        f"'{tmp_path / 'b'}' holds no training: there is no log.jsonl in it ({tmp_path / 'b'}); a run folder is the "
        "model_dir of its recipe."
    )


def test_a_log_without_an_update_is_refused(tmp_path: Path) -> None:
    folder = write_log(tmp_path, [{"event": "stopped", "update": 0}])
    with pytest.raises(RunError) as caught:
        read_runs([folder])
    assert str(caught.value) == f"{folder / 'log.jsonl'} tells of no update yet: mt train logs one when it is made."
