"""Translate: text -> text with a trained model; and a run's test sets.

The work is done by `Translator` (mt/translator.py), which `load` makes of a run folder. Where new things go:

- another way to search: `SEARCHES` of mt/search/searches.py; length penalty: `PENALTIES` of mt/search/penalties.py;
- another model: `ENCODERS` and `DECODERS` of mt/models/encoder_decoder.py; a search sees its `start` and `step` alone;
- another output format: `FORMATS` here.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from io import BufferedIOBase, UnsupportedOperation
from pathlib import Path
from typing import Any, BinaryIO

import torch

from mt.config import to_mapping
from mt.errors import DataError
from mt.events import Event, Notice, Progress
from mt.recipe import Recipe
from mt.search.config import DecodeConfig
from mt.text.files import Block, read_blocks, read_json, sha256_of, write_aside, write_json
from mt.text.streams import arriving_blocks
from mt.translator import WINDOW, Alternative, Translation, Translator, load, weights_file

__all__ = [
    "FORMATS",
    "Translated",
    "Translation",
    "Translator",
    "check_paths",
    "load",
    "translate_stream",
    "translate_tests",
    "translations_file",
]


def _text(translation: Translation, n_best: int) -> str:
    texts = [translation.text, *(other.text for other in translation.alternatives)]
    return "".join(text + "\n" for text in [*texts, *[""] * (n_best - len(texts))])


def _jsonl(translation: Translation, n_best: int) -> str:
    fields = vars(translation) | {"translation": translation.text}
    names = ["source", "translation", "score", "log_prob", "truncated", *["cut_from"] * bool(translation.cut_from)]
    line: dict[str, Any] = {name: fields[name] for name in names}
    if n_best > 1:
        best = Alternative(translation.text, translation.score, translation.log_prob, translation.truncated)
        line["n_best"] = [
            {"translation": one.text, "score": one.score, "log_prob": one.log_prob, "truncated": one.truncated}
            for one in (best, *translation.alternatives)
        ]
    return json.dumps(line, ensure_ascii=False) + "\n"


FORMATS: dict[str, Callable[[Translation, int], str]] = {"text": _text, "jsonl": _jsonl}
"""text: of each source line exactly `n_best` lines, the best first; empty ones where fewer different translations were
found, and for a blank line. jsonl: one JSON object a source line, with scores, and with a list `n_best` if that is
above 1."""


@dataclass(frozen=True)
class Translated:
    """What a stream of text amounted to."""

    lines: int
    truncated: int
    """Translations that were cut at their length limit."""


def check_paths(source: Path | BufferedIOBase | None, target: Path | None) -> None:
    """Refuse files that cannot be read or written, before a model is loaded; pipes and devices may be either.

    Raises:
        DataError: they are one file (a link counts), `source` is no file, or `target` cannot become one.
    """
    if isinstance(source, Path) and (source.is_dir() or not source.exists()):
        raise DataError(f"{source} cannot be translated: {'it is a folder' if source.is_dir() else 'no such file'}.")
    if target is None:
        return
    if target.is_dir():
        raise DataError(f"{target} is a folder; name a file for the translations.")
    if not target.parent.is_dir():
        raise DataError(f"{target} cannot be written: there is no folder {target.parent.resolve()}; make it first.")
    if source is not None and _is_of(target, source):
        name = f"{source} " if isinstance(source, Path) else ""
        raise DataError(f"{target} is the source text {name}itself; name another file for the translations.")


def _is_of(target: Path, source: Path | BufferedIOBase) -> bool:
    """Whether `source` is the file `target`, or reads from it, as standard input may."""
    try:
        read = source.stat() if isinstance(source, Path) else os.fstat(source.fileno())
    except UnsupportedOperation:  # bytes in memory
        return False
    return target.is_file() and os.path.samestat(read, target.stat())


def translate_stream(
    translator: Translator, source: BufferedIOBase | Path, target: BufferedIOBase | Path, format: str = "text"
) -> Generator[Event, None, Translated]:
    """Translate text into one of `FORMATS`, in the order of its lines; memory does not grow with it.

    Args:
        source: a file, compressed or not; or a stream, of which the lines that have come are translated as soon as
            `WINDOW` of them are there or no more come for a moment.
        target: a file, written aside and renamed at the end; or a stream, pipe or device, flushed after each window.

    Raises:
        DataError: `check_paths`, or the text is not UTF-8 (all lines before that one were translated); OSError:
            writing.
    """
    check_paths(source, target if isinstance(target, Path) else None)
    blocks = (
        read_blocks(source, WINDOW) if isinstance(source, Path) else arriving_blocks(source, "standard input", WINDOW)
    )
    if not isinstance(target, Path):
        return (yield from _translate_blocks(translator, blocks, target, format))
    keeps_its_name = target.exists() and not target.is_file()
    with target.open("wb") if keeps_its_name else write_aside(target.resolve()) as file:
        return (yield from _translate_blocks(translator, blocks, file, format))


def _translate_blocks(
    translator: Translator, blocks: Iterable[Block], target: BufferedIOBase | BinaryIO, format: str
) -> Generator[Event, None, Translated]:
    done, cut, error = 0, list[int](), None
    for block in blocks:
        lines, error = block.readable()
        window = translator.translate_window(lines)
        for number, translation in enumerate(window, done + 1):
            if translation.cut_from is not None:
                yield Notice(_source_cut(number, translation.cut_from, translator.config))
            if translation.truncated:
                cut.append(number)
        target.write("".join(FORMATS[format](translation, translator.config.n_best) for translation in window).encode())
        target.flush()
        done += len(window)
        yield Progress("translate", done)
        if error is not None:
            break
    if cut:
        yield Notice(_translations_cut(cut))
    if error is not None:
        raise error
    return Translated(done, len(cut))


def _source_cut(number: int, pieces: int, config: DecodeConfig) -> str:
    return (
        f"Line {number} has {pieces} pieces; only the first {config.max_source_length} were translated "
        "(decode.max_source_length)."
    )


def _translations_cut(numbers: Sequence[int]) -> str:
    which = f"the translation of line {numbers[0]} was" if len(numbers) == 1 else f"{len(numbers)} translations were"
    first = "" if len(numbers) == 1 else f", the first that of line {numbers[0]}"
    return f"Cut: {which} ended by the length limit{first} (decode.max_length, decode.max_length_ratio)."


def translate_tests(
    recipe: Recipe, device: str | torch.device = "auto", checkpoint: str | None = None
) -> Generator[Event, None, dict[str, Path]]:
    """Translate the test sets of a trained run; returns the file of each, translations/NAME.LANGUAGE in the run folder.

    A file that this model made of this source with these settings is left as it is; NAME.LANGUAGE.json beside it tells.

    Raises:
        DataError: a source text is missing or not UTF-8; RunError: there is no model yet.
    """
    run = recipe.model_dir
    weights = sha256_of(weights_file(run, checkpoint))
    decode = replace(recipe.decode, n_best=1)  # a line of translation for a line of reference
    translator: Translator | None = None
    files = {}
    for name, test in recipe.data.test.items():
        file = files[name] = translations_file(recipe, name)
        check_paths(test.src, None)
        made_of = {"model": weights, "decode": to_mapping(decode), "source": sha256_of(test.src)}
        if _is_up_to_date(file, made_of):
            yield Notice(f"Translations of {name} are up to date.")
            continue
        if translator is None:
            translator = load(run, checkpoint, device, decode)
        file.parent.mkdir(exist_ok=True)
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
