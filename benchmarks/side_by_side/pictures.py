"""BLEU by length of the source, and validation BLEU over training: a panel a family, the others faint behind it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.side_by_side.models import FAMILIES, MODELS
from benchmarks.side_by_side.results import Result, length_classes
from mt.curves import AXES, QUANTITIES
from mt.pictures import COLOURS, DASHES, drawing, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_WHAT = "Drawing the comparison"


@dataclass(frozen=True)
class Line:
    """What a model shows along an axis."""

    model: str
    x: Sequence[float]
    y: Sequence[float]


def check_pictures() -> None:
    """Raise MissingExtraError where they cannot be drawn, before hours are spent on what they show."""
    with drawing(_WHAT):
        pass


def draw_pictures(results: Sequence[Result], folder: Path) -> dict[str, Path]:
    """Draw both; title -> file. Raises MissingExtraError without matplotlib."""
    files = {
        "BLEU by the length of the source": "lengths.svg",
        "Validation BLEU in the course of training": "curves.svg",
    }
    folder.mkdir(parents=True, exist_ok=True)
    with drawing(_WHAT):
        for draw, file in zip((_by_length, _by_time), files.values(), strict=True):
            save(draw(results), folder / file)
    return {title: folder / file for title, file in files.items()}


def _by_length(results: Sequence[Result]) -> Figure:
    classes = length_classes(results[0].lengths)
    x = np.arange(len(classes), dtype=float).tolist()
    lines = [Line(found.name, x, [found.bleu_of(chosen) for chosen in classes.values()]) for found in results]
    figure = _panels(lines, "words of the source", "BLEU")
    for panel in figure.axes:
        panel.set_xticks(x, list(classes))
    return figure


def _by_time(results: Sequence[Result]) -> Figure:
    axis = AXES["time"].fitted(found.log for found in results)
    curves = [(found.name, found.log.curve(QUANTITIES["bleu"], axis)) for found in results]
    return _panels([Line(name, curve.x, curve.y) for name, curve in curves], axis.label, "validation BLEU")


def _panels(lines: Sequence[Line], xlabel: str, ylabel: str) -> Figure:
    from matplotlib.figure import Figure

    families = [family for family in FAMILIES if any(MODELS[line.model].family == family for line in lines)]
    rows = -(-len(families) // 2)
    figure = Figure(figsize=(15, 4.2 * rows), layout="constrained")
    panels = figure.subplots(rows, 2, sharex=True, sharey=True, squeeze=False).flat
    for panel, family in zip(panels, families, strict=False):
        _draw(panel, lines, family)
        panel.set(title=family, ylabel=ylabel, xlabel=xlabel)
        panel.tick_params(labelbottom=True, labelleft=True)
    for empty in figure.axes[len(families) :]:
        empty.remove()
    return figure


def _draw(panel: Axes, lines: Iterable[Line], family: str) -> None:
    looks = iter(_looks())
    for line in lines:
        look = next(looks) if MODELS[line.model].family == family else {"color": "#d8d8d8", "linewidth": 1, "zorder": 1}
        panel.plot(line.x, line.y, **look, label=line.model if look["zorder"] == 2 else "")
    panel.legend(loc="upper left", bbox_to_anchor=(1, 1), handlelength=4)


def _looks() -> Iterable[dict[str, Any]]:
    for colour, dashes in zip(COLOURS, (*DASHES, *DASHES), strict=False):
        yield {"color": colour, "linestyle": dashes, "linewidth": 1.8, "marker": ".", "zorder": 2}
