"""The answer to a block of lines: bytes to be written, and what there is to say about them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from mt.errors import DataError, plural
from mt.lines.formats import FORMATS
from mt.lines.request import INPUTS, Request
from mt.lines.translation import Translation
from mt.search.config import DecodeConfig
from mt.text.files import Block

WINDOW = 1024
"""Most lines that are translated together."""


@dataclass(frozen=True)
class Style:
    """How lines are read, and how their translations are written."""

    format: str = "text"
    """One of `FORMATS`."""
    input_format: str = "text"
    """One of `INPUTS`."""
    common: Request = field(default_factory=lambda: Request(""))
    """Wishes that go with every line."""
    alignments: bool = False
    """Also say which source word each word comes from; only JSON has a place for it."""

    def requests(self, block: Block, decode: DecodeConfig) -> tuple[list[Request], DataError | None]:
        """The requests of a block's lines up to the first that cannot be read, and the error of that one, or None."""
        lines, error = block.readable()
        read = INPUTS[self.input_format](self.common, decode)
        requests: list[Request] = []
        for number, line in enumerate(lines, block.first_line):
            try:
                requests.append(read(line, f"{block.path}, line {number}"))
            except DataError as unreadable:
                return requests, unreadable
        return requests, error


@dataclass(frozen=True)
class Answer:
    """What a block of lines became."""

    data: bytes
    lines: int
    notices: tuple[str, ...] = ()
    """Of single lines."""
    truncated: tuple[int, ...] = ()
    """Numbers, from 1, of the lines whose translation was cut at its length limit."""
    split: tuple[int, ...] = ()
    """Numbers of the lines that were too long, so that their parts were translated."""
    error: DataError | None = None
    """Of the line after these, which cannot be read."""

    @classmethod
    def of(
        cls,
        requests: Sequence[Request],
        translations: Sequence[Translation],
        first_line: int,
        style: Style,
        decode: DecodeConfig,
        error: DataError | None,
    ) -> Answer:
        """The answer of these translations, which begin with the input's line `first_line`."""
        write = FORMATS[style.format]
        texts = [
            write(translation, (request.decode or decode).n_best, request.extra)
            for request, translation in zip(requests, translations, strict=True)
        ]
        numbered = list(enumerate(translations, first_line))
        return cls(
            "".join(texts).encode(),
            len(translations),
            tuple(notice for number, one in numbered for notice in _notices(number, one)),
            tuple(number for number, one in numbered if one.truncated),
            tuple(number for number, one in numbered if one.parts),
            error,
        )

    def then(self, other: Answer) -> Answer:
        """The answer to these lines and to those after them, which `other` is; itself after one that cannot be read."""
        if self.error is not None:
            return self
        return Answer(
            self.data + other.data,
            self.lines + other.lines,
            self.notices + other.notices,
            self.truncated + other.truncated,
            self.split + other.split,
            other.error,
        )


class Answering(Protocol):
    """Whatever answers blocks of lines: a translator, or processes that have one each."""

    @property
    def identity(self) -> str:
        """Equal for equal translations of equal lines: of the model, the settings and the kind of machine."""
        ...

    @property
    def block_lines(self) -> int:
        """Most lines of a block."""
        ...

    def answers(self, blocks: Iterable[Block], style: Style) -> Iterator[Answer]:
        """The answer to each block, in their order; few blocks are read ahead."""
        ...


def _notices(number: int, one: Translation) -> Iterable[str]:
    if one.cut_from is not None:
        yield f"Line {number} has {one.cut_from} pieces, which is too long: only its start was translated."
    if one.error is not None:
        yield f"Line {number} has no translation. {one.error}"


@dataclass
class Tally:
    """How many lines, and which was the first."""

    count: int = 0
    first: int = 0

    def add(self, numbers: Sequence[int]) -> None:
        """Count the lines with these numbers, which come after those that were counted."""
        if numbers and not self.count:
            self.first = numbers[0]
        self.count += len(numbers)


def split_notice(split: Tally) -> str:
    """What is said of lines that were translated part by part."""
    lines = f"{split.count} {plural(split.count, 'line')} longer than those of the training"
    return (
        f"Split: {lines}, line {split.first}{' first' * (split.count > 1)}; the parts were translated one by one and "
        "joined (decode.long_source, decode.max_source_length)."
    )


def cut_notice(cut: Tally) -> str:
    """What is said of translations that were cut."""
    which = f"the translation of line {cut.first} was" if cut.count == 1 else f"{cut.count} translations were"
    first = "" if cut.count == 1 else f", the first that of line {cut.first}"
    return f"Cut: {which} ended by the length limit{first} (decode.max_length, decode.max_length_ratio)."
