"""Matrices of weights between words as pictures, drawn in plain SVG: no library is needed to make or to see them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray

CELL = 16
"""Pixels of a cell's side."""
LETTER = 7
"""Pixels that a letter of a label takes, about."""
COLOUR = "#0072B2"
FAINT = 0.004
"""Weights below this leave their cell white."""

STYLE = """body{font:14px sans-serif;margin:2em;max-width:100em}svg{margin:0 1.5em 1em 0;vertical-align:top}
text{font:12px sans-serif}figure{display:inline-block;margin:0}figcaption{color:#555}h2{font-size:1em}"""


@dataclass(frozen=True)
class HeatMap:
    """What each row's word looks at."""

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    weights: NDArray[np.float32]
    """(rows, columns), each from 0 to 1."""


def page(title: str, sections: dict[str, Sequence[HeatMap]]) -> str:
    """One HTML page with all maps, a section a group of them."""
    parts = [f'<!doctype html><html><head><meta charset="utf-8"><title>{escape(title)}</title>']
    parts.append(f"<style>{STYLE}</style></head><body><h1>{escape(title)}</h1>")
    for name, maps in sections.items():
        parts.append(f"<h2>{escape(name)}</h2>")
        parts += [f"<figure>{svg(found)}<figcaption>{escape(found.title)}</figcaption></figure>" for found in maps]
    return "\n".join([*parts, "</body></html>\n"])


def svg(found: HeatMap) -> str:
    """The picture of one map: rows read, columns looked at; a cell tells its weight where the pointer rests."""
    left = LETTER * max(map(len, found.rows), default=0) + 8
    top = LETTER * max(map(len, found.columns), default=0) + 8
    width, height = left + CELL * len(found.columns) + 1, top + CELL * len(found.rows) + 1
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}">']
    for row, word in enumerate(found.rows):
        y = top + CELL * row + CELL - 4
        parts.append(f'<text x="{left - 4}" y="{y}" text-anchor="end">{escape(word)}</text>')
    for column, word in enumerate(found.columns):
        x = left + CELL * column + CELL - 4
        parts.append(f'<text transform="translate({x},{top - 4}) rotate(-90)">{escape(word)}</text>')
    parts += [_cell(found, row, column, left, top) for row, column in np.argwhere(found.weights >= FAINT).tolist()]
    frame = f'width="{CELL * len(found.columns)}" height="{CELL * len(found.rows)}" fill="none" stroke="#999"'
    return "".join([*parts, f'<rect x="{left}" y="{top}" {frame}/></svg>'])


def _cell(found: HeatMap, row: int, column: int, left: int, top: int) -> str:
    weight = min(float(found.weights[row, column]), 1.0)
    words = f"{found.rows[row]} \u2192 {found.columns[column]}: {weight:.2f}"
    place = f'x="{left + CELL * column}" y="{top + CELL * row}" width="{CELL}" height="{CELL}"'
    return f'<rect {place} fill="{COLOUR}" fill-opacity="{weight:.2f}"><title>{escape(words)}</title></rect>'
