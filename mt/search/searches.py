"""The searches by name. A new one is one file and one line here, and its name among the choices of `decode.search`."""

from __future__ import annotations

from mt.search.alternatives import alternatives
from mt.search.beams import beam_search, diverse_beam_search
from mt.search.guide import Search, guided
from mt.search.paths import greedy_search, sampling_search

SEARCHES: dict[str, Search] = {
    "beam": guided(beam_search),
    "greedy": guided(greedy_search),
    "diverse": guided(diverse_beam_search),
    "sample": guided(sampling_search),
    "alternatives": alternatives,
}
