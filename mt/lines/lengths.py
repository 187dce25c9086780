"""What the source lines of a training were like: a model translates badly what is longer than it has seen."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mt.data.layout import Sequences
from mt.errors import DataError
from mt.text.files import read_json, write_json
from mt.text.sentences import split_sentences
from mt.text.tokenizer import Tokenizer

FILE = "lengths.json"  # in a run folder
_REMEDY = "delete it, or train again, which makes it"
SAMPLE = 4096
"""Lines that are looked at, drawn evenly from the training text."""


@dataclass(frozen=True)
class Lengths:
    """A line with more than one of these is too long."""

    pieces: int
    """99 of 100 lines had at most so many pieces."""
    sentences: int | None
    """99 of 100 lines had at most so many sentences; None: not known."""
    longest: int
    """The most pieces of a line; a sentence with more is too long by itself."""

    @classmethod
    def of(cls, sources: Sequences[Any], tokenizer: Tokenizer) -> Lengths:
        """Those of the ids of a training's source lines."""
        count = min(len(sources), SAMPLE)
        lines = [sources[number * len(sources) // count].tolist() for number in range(count)]
        sentences = [len(split_sentences(text)) for text in tokenizer.decode_batch(lines)]
        pieces = [len(line) for line in lines]
        return cls(_usual(pieces), max(1, _usual(sentences)), max(pieces))

    @classmethod
    def at_most(cls, pieces: int) -> Lengths:
        """Any line of up to so many pieces."""
        return cls(pieces, None, pieces)

    def within(self, pieces: float) -> Lengths:
        """The same, but at most so many pieces."""
        return replace(self, pieces=int(min(self.pieces, pieces)), longest=int(min(self.longest, pieces)))

    def save(self, run: Path) -> None:
        """Write them into a run folder."""
        write_json(run / FILE, asdict(self))

    @classmethod
    def load(cls, run: Path) -> Lengths | None:
        """Those of a run folder; None where they were not written. Raises DataError where the file is damaged."""
        if not (run / FILE).exists():
            return None
        try:
            return cls(**read_json(run / FILE, _REMEDY))
        except TypeError:
            raise DataError(f"{run / FILE} is damaged; {_REMEDY}.") from None


def _usual(values: list[int]) -> int:
    return int(np.percentile(values, 99, method="higher"))
