"""The recipe's `data` block: which text is read, where it comes from, and what is left out of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from mt.config import option


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
class Filters:
    """What is left out of the training text. Validation and test text are never filtered."""

    max_length: int | None = option(250, help="most pieces a side, specials not counted, inclusive; null: no limit", ge=1)
    max_ratio: float | None = option(None, help="longer side / shorter side in pieces, at most; null: no limit", ge=1)
    identical: bool = option(False, help="drop pairs of which both sides are the same")
    non_text: bool = option(False, help="drop pairs of which a side has no letter")


@dataclass(frozen=True)
class Download:
    """A file to fetch."""

    url: str = option(help="where it lies")
    to: Path = option(help="where it goes; of an archive, the folder for its members")
    sha256: str | None = option(None, help="its checksum; null: reported at the first download")
    members: tuple[str, ...] = option((), help="files to take out of a zip or tar archive; none: the file itself")


@dataclass(frozen=True)
class Split:
    """Cut a tab-separated file of sentence pairs into train, valid and test text.

    Pairs that share a sentence, directly or through other pairs, go to the same part.
    """

    tsv: Path = option(help="tab-separated pairs")
    columns: tuple[int, ...] = option((1, 2), help="source and target column, counted from 1")
    valid: int = option(1000, help="pairs of the validation part", ge=1)
    test: int = option(1000, help="pairs of the test part", ge=1)


@dataclass(frozen=True)
class Generate:
    """Generate parallel phrases of locale data (Unicode CLDR through Babel, and num2words; extra `demo`)."""

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
    invalid: str = option("error", help="a pair with bytes that are not UTF-8: stop with its place, or drop it", choices=("error", "drop"))
    download: tuple[Download, ...] = option((), help="files that `mt fetch` brings")
    split: Split | None = option(None, help="cut one file of pairs into train, valid and test text")
    generate: Generate | None = option(None, help="generate the corpus")
