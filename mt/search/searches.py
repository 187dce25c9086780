"""The searches by name. A new one is one file and one line here, and its name among the choices of `decode.search`."""

from __future__ import annotations

from mt.search.beam import beam_search
from mt.search.guide import Search, guided

SEARCHES: dict[str, Search] = {"beam": guided(beam_search)}
