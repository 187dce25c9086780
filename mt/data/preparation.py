"""One preparation at work: from tokenizers and text to the files of a prepared folder. It imports no torch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from mt.data.assembly import SplitWriter, copy_lines
from mt.data.config import DataConfig
from mt.data.encoding import EncodedPairs, Encoder, SideCounts, encode_blocks
from mt.data.inputs import Origin
from mt.data.report import CorpusCounts, PrepareReport, SideReport
from mt.data.seen import Seen
from mt.data.store import FORMAT, MANIFEST, VERSION
from mt.errors import DataError
from mt.events import Event, Progress
from mt.text.corpus import read_pair_blocks
from mt.text.files import write_json
from mt.text.tokenizer import Tokenizers

REPORT = "report.json"


class Preparation:
    """Fills a folder, of which nothing is whole before `run` has ended."""

    def __init__(self, data: DataConfig, resamples: bool, tokenizers: Tokenizers, origin: Origin, folder: Path) -> None:
        """`resamples`: training segments anew, so the text is kept beside the ids."""
        self.data, self.resamples, self.tokenizers = data, resamples, tokenizers
        self.origin, self.folder = origin, folder
        self.corpus = _corpus_id(origin, tokenizers)
        self.files: dict[str, dict[str, Any]] = {}
        self.splits: dict[str, dict[str, int]] = {}
        self.report = PrepareReport(
            folder,
            [CorpusCounts(text.name or text.src.name) for text in data.train],
            SideReport(len(tokenizers.src), SideCounts()),
            SideReport(len(tokenizers.tgt), SideCounts()),
        )

    def run(self, totals: Sequence[int], workers: int) -> Generator[Event, None, PrepareReport]:
        """Write all files. `totals` are the pairs of each training corpus, counted before."""
        self.tokenizers.save(self.folder / "tokenizer")
        yield from self._train(totals, workers)
        self._valid()
        self.origin.refuse_moving()
        write_json(self.folder / REPORT, self.report.as_mapping())
        write_json(self.folder / MANIFEST, self._manifest())
        return self.report

    def _train(self, totals: Sequence[int], workers: int) -> Generator[Event, None, None]:
        encoder = Encoder(self.data.filters, self.data.invalid == "drop", self.data.dedup, self.resamples)
        blocks = chain.from_iterable(read_pair_blocks(text.src, text.tgt) for text in self.data.train)
        seen = Seen()
        with SplitWriter(self.folder, "train", self.tokenizers, self.corpus, self.resamples) as writer:
            for block in encode_blocks(encoder, self.folder / "tokenizer", blocks, workers):
                if self.data.dedup and (repeated := block.keep(seen.add(block.keys))):
                    block.dropped["duplicate"] = repeated
                writer.append(block)
                self._count(block, totals)
                yield Progress("encoding", self.report.read, sum(totals))
            if not writer.pairs:
                raise DataError(f"{self.report.summary()}; nothing is left to train on: loosen data.filters.")
            self.files |= writer.close()
        self.splits["train"] = {"pairs": writer.pairs}

    def _count(self, block: EncodedPairs, totals: Sequence[int]) -> None:
        """Add a block's counts to those of its corpus, the first that is not read to its end."""
        corpora = zip(self.report.corpora, totals, strict=True)
        next(corpus for corpus, total in corpora if corpus.read < total).add(block.read, block.dropped)
        self.report.src.counts.add(block.src.counts)
        self.report.tgt.counts.add(block.tgt.counts)

    def _valid(self) -> None:
        text = self.data.valid
        if not text:
            return
        encoder = Encoder(None, drop_invalid=False, dedup=False, keep_text=False)
        with SplitWriter(self.folder, "valid", self.tokenizers, self.corpus, with_text=False) as writer:
            for block in encode_blocks(encoder, self.folder / "tokenizer", read_pair_blocks(text.src, text.tgt), 1):
                writer.append(block)
                self.report.valid_empty += int((np.minimum(block.src.lengths, block.tgt.lengths) == 0).sum())
            self.files |= writer.close()
        self.files |= copy_lines(text.src, self.folder, "valid.src.txt")
        self.files |= copy_lines(text.tgt, self.folder, "valid.tgt.txt")
        self.report.valid = writer.pairs
        self.splits["valid"] = {"pairs": writer.pairs}

    def _manifest(self) -> dict[str, Any]:
        src, tgt = self.tokenizers.src, self.tokenizers.tgt
        sizes = {"src_size": len(src), "tgt_size": len(tgt), "shared": self.tokenizers.shared}
        return {
            "format": FORMAT,
            "version": VERSION,
            "corpus": self.corpus,
            "tokenizer": {"type": src.type, "fingerprint": self.tokenizers.fingerprint, **sizes},
            "splits": self.splits,
            "files": self.files,
            **self.origin.as_mapping(),
        }


def _corpus_id(origin: Origin, tokenizers: Tokenizers) -> str:
    """Equal for equal text, settings and vocabularies, so that preparing twice gives the same bytes."""
    checksums = [file.sha256 for file in origin.inputs]
    parts = [VERSION, origin.settings, checksums, tokenizers.fingerprint]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
