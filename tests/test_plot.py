"""The picture that is drawn of logs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mt.curves import AXES, RunLog
from mt.errors import ConfigError, MissingExtraError, RunError
from mt.events import Event, Notice, finish
from mt.pictures import COLOURS, DASHES
from mt.plot import draw, plot
from tests.test_curves import trained, validated, write_log


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    """A training with validations, one of which has no numbers, and one without."""
    first = [trained(update, 9 / update) for update in range(1, 30)]
    validations = [validated(10, 1.5, 10.0), validated(20, "nan", "nan"), validated(29, 1.2, 20.0, best=True)]
    second = [trained(update, 8 / update) for update in range(1, 50, 7)]
    return [write_log(tmp_path / "one", [*first, *validations]), write_log(tmp_path / "two", second)]


def picture(runs: list[Path], output: Path, along: str = "updates") -> bytes:
    return finish(plot(runs, output, along)).read_bytes()


class TestDrawing:
    @pytest.fixture(autouse=True)
    def _matplotlib(self) -> None:
        pytest.importorskip("matplotlib", reason="needs the extra plots")

    @pytest.mark.parametrize("along", AXES)
    def test_names_axes_units_and_runs(self, runs: list[Path], tmp_path: Path, along: str) -> None:
        drawn = picture(runs, tmp_path / "a.svg", along).decode()
        titles = {"Training loss", "Validation loss", "Validation BLEU", "Learning rate", "Speed"}
        units = {"nats per target token, unsmoothed", "BLEU", "target tokens per second"}
        labels = {"updates": "updates", "epochs": "epochs", "tokens": "target tokens, thousands"}
        legend = {"one", "best at update 29, loss 1.200, BLEU 20.00", "two"}
        texts = {part.split("-->")[0].strip() for part in drawn.split("<!--")[1:]}
        assert titles | units | legend | {labels.get(along, "training time, seconds")} <= texts
        assert all(colour.lower() in drawn for colour in COLOURS[:2])

    @pytest.mark.parametrize("suffix", ["svg", "png"])
    def test_the_same_logs_give_the_same_bytes(self, runs: list[Path], tmp_path: Path, suffix: str) -> None:
        """Also in another process, where hashes differ, on another day, and with settings of the person's."""
        drawn = picture(runs, tmp_path / f"a.{suffix}")
        (tmp_path / "matplotlibrc").write_text("font.size: 30\nlines.linewidth: 9\n")
        call = "import sys; from cli.main import main; main(sys.argv[1:])"
        options = [sys.executable, "-c", call, "plot", *map(str, runs), "-o", str(tmp_path / f"b.{suffix}")]
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), "PYTHONHASHSEED": "7"}
        subprocess.run(options, cwd=tmp_path, env=environment, check=True, capture_output=True)
        assert (tmp_path / f"b.{suffix}").read_bytes() == drawn
        assert drawn.startswith(b"<?xml" if suffix == "svg" else b"\x89PNG")
        assert b"dc:date" not in drawn

    def test_a_run_without_validations_is_told_and_drawn(self, runs: list[Path], tmp_path: Path) -> None:
        events: list[Event] = []
        finish(plot(runs[1:], tmp_path / "a.svg"), events.append)
        assert events == [Notice("two has not been validated yet: it has no curves of validations.")]
        drawn = (tmp_path / "a.svg").read_text("utf-8")
        assert "<!-- Training loss -->" in drawn
        assert "<!-- Validation loss -->" not in drawn

    def test_the_picture_goes_into_the_run_folder_or_here(
        self, runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        assert finish(plot(runs[:1])) == runs[0] / "plot.svg"
        assert finish(plot(runs)) == Path("plot.svg")
        assert {path.name for path in tmp_path.iterdir()} == {"one", "two", "plot.svg"}

    @pytest.mark.parametrize("number", [1, 8, 9, 20])
    def test_the_legend_of_many_runs_is_whole_and_leaves_room(self, number: int) -> None:
        logs = [RunLog(f"run-{run}-" + "long-name-" * 6, [trained(1), validated(1, 2.0)]) for run in range(number)]
        figure = draw(logs, AXES["updates"].fitted(logs))
        figure.draw_without_rendering()
        *panels, last = figure.axes
        legend = last.get_legend()
        assert legend is not None
        extent = legend.get_window_extent()
        assert figure.bbox.x0 < extent.x0 < extent.x1 < figure.bbox.x1
        assert figure.bbox.y0 < extent.y0 < extent.y1 < figure.bbox.y1
        assert all(panel.bbox.height > 2 * figure.dpi and panel.bbox.width > 2 * figure.dpi for panel in panels)

    def test_settings_of_the_caller_stay(self, runs: list[Path], tmp_path: Path) -> None:
        import matplotlib

        with matplotlib.rc_context({"font.size": 7}):
            picture(runs, tmp_path / "a.svg")
            assert matplotlib.rcParams["font.size"] == 7


@pytest.mark.parametrize("name", ["plot.pdf", "plot", "plot.svg.gz"])
def test_other_formats_are_refused(runs: list[Path], name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        finish(plot(runs, Path(name)))
    assert str(caught.value) == f"'{name}' does not say what to draw: its name must end in .svg or .png."


def test_nothing_is_written_where_a_run_is_missing(runs: list[Path], tmp_path: Path) -> None:
    with pytest.raises(RunError, match="holds no training"):
        finish(plot([*runs, tmp_path / "none"], tmp_path / "a.svg"))
    assert not (tmp_path / "a.svg").exists()


def test_a_missing_package_names_its_extra(runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"^Drawing curves needs an optional package: .*mt-toolkit\[plots\]'"):
        finish(plot(runs, tmp_path / "a.svg"))
    assert {path.name for path in tmp_path.iterdir()} == {"one", "two"}


def test_thirty_runs_can_be_told_apart() -> None:
    looks = {(COLOURS[number % len(COLOURS)], DASHES[number % len(DASHES)]) for number in range(30)}
    assert len(looks) == 30
