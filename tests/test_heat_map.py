"""Heat maps as SVG and HTML."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np

from mt.heat_map import CELL, FAINT, Group, HeatMap, page, svg

MAP = HeatMap(
    "head 1 of 2", ("das", "<b>"), ("the", "&", "house"), np.array([[0.9, 0.1, 0.0], [FAINT / 2, 0, 1.0]], "f")
)
SVG = "{http://www.w3.org/2000/svg}"


def test_a_cell_is_as_dark_as_its_weight_and_tells_it() -> None:
    root = ElementTree.fromstring(svg(MAP))
    cells = [cell for cell in root.iter(f"{SVG}rect") if cell.get("fill") != "none"]
    assert [cell.get("fill-opacity") for cell in cells] == ["0.90", "0.10", "1.00"]
    assert [cell[0].text for cell in cells] == ["das → the: 0.90", "das → &: 0.10", "<b> → house: 1.00"]
    assert {int(cell.get("y", 0)) for cell in cells} == {int(cells[0].get("y", 0)), int(cells[0].get("y", 0)) + CELL}
    assert [text.text for text in root.iter(f"{SVG}text")] == ["das", "<b>", "the", "&", "house"]


def test_a_page_holds_all_maps_and_escapes_what_it_shows() -> None:
    text = page("<script>", [Group("Decoder", "rows & columns", [MAP, MAP]), Group("Encoder", "", [MAP])])
    assert text.count("<svg") == 3
    assert "<script>" not in text
    assert text.index("<h2>Decoder") < text.index("rows &amp; columns") < text.index("<h2>Encoder")
