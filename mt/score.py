"""Score: given translations -> the model's log-probability of each, and of each of its pieces."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path

from mt.errors import plural
from mt.events import Event, Notice, Progress
from mt.given import Given, Scored, given_of
from mt.lines.request import json_object
from mt.text.corpus import read_pair_blocks
from mt.text.files import Block, read_blocks
from mt.text.streams import opened
from mt.translator import WINDOW, Translator


@dataclass(frozen=True)
class ScoreReport:
    """What was scored."""

    lines: int
    tokens: int
    """Pieces and end marks."""
    log_prob: float
    """Sum over all lines."""


def _text(line: Scored) -> str:
    return f"{line.log_prob:.6f}\t{line.score:.6f}\n"


def _jsonl(line: Scored) -> str:
    names = ("source", "translation", "score", "log_prob", "tokens", "token_scores")
    fields = {name: getattr(line, name) for name in names}
    fields["token_scores"] = [round(score, 6) for score in line.token_scores]
    return json.dumps(fields, ensure_ascii=False) + "\n"


FORMATS: dict[str, Callable[[Scored], str]] = {"text": _text, "jsonl": _jsonl}
"""text: log-probability, tab, log-probability divided by the length penalty. jsonl: a JSON object, with each piece."""


def score_files(
    translator: Translator, source: Path, target: Path, output: BufferedIOBase | Path, format: str = "text"
) -> Generator[Event, None, ScoreReport]:
    """Score line k of `target` as the translation of line k of `source`, in their order; memory does not grow.

    Raises:
        DataError: the files have different numbers of lines, which is seen before anything is scored, unless they are
            pipes; one is missing or not UTF-8.
    """
    if source.is_file() and target.is_file():
        for _ in read_pair_blocks(source, target):
            yield Progress("score", 0)
    windows = (
        [
            Given(*pair, place=f"{sources.path}, line {number}: ")
            for number, pair in enumerate(zip(sources.lines(), targets.lines(), strict=True), sources.first_line)
        ]
        for sources, targets in read_pair_blocks(source, target, WINDOW)
    )
    return (yield from _score(translator, windows, output, format))


def score_translations(
    translator: Translator, translations: Path, output: BufferedIOBase | Path, format: str = "text"
) -> Generator[Event, None, ScoreReport]:
    """Score what `mt translate --format jsonl` wrote, with the very pieces that it names.

    Raises:
        DataError: a line is no such JSON object, or its pieces are of another vocabulary.
    """
    windows = (list(_given(block)) for block in read_blocks(translations, WINDOW))
    return (yield from _score(translator, windows, output, format))


def _given(block: Block) -> Iterator[Given]:
    for number, line in enumerate(block.lines(), block.first_line):
        place = f"{block.path}, line {number}"
        yield given_of(json_object(line, place), place)


def _score(
    translator: Translator, windows: Iterator[list[Given]], output: BufferedIOBase | Path, format: str
) -> Generator[Event, None, ScoreReport]:
    lines, tokens, log_prob, unknown = 0, 0, 0.0, 0
    with opened(output) as file:
        for window in windows:
            scored = translator.score_window(window)
            file.write("".join(map(FORMATS[format], scored)).encode())
            file.flush()
            lines += len(scored)
            tokens += sum(len(one.tokens) for one in scored)
            log_prob += sum(one.log_prob for one in scored)
            unknown += sum(one.unknown > 0 for one in scored)
            yield Progress("score", lines)
    if unknown:
        has = "has" if unknown == 1 else "have"
        yield Notice(
            f"{unknown} {plural(unknown, 'translation')} {has} pieces that the target vocabulary lacks; these are "
            "scored as the unknown piece."
        )
    return ScoreReport(lines, tokens, log_prob)
