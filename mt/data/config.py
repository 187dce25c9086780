"""The recipe's `data` block: which text is read, where it comes from, and what is left out of it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from mt.config import option
from mt.errors import ConfigError
from mt.text.config import Filters


@dataclass(frozen=True)
class ParallelText:
    """Two files of which line k of one translates line k of the other."""

    src: Path = option(help="source text, one sentence a line; plain, gz, bz2, xz or zst")
    tgt: Path = option(help="target text")
    name: str | None = option(None, help="name in reports; default: the source file's name")


@dataclass(frozen=True)
class TestSet:
    """A source text and its reference translations."""

    __test__ = False  # not a test, whatever pytest thinks of the name

    src: Path = option(help="source text")
    tgt: tuple[Path, ...] = option(help="reference, or a list of references")


@dataclass(frozen=True)
class Download:
    """A file to fetch."""

    url: str = option(help="where it lies: an http or https address")
    to: Path = option(help="where it goes; of an archive, the folder for itself and its members")
    sha256: str | None = option(None, help="checksum, in hexadecimal; null: mt fetch reports it, to be pinned")
    members: tuple[str, ...] = option((), help="files to take out of a zip or tar archive; none: no archive")

    def __post_init__(self) -> None:
        if not re.fullmatch(r"https?://[^/\s]+/\S+", self.url):
            raise ConfigError(f"data.download: the url '{self.url}' must be like https://host/path, without spaces.")
        if self.sha256 is not None and not re.fullmatch("[0-9a-f]{64}", self.sha256):
            raise ConfigError(f"data.download: the sha256 '{self.sha256}' must be 64 digits of 0-9 and a-f.")
        for member in self.members:
            if PurePosixPath(member).is_absolute() or ".." in PurePosixPath(member).parts:
                raise ConfigError(f"data.download: the member '{member}' must be a path in the archive, without '..'.")

    @property
    def file(self) -> Path:
        """Where the file itself goes."""
        return self.to / PurePosixPath(urlsplit(self.url).path).name if self.members else self.to


@dataclass(frozen=True)
class Split:
    """Cut a tab-separated file of sentence pairs into the texts that train, valid and test name.

    Pairs that share a sentence, directly or through other pairs, go to the same part.
    """

    tsv: Path = option(help="tab-separated pairs, one a line; plain, gz, bz2, xz or zst")
    columns: tuple[int, ...] = option((1, 2), help="source and target column, counted from 1", ge=1)
    valid: int = option(1000, help="pairs of the validation part", ge=1)
    test: int = option(1000, help="pairs of the test part", ge=1)

    def __post_init__(self) -> None:
        if len(set(self.columns)) != 2 or len(self.columns) != 2:
            raise ConfigError(f"data.split.columns must be two different columns, but is {list(self.columns)}.")


@dataclass(frozen=True)
class Generate:
    """Generate phrases of locale data (Unicode CLDR through Babel, and num2words; extra `demo`) in two languages.

    They go to the texts that train, valid and test name. The recipe's seed chooses the phrases.
    """

    pairs: int = option(20000, help="training pairs", ge=1)
    held_out: int = option(500, help="pairs of the validation part, and of the test part", ge=1)


@dataclass(frozen=True)
class DataConfig:
    """The corpora. Relative paths are relative to the recipe file (see docs/recipes.md)."""

    src_lang: str = option(help="source language code, such as en")
    tgt_lang: str = option(help="target language code; chooses BLEU's tokenizer for zh, ja and ko")
    train: tuple[ParallelText, ...] = option(help="training corpora, read one after the other")
    valid: ParallelText | None = option(None, help="validation text")
    test: dict[str, TestSet] = field(default_factory=dict)
    dir: Path | None = option(None, help="folder of the prepared corpus; default: data/ in the run folder")
    filters: Filters = field(default_factory=Filters)
    dedup: bool = option(False, help="drop pairs that occurred before")
    invalid: str = option(
        "error", help="a pair with bytes that are not UTF-8: stop with its place, or drop it", choices=("error", "drop")
    )
    download: tuple[Download, ...] = option((), help="files that `mt fetch` brings")
    split: Split | None = option(None, help="mt fetch cuts one file of pairs into the train, valid and test text")
    generate: Generate | None = option(None, help="mt fetch generates the train, valid and test text")

    def __post_init__(self) -> None:
        if self.split and self.generate:
            raise ConfigError("data.split and data.generate both write the train, valid and test text; take one out.")
        if self.split or self.generate:
            self._check_parts("data.split" if self.split else "data.generate")

    def _check_parts(self, writer: str) -> None:
        """One text each to write to, plain, and no file twice."""
        one_each = len(self.train) == 1 and self.valid and [len(test.tgt) for test in self.test.values()] == [1]
        if not one_each or not self.valid:
            raise ConfigError(
                f"{writer} writes one training, one validation and one test text: data.train must have one corpus, "
                "data.valid must be there, and data.test must have one set with one reference."
            )
        files = [self.train[0].src, self.train[0].tgt, self.valid.src, self.valid.tgt]
        files += [path for test in self.test.values() for path in (test.src, *test.tgt)]
        for path in files:
            if path.suffix in (".gz", ".bz2", ".xz", ".zst") or files.count(path) > 1:
                raise ConfigError(f"{writer} writes six plain texts, but data.train, valid and test name {path}.")
