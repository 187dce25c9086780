"""The searches by name. A new one is one file and one line here, and its name among the choices of `decode.search`."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from mt.search.beam import beam_search
from mt.search.config import DecodeConfig
from mt.search.hypothesis import Hypothesis, Symbols
from mt.seq2seq import StateT, Step


class Search(Protocol):
    """How a search is called; see `beam_search` for what its arguments are."""

    def __call__(
        self, step: Step[StateT], state: StateT, limits: Tensor, symbols: Symbols, config: DecodeConfig
    ) -> list[list[Hypothesis]]: ...


SEARCHES: dict[str, Search] = {"beam": beam_search}
