"""Matrices of weights between words as pictures.

A page of HTML holds plain SVG: no library is needed to make or to see it. Files of SVG or PNG need the extra `plots`.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mt.pictures import COLOURS, drawing, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CELL = 18
"""Pixels of a cell's side."""
LETTER = 7
"""Pixels that a letter of a label takes, about."""
COLOUR = COLOURS[0]
FAINT = 0.004
"""Weights below this leave their cell white."""
LETTERS_AN_INCH = 10
"""Of a picture's title."""
INCH = 1 / 72
"""Of a point; a cell of a picture has CELL of them."""

STYLE = """body{font:14px sans-serif;margin:2em;color:#222}svg{display:block;margin:.3em 0}h1{font-size:1.2em}
text{font:12px sans-serif;fill:#222}section{border-top:1px solid #ddd;margin-top:1em}h2{font-size:1em}
figure{display:inline-block;vertical-align:top;margin:0 2em 1em 0}figcaption,p{color:#666}
rect:hover{stroke:#222}"""


@dataclass(frozen=True)
class HeatMap:
    """What each row's word looks at."""

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    weights: NDArray[np.float32]
    """(rows, columns), each from 0 to 1."""


@dataclass(frozen=True)
class Group:
    """Maps of one kind, such as the heads of a layer."""

    title: str
    legend: str
    """What rows and columns are."""
    maps: Sequence[HeatMap]


def page(title: str, groups: Sequence[Group]) -> str:
    """One HTML page with all maps, a section a group."""
    parts = [f'<!doctype html>\n<html><head><meta charset="utf-8"><title>{escape(title)}</title>']
    parts.append(f"<style>{STYLE}</style></head><body>\n<h1>{escape(title)}</h1>")
    for group in groups:
        parts.append(f"<section><h2>{escape(group.title)}</h2><p>{escape(group.legend)}</p>")
        parts += [
            f"<figure><figcaption>{escape(found.title)}</figcaption>{svg(found)}</figure>" for found in group.maps
        ]
        parts.append("</section>")
    return "\n".join([*parts, "</body></html>\n"])


def svg(found: HeatMap) -> str:
    """The picture of one map: rows look, columns are looked at; a cell tells its weight where the pointer rests."""
    left, top = (LETTER * max(map(len, labels), default=0) + 8 for labels in (found.rows, found.columns))
    width, height = left + CELL * len(found.columns) + 1, top + CELL * len(found.rows) + 1
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}">']
    for row, word in enumerate(found.rows):
        y = top + CELL * row + CELL - 5
        parts.append(f'<text x="{left - 4}" y="{y}" text-anchor="end">{escape(word)}</text>')
    for column, word in enumerate(found.columns):
        x = left + CELL * column + CELL - 5
        parts.append(f'<text transform="translate({x},{top - 4}) rotate(-90)">{escape(word)}</text>')
    parts += [_cell(found, row, column, left, top) for row, column in np.argwhere(found.weights >= FAINT).tolist()]
    frame = f'width="{CELL * len(found.columns)}" height="{CELL * len(found.rows)}" fill="none" stroke="#999"'
    return "".join([*parts, f'<rect x="{left}" y="{top}" {frame} pointer-events="none"/></svg>'])


def _cell(found: HeatMap, row: int, column: int, left: int, top: int) -> str:
    weight = min(float(found.weights[row, column]), 1.0)
    words = f"{found.rows[row]} \u2192 {found.columns[column]}: {weight:.2f}"
    place = f'x="{left + CELL * column}" y="{top + CELL * row}" width="{CELL}" height="{CELL}"'
    return f'<rect {place} fill="{COLOUR}" fill-opacity="{weight:.2f}"><title>{escape(words)}</title></rect>'


def picture(target: Path, title: str, groups: Sequence[Group]) -> None:
    """Draw all maps into an SVG or PNG file, a row a group.

    Raises:
        ConfigError: `target` is neither. MissingExtraError: matplotlib is not installed.
    """
    with drawing("Drawing heat maps"):
        save(_figure(title, groups), target)


def _figure(title: str, groups: Sequence[Group]) -> Figure:
    from matplotlib.figure import Figure

    columns = max(len(group.maps) for group in groups)
    sizes = [_size(max(group.maps, key=_size)) for group in groups]
    width, heights = columns * max(width for width, _ in sizes), [height for _, height in sizes]
    heading = textwrap.fill(title, max(40, int(width * LETTERS_AN_INCH)))
    lines = heading.count("\n") + 2
    figure = Figure(figsize=(max(width, 5), sum(heights) + lines / 4), layout="constrained")
    figure.suptitle(heading, fontweight="bold")
    figure.supxlabel("white: weight 0; blue: weight 1", fontsize="small")
    grid: Any = figure.subplots(len(groups), columns, squeeze=False, height_ratios=heights)
    for panels, group in zip(grid, groups, strict=True):
        for panel, found in zip(panels, group.maps, strict=False):
            _draw(panel, found)
        panels[0].set_ylabel(f"{group.title}\n{group.legend}", fontsize="small")
        for empty in panels[len(group.maps) :]:
            empty.axis("off")
    return figure


def _size(found: HeatMap) -> tuple[float, float]:
    """Width and height of a panel, in inches: the cells, the labels, and what stands around them."""
    wide, high = (LETTER * max(map(len, labels), default=0) for labels in (found.rows, found.columns))
    return (wide + CELL * len(found.columns) + 60) * INCH, (high + CELL * len(found.rows) + 50) * INCH


def _draw(panel: Axes, found: HeatMap) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    shades = LinearSegmentedColormap.from_list("weights", ["white", COLOUR])
    panel.imshow(found.weights, cmap=shades, vmin=0, vmax=1, interpolation="nearest")
    panel.set_xticks(range(len(found.columns)), found.columns, rotation=90)
    panel.set_yticks(range(len(found.rows)), found.rows)
    panel.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False, length=0)
    panel.spines[:].set_visible(True)
    panel.grid(visible=False)
    panel.set_title(found.title, fontsize="medium")
