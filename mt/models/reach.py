"""How much text a model can hold: sinusoids go on for ever, learned positions end."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mt.models.config import ModelConfig


@dataclass(frozen=True)
class Reach:
    """The most pieces that a model can hold, marks not counted; infinite where nothing limits them."""

    source: float = math.inf
    target: float = math.inf
    both: float = math.inf
    """Of source and target together, which a language model reads as one."""

    @classmethod
    def of(cls, config: ModelConfig) -> Reach:
        """That of the models of `config`."""
        if config.positions != "learned":
            return cls()
        room = config.max_positions - 1  # a source has its end mark, a target its begin mark
        if config.decoder.type == "language_model":
            return cls(room - 2, both=room - 1)
        source = room if config.encoder.type == "transformer" else math.inf
        return cls(source, room if config.decoder.type in ("transformer", "ssru") else math.inf)

    @classmethod
    def least(cls, reaches: Iterable[Reach]) -> Reach:
        """That of several models together."""
        return cls(*map(min, zip(*map(astuple, reaches), strict=True)))

    def holds(self, source: NDArray[np.integer[Any]], target: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
        """Of each pair of a source and a target of so many pieces, whether it can be learned: (n,), (n,) -> (n,)."""
        fits: NDArray[np.bool_] = (source <= self.source) & (target <= self.target) & (source + target <= self.both)
        return fits

    def translation(self, source_pieces: int) -> float:
        """Most pieces of a translation of a source of `source_pieces`."""
        return min(self.target, self.both - source_pieces)
