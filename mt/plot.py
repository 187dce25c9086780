"""Plot: the logs of run folders -> one picture that compares them, as SVG or PNG."""

from __future__ import annotations

import textwrap
from collections.abc import Generator, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mt.curves import AXES, NATS, QUANTITIES, Axis, Quantity, RunLog, read_runs
from mt.events import Event, Notice
from mt.pictures import COLOURS, DASHES, FONT, drawing, format_of, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

GAP = 0.6
"""Between entries of the legend, of the font's size."""
MARKED = 40
"""Validations up to which each is marked."""
DETAILED = 8
"""Runs up to which the legend tells the best validation of each."""


def plot(runs: Sequence[Path], output: Path | None = None, along: str = "updates") -> Generator[Event, None, Path]:
    """Draw the curves of run folders into the file that is returned.

    Args:
        output: its suffix says what is drawn, .svg or .png. Without it: plot.svg, in the folder of a single run or the
            current one.
        along: what all curves run along, a key of `AXES`.

    Raises:
        ConfigError: `output` is neither SVG nor PNG.
        MissingExtraError: matplotlib is not installed.
        RunError: a folder holds no training.
    """
    target = output or (runs[0] if len(runs) == 1 else Path()) / "plot.svg"
    format_of(target)
    logs = read_runs(runs)
    for log in logs:
        if not log.of("validated"):
            yield Notice(f"{log.name} has not been validated yet: it has no curves of validations.")
    with drawing("Drawing curves"):
        save(draw(logs, AXES[along].fitted(logs)), target)
    return target


def draw(logs: Sequence[RunLog], axis: Axis) -> Figure:
    """A panel for each quantity that one of the runs has, all along the same axis, and the legend in the last."""
    from matplotlib.figure import Figure

    shown = [quantity for quantity in QUANTITIES.values() if any(log.curve(quantity, axis).finite for log in logs)]
    legend = _legend(logs)
    figure = Figure(figsize=(13, max(7.2, 2 * _height(legend))), layout="constrained")
    *panels, last = figure.subplots(2, -(-(len(shown) + 1) // 2)).flat
    for panel, quantity in zip(panels, shown, strict=False):
        _draw_panel(panel, quantity, axis, logs)
    for empty in (*panels[len(shown) :], last):
        empty.axis("off")
    last.legend(handles=legend, loc="center left", handlelength=4, labelspacing=GAP, borderaxespad=0)
    figure.align_ylabels()
    return figure


def _draw_panel(panel: Axes, quantity: Quantity, axis: Axis, logs: Sequence[RunLog]) -> None:
    for log, look in zip(logs, _looks(), strict=False):
        curve, best = log.curve(quantity, axis), log.best(quantity, axis)
        marked = len(curve.x) == 1 or (quantity.event == "validated" and len(curve.x) <= MARKED)
        panel.plot(curve.x, curve.y, **look, marker="." if marked else "")
        panel.plot(best.x, best.y, color=look["color"], linestyle="", **BEST)
    panel.set(title=quantity.title, ylabel=quantity.unit, xlabel=axis.label)
    panel.set_xlim(0, 1.02 * axis.end)
    panel.locator_params(nbins=6)
    for scale in (panel.xaxis, panel.yaxis):
        scale.set_major_formatter("{x:,.5g}")
    if quantity.unit == NATS:
        _limit_losses(panel, logs, axis)
    elif quantity.key != "bleu":
        panel.set_ylim(bottom=0)


BEST: dict[str, Any] = {"marker": "o", "markersize": 9, "fillstyle": "none"}


def _looks() -> Iterator[dict[str, Any]]:
    """Colour and dashes of the first, second, ... run; 30 differ in one, those near each other in both."""
    for number in count():
        dashes = DASHES[number % len(DASHES)]
        yield {"color": COLOURS[number % len(COLOURS)], "linestyle": dashes, "linewidth": 1.5}


def _limit_losses(panel: Axes, logs: Sequence[RunLog], axis: Axis) -> None:
    """One scale for training and validation, up to the worst validation: the first updates would flatten the rest."""
    losses = [
        log.curve(quantity, axis).finite for log in logs for quantity in QUANTITIES.values() if quantity.unit == NATS
    ]
    worst = [max(values) for log in logs if (values := log.curve(QUANTITIES["valid_loss"], axis).finite)]
    lowest = min(map(min, filter(None, losses)))
    highest = max(worst) if worst else max(map(max, filter(None, losses)))
    margin = (highest - lowest) / 20 or 1
    panel.set_ylim(lowest - margin, highest + margin)


def _legend(logs: Sequence[RunLog]) -> list[Line2D]:
    """A line for each run, and the mark of the best."""
    from matplotlib.lines import Line2D

    lines = [
        Line2D([], [], label=_label(log, detailed=len(logs) <= DETAILED), **look)
        for log, look in zip(logs, _looks(), strict=False)
    ]
    if any(log.best_validation for log in logs):
        lines.append(
            Line2D([], [], color="#333333", linestyle="", label="best validation, by the recipe's metric", **BEST)
        )
    return lines


def _height(legend: Sequence[Line2D]) -> float:
    """Inches that the legend takes: half of the figure's height, or the panels would make room for it."""
    lines = [str(line.get_label()).count("\n") + 1 for line in legend]
    return (1.3 * sum(lines) + GAP * len(lines) + 3) * FONT / 72


def _label(log: RunLog, *, detailed: bool) -> str:
    """The name, and the best validation under it."""
    name, best = textwrap.fill(log.name, 45), log.best_validation
    if not best or not detailed:
        return name
    loss = f", loss {best['loss']:.3f}" if "loss" in best else ""
    bleu = f", BLEU {best['bleu']:.2f}" if "bleu" in best else ""
    return f"{name}\nbest at update {best['update']:,}{loss}{bleu}"
