"""Translate: text -> text with a trained model; and a run's test sets.

The work is done by `Translator` (mt/translator.py), which `load` makes of a run folder. Where new things go:

- another way to search: `SEARCHES` of mt/search/searches.py; length penalty: `PENALTIES` of mt/search/penalties.py;
- another model: `ENCODERS` and `DECODERS` of mt/models/encoder_decoder.py; a search sees its `start` and `step` alone;
- another format of what is read: `INPUTS` of mt/lines/request.py; of what is written: `FORMATS` of mt/lines/formats.py.
"""

from __future__ import annotations

import json
import math
import os
from collections import deque
from collections.abc import Container, Generator, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from io import BufferedIOBase, UnsupportedOperation
from pathlib import Path
from typing import Any, BinaryIO

import torch

from mt.config import to_mapping
from mt.errors import DataError, RunError, plural
from mt.events import Event, Notice, Progress
from mt.lines.answer import Answer, Answering, Style, Tally, cut_notice, split_notice
from mt.lines.request import Request
from mt.place import Place
from mt.recipe import Recipe
from mt.shards import Shards
from mt.text.files import Block, make_folder, read_blocks, read_json, sha256_of, write_aside, write_json
from mt.text.folders import locked
from mt.text.streams import PAUSE, arriving_blocks, is_file, opened
from mt.training.distributed import ALONE, Group
from mt.translator import Translation, Translator, load, weights_file
from mt.workers import Workers

__all__ = [
    "Request",
    "Style",
    "Translated",
    "Translation",
    "Translator",
    "check_paths",
    "load",
    "translate_stream",
    "translate_tests",
    "translations_file",
]


@dataclass(frozen=True)
class Translated:
    """What a stream of text amounted to."""

    lines: int
    truncated: int
    """Translations that were cut at their length limit."""
    split: int = 0
    """Lines that were too long, so that their parts were translated."""


def check_paths(source: Path | BufferedIOBase | None, target: Path | None) -> None:
    """Refuse files that cannot be read or written, before a model is loaded; pipes and devices may be either.

    The folder of `target` is made, as for all that is written.

    Raises:
        DataError: they are one file (a link counts), `source` is no file, or `target` cannot become one.
    """
    if isinstance(source, Path) and (source.is_dir() or not source.exists()):
        raise DataError(f"{source} cannot be read: {'it is a folder' if source.is_dir() else 'no such file'}.")
    if target is None:
        return
    if target.is_dir():
        raise DataError(f"{target} is a folder; name a file for the output.")
    if source is not None and _is_of(target, source):
        name = f"{source} " if isinstance(source, Path) else ""
        raise DataError(f"{target} is the input {name}itself; name another file for the output.")
    make_folder(target.parent)


def _is_of(target: Path, source: Path | BufferedIOBase) -> bool:
    """Whether `source` is the file `target`, or reads from it, as standard input may."""
    try:
        read = source.stat() if isinstance(source, Path) else os.fstat(source.fileno())
    except UnsupportedOperation:  # bytes in memory
        return False
    return target.is_file() and os.path.samestat(read, target.stat())


def translate_stream(
    translator: Answering,
    source: BufferedIOBase | Path,
    target: BufferedIOBase | Path,
    style: Style | None = None,
    *,
    interactive: bool = False,
    group: Group = ALONE,
) -> Generator[Event, None, Translated]:
    """Translate lines, in their order; memory does not grow with them.

    Args:
        translator: a `Translator`, or `Workers`.
        source: a file, compressed or not; or a stream, of which the lines that have come are translated as soon as
            a block of them is there, or no more come for a moment and somebody may be waiting.
        target: a file, which has its name only when it is whole: what is done is kept beside it (mt/shards.py), and
            the same call goes on from there; or a stream, pipe or device, flushed after each block.
        style: how lines are read and translations written; None: plain text.
        interactive: answer each line of a stream by itself, as soon as it is there.
        group: the processes that translate `source` into `target` together.

    Raises:
        DataError: `check_paths`, or a line cannot be read (all lines before that one were translated); RunError:
            another translation is writing `target`; OSError: writing.
    """
    style = style or Style()
    check_paths(source, target if isinstance(target, Path) else None)
    waits = is_file(target) or isinstance(translator, Workers)
    blocks = _blocks(source, 1 if interactive else translator.block_lines, waits)
    if isinstance(target, Path) and is_file(target):
        target = target.resolve()
        # The first process has the lock for all that were started together.
        with locked(target, "mt translate") if group.leads else nullcontext():
            return (yield from _translate_to_file(translator, blocks, target, style, group))
    with opened(target) as file:
        return (yield from _translate_to_stream(translator, blocks, file, style))


def _blocks(source: BufferedIOBase | Path, lines: int, waits: bool) -> Iterator[Block]:
    """Blocks of `lines` lines; of a stream fewer where the input pauses, unless one `waits` for full ones."""
    if isinstance(source, Path):
        return read_blocks(source, lines)
    return arriving_blocks(source, "standard input", lines, pause=math.inf if waits else PAUSE)


def _translate_to_stream(
    translator: Answering, blocks: Iterable[Block], target: BufferedIOBase | BinaryIO, style: Style
) -> Generator[Event, None, Translated]:
    total = _Total()
    for answer in translator.answers(blocks, style):
        yield from map(Notice, answer.notices)
        target.write(answer.data)
        target.flush()
        total.add(answer)
        yield Progress("translate", total.lines)
        if answer.error is not None:
            yield from total.summary()
            raise answer.error
    yield from total.summary()
    return total.report()


def _translate_to_file(
    translator: Answering, blocks: Iterable[Block], target: Path, style: Style, group: Group
) -> Generator[Event, None, Translated]:
    place = Place(group.rank, group.size)
    shards = Shards(target, _identity(translator, style))
    paths: list[Path] = []
    todo: deque[Path] = deque()
    before: set[Path] = set()  # what was there already
    found = 0  # lines of it

    def missing() -> Iterator[Block]:
        nonlocal found
        for number, block in enumerate(blocks):
            paths.append(shards.path(block))
            if place.has(number) and not paths[-1].exists():
                todo.append(paths[-1])
                yield block
            elif place.has(number):
                before.add(paths[-1])
                found += len(block)

    total = _Total()
    for answer in translator.answers(missing(), style):
        yield from map(Notice, answer.notices)
        if answer.error is not None:
            raise answer.error
        shards.write(todo.popleft(), answer)
        total.add(answer)
        yield Progress("translate", total.lines + found)
    # Here the first process notices who ends too soon, and nobody looks for shards only after they are gone.
    found = int(group.sum(found)[0])
    if group.leads:
        if found:
            yield Notice(f"{found} {plural(found, 'line')} had been translated before.")
        total = yield from _join(shards, paths, target, before)
        if left := shards.remove(paths):
            yield Notice(f"{shards.folder} keeps {left} {plural(left, 'block')} of other lines or settings.")
        yield from total.summary()
    return total.report()


def _join(
    shards: Shards, paths: Sequence[Path], target: Path, before: Container[Path]
) -> Generator[Event, None, _Total]:
    """Write `target` of its shards, which all have been made.

    What was to be said of those that were there `before` this call is said again.
    """
    total = _Total()
    with write_aside(target) as file:
        for path in paths:
            if not path.exists():
                raise RunError(f"{path} was deleted by somebody before {target} was whole; run the same again.")
            answer = shards.read(path)
            yield from map(Notice, answer.notices if path in before else ())
            file.write(answer.data)
            total.add(answer)
    return total


def _identity(translator: Answering, style: Style) -> str:
    return json.dumps([translator.identity, style.format, style.input_format, style.alignments, vars(style.common)])


@dataclass
class _Total:
    """What the answers so far amount to."""

    lines: int = 0
    cut: Tally = field(default_factory=Tally)
    split: Tally = field(default_factory=Tally)

    def add(self, answer: Answer) -> None:
        self.lines += answer.lines
        self.cut.add(answer.truncated)
        self.split.add(answer.split)

    def summary(self) -> Iterator[Notice]:
        if self.split.count:
            yield Notice(split_notice(self.split))
        if self.cut.count:
            yield Notice(cut_notice(self.cut))

    def report(self) -> Translated:
        return Translated(self.lines, self.cut.count, self.split.count)


def translate_tests(
    recipe: Recipe, device: str | torch.device = "auto", checkpoint: str | None = None
) -> Generator[Event, None, dict[str, Path]]:
    """Translate the test sets of a trained run; returns the file of each, translations/NAME.LANGUAGE in the run folder.

    A file that this model made of this source with these settings is left as it is; NAME.LANGUAGE.json beside it tells.

    Raises:
        DataError: a source text is missing or not UTF-8; RunError: there is no model yet.
    """
    run = recipe.model_dir
    weights = weights_file(run, checkpoint)
    decode = replace(recipe.decode, n_best=1)  # a line of translation for a line of reference
    translator: Translator | None = None
    files = {}
    for name, test in recipe.data.test.items():
        file = files[name] = translations_file(recipe, name)
        check_paths(test.src, None)
        made_of = {"model": weights.sha256, "decode": to_mapping(decode), "source": sha256_of(test.src)}
        if _is_up_to_date(file, made_of):
            yield Notice(f"Translations of {name} are up to date.")
            continue
        if translator is None:
            translator = load(run, checkpoint, device, decode, weights=weights)
        yield from translate_stream(translator, test.src, file)
        write_json(_stamp(file), {**made_of, "translations": sha256_of(file)})
    return files


def translations_file(recipe: Recipe, test: str) -> Path:
    """Where the run folder has the translations of a test set."""
    return recipe.model_dir / "translations" / f"{test}.{recipe.data.tgt_lang}"


def _stamp(file: Path) -> Path:
    return file.with_name(file.name + ".json")


def _is_up_to_date(file: Path, made_of: dict[str, Any]) -> bool:
    if not file.is_file() or not _stamp(file).is_file():
        return False
    try:
        return bool(read_json(_stamp(file)) == {**made_of, "translations": sha256_of(file)})
    except DataError:  # a damaged stamp tells nothing: translate again
        return False
