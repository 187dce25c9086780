from __future__ import annotations

from pathlib import Path

import pytest

import mt as toolkit
from tests.cli.conftest import Call
from tests.test_ensemble import another

LINES = ["a b c", "d", "", "e f g a b"]


@pytest.mark.parametrize("workers", [1, 2])
def test_runs_that_decide_together(mt: Call, workers: int, tmp_path: Path) -> None:
    """Fault 87: in this process and in others, what the library says of the same runs."""
    runs = [another(tmp_path / name, seed) for seed, name in enumerate(("one", "two", "three"))]
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    named = ["--ensemble", runs[1], "--ensemble", runs[2], "--device", "cpu", "--workers", workers]
    called = mt("translate", runs[0], *named, "-i", source, "-o", target)
    assert called.code == 0, called.err
    expected = [one.text for one in toolkit.load(runs[0], device="cpu", others=runs[1:]).translate(LINES)]
    assert target.read_text(encoding="utf-8").split("\n") == [*expected, ""]
