"""`mt fetch`: bring the corpora that a recipe names: from their publishers, from a folder, or generated."""

from __future__ import annotations

import errno
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mt import __version__
from mt.corpora.archive import extract
from mt.corpora.copies import copy_from, find_copy
from mt.corpora.download import Patience, download
from mt.corpora.language import find_language
from mt.corpora.parts import Parts, Texts
from mt.corpora.phrases import generate_phrases
from mt.corpora.split import PARTS, SentencePair, read_table, split_pairs
from mt.data.config import Download, Generate, Split
from mt.errors import ConfigError, DataError, plural
from mt.events import Event, Notice
from mt.recipe import Recipe
from mt.text.files import read_lines, sha256_of

Work = Generator[Event, None, "list[Fetched]"]


@dataclass(frozen=True)
class Fetched:
    """A file that is there now, and where it came from: kept, downloaded, copied, unpacked, split or generated."""

    path: Path
    origin: str


@dataclass(frozen=True)
class FetchReport:
    """All files that the recipe's `data.download`, `data.split` and `data.generate` bring."""

    files: tuple[Fetched, ...]

    def __str__(self) -> str:
        return (
            "\n".join(f"{file.origin:<10}  {file.path}" for file in self.files) or "This recipe has nothing to fetch."
        )


def fetch(
    recipe: Recipe, source_dir: Path | None = None, patience: Patience | None = None
) -> Generator[Event, None, FetchReport]:
    """Bring what the recipe names. What is there already, with the right checksum, is kept.

    With `source_dir` nothing is downloaded: the files, or the ready-made texts of `data.split`, come from that folder.
    Raises DataError or ConfigError; no file has its final name before it is whole and its checksum fits.
    """
    if source_dir is not None and not source_dir.is_dir():
        raise DataError(f"--from {source_dir} is no folder; name one that holds the files.")
    data, files = recipe.data, list[Fetched]()
    with _disk_errors():
        ready = (yield from _ready_parts(recipe, data.split, source_dir)) if data.split else []
        for index, item in enumerate(data.download):
            if not (ready and data.split and _serves(item, data.split)):
                files += yield from _fetch_item(item, f"data.download[{index}]", source_dir, patience or Patience())
        if data.split:
            files += ready or (yield from _split(recipe, data.split))
        if data.generate:
            files += yield from _generate(recipe, data.generate)
    return FetchReport(tuple(files))


def _fetch_item(item: Download, key: str, source_dir: Path | None, patience: Patience) -> Work:
    """The file, and the members of an archive; the sum is told where the recipe does not pin it."""
    if item.file.exists():
        _check_present(item)
        files = [Fetched(item.file, "kept")]
    else:
        origin, found = yield from _bring(item, source_dir, patience)
        files = [Fetched(item.file, origin)]
        pin = f"; to pin it, write sha256: {found} into {key}" if item.sha256 is None else ""
        yield Notice(f"{item.file}: {origin}{pin}.")
    members = [item.to / member for member in item.members]
    if members and (files[0].origin != "kept" or not all(path.is_file() for path in members)):
        extract(item.file, item.members, item.to)
        return files + [Fetched(path, "unpacked") for path in members]
    return files + [Fetched(path, "kept") for path in members]


def _check_present(item: Download) -> None:
    if item.sha256 is not None and (found := sha256_of(item.file)) != item.sha256:
        raise DataError(
            f"{item.file} exists, but its sha256 is {found} and the recipe wants {item.sha256}; move it away to "
            "fetch it again."
        )


def _bring(item: Download, source_dir: Path | None, patience: Patience) -> Generator[Event, None, tuple[str, str]]:
    """The file from the folder, or from its address; how, and its sum."""
    if source_dir is None:
        return "downloaded", (yield from download(item.url, item.file, item.sha256, patience))
    found = find_copy(item.file, item.sha256, source_dir)
    if found is None:
        raise DataError(
            f"{source_dir} holds no {item.file.name}, nor a compressed copy of it, with or without the folders of "
            f"{item.file}; put it there, or fetch without --from."
        )
    return "copied", copy_from(found, item.file, item.sha256)


def _serves(item: Download, split: Split) -> bool:
    """Whether the file is there only to be split."""
    return split.tsv in (item.to, *(item.to / member for member in item.members))


def _ready_parts(recipe: Recipe, split: Split, source_dir: Path | None) -> Work:
    """The parts where they are there already, or are now because the folder has all six; else none."""
    parts, copied = Parts.of(recipe.data), {"copied": "ready-made"}
    if parts.foreign():
        yield _foreign_notice(parts, "data.split")
        return _fetched(parts, "kept")
    if parts.up_to_date(_split_settings(split)) or parts.up_to_date(copied):
        return _fetched(parts, "kept")
    found = {path: find_copy(path, None, source_dir) for path in parts.files()} if source_dir else {}
    if not found or None in found.values():
        return []
    parts.check_own()
    texts: Texts = {}
    for part, (source, target) in parts.paths.items():
        texts[part] = (read_lines(found[source] or source), read_lines(found[target] or target))
    parts.write(texts, copied)
    yield Notice(f"{source_dir}: the ready-made texts were taken as they are; data.split was not used.")
    return _fetched(parts, "copied")


def _split(recipe: Recipe, split: Split) -> Work:
    parts = Parts.of(recipe.data)
    parts.check_own()
    table = list(read_table(split))
    whole = [pair for pair in table if all(pair)]
    cut = split_pairs(whole, split.valid, split.test)
    kept = sum(len(cut[part]) for part in PARTS)
    parts.write(_texts(cut), _split_settings(split))
    yield Notice(
        f"{split.tsv}: {len(table)} {plural(len(table), 'line')}; left out {len(table) - len(whole)} with an empty "
        f"side and {len(whole) - kept} repeated; {_sizes(cut)}."
    )
    return _fetched(parts, "split")


def _generate(recipe: Recipe, generate: Generate) -> Work:
    data, parts = recipe.data, Parts.of(recipe.data)
    if parts.foreign():
        yield _foreign_notice(parts, "data.generate")
        return _fetched(parts, "kept")
    if data.src_lang == data.tgt_lang:
        raise ConfigError(
            f"data.src_lang and data.tgt_lang are both '{data.src_lang}'; data.generate needs two languages."
        )
    source, target = find_language(data.src_lang, "data.src_lang"), find_language(data.tgt_lang, "data.tgt_lang")
    made_from = {
        "generate": {"pairs": generate.pairs, "held_out": generate.held_out},
        "from": [data.src_lang, data.tgt_lang, recipe.seed],
        "with": [f"mt-toolkit {__version__}", f"babel {version('babel')}", f"num2words {version('num2words')}"],
    }
    if parts.up_to_date(made_from):
        return _fetched(parts, "kept")
    parts.check_own()
    phrases = generate_phrases(source, target, generate.pairs + 2 * generate.held_out, recipe.seed)
    cut = split_pairs(phrases.pairs, generate.held_out, generate.held_out, str(recipe.seed))
    parts.write(_texts(cut), made_from)
    left_out = "".join(f", {count} of kind {kind}" for kind, count in sorted(phrases.unsayable.items()))
    yield Notice(
        f"Generated {data.src_lang}-{data.tgt_lang} phrases: {_sizes(cut)}; left out {phrases.ambiguous} "
        f"{plural(phrases.ambiguous, 'source')} with two translations"
        f"{left_out and ', and for want of words in one language' + left_out[1:]}."
    )
    return _fetched(parts, "generated")


def _foreign_notice(parts: Parts, key: str) -> Notice:
    train, _ = parts.paths["train"]
    return Notice(
        f"{train} and the other texts were put there by somebody: they are used as they are, and {key} is not."
    )


def _fetched(parts: Parts, origin: str) -> list[Fetched]:
    return [Fetched(path, origin) for path in parts.files()]


def _split_settings(split: Split) -> dict[str, Any]:
    tsv = sha256_of(split.tsv) if split.tsv.is_file() else None
    return {"split": {"columns": list(split.columns), "valid": split.valid, "test": split.test}, "tsv": tsv}


def _texts(cut: dict[str, list[SentencePair]]) -> Texts:
    return {part: ([source for source, _ in pairs], [target for _, target in pairs]) for part, pairs in cut.items()}


def _sizes(cut: dict[str, list[SentencePair]]) -> str:
    return ", ".join(f"{part} {len(pairs)}" for part, pairs in cut.items()) + " pairs"


@contextmanager
def _disk_errors() -> Iterator[None]:
    """A full or forbidden disk in one sentence."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DataError(
                "The disk is full; make room and fetch again: a download goes on where it stopped."
            ) from None
        raise DataError(f"{error.filename or 'A file'} cannot be read or written: {error.strerror or error}.") from None
