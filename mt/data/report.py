"""What preparation tells: how many pairs were read, kept and dropped and why, and how well the vocabularies fit."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mt.data.encoding import SideCounts
from mt.errors import plural

SHOWN = 40
"""Most left-out characters that the text lists; report.json has all."""
HIGH_UNKNOWN_RATE = 0.05


@dataclass
class CorpusCounts:
    """Pairs of one training corpus."""

    name: str
    read: int = 0
    dropped: dict[str, int] = field(default_factory=dict)

    @property
    def kept(self) -> int:
        """Pairs left."""
        return self.read - sum(self.dropped.values())

    def summary(self) -> str:
        """`3 of 4 pairs left: 1 too long`."""
        return left(self.kept, self.read, self.dropped)

    def add(self, read: int, dropped: dict[str, int]) -> None:
        """Add the counts of some more pairs."""
        self.read += read
        for reason, count in dropped.items():
            self.dropped[reason] = self.dropped.get(reason, 0) + count


@dataclass
class SideReport:
    """One side of the training text as read, before any filter, and its vocabulary."""

    vocab_size: int
    counts: SideCounts

    @property
    def unknown_rate(self) -> float:
        """Unknown pieces of all pieces."""
        return self.counts.unknown / max(self.counts.pieces, 1)

    @property
    def left_out_share(self) -> float:
        """Occurrences of characters without a piece, of all characters."""
        return sum(self.counts.left_out.values()) / max(self.counts.characters, 1)

    def lines(self, side: str) -> list[str]:
        """The report in words."""
        counts = self.counts
        said = [
            f"{side}: {counts.pieces} {plural(counts.pieces, 'piece')} in {counts.lines} "
            f"{plural(counts.lines, 'line')}, vocabulary of {self.vocab_size}, "
            f"{counts.unknown} unknown ({self.unknown_rate:.3%})"
        ]
        if counts.left_out:
            shown = " ".join(character for character, _ in counts.left_out.most_common(SHOWN))
            more = len(counts.left_out) - SHOWN
            rest = f" and {more} more" if more > 0 else ""
            said.append(
                f"{side}: characters without a piece: {len(counts.left_out)} ({self.left_out_share:.4%} of the text): "
                f"{shown}{rest}"
            )
        if counts.changed:
            said.append(f"{side}: lines that normalisation changed: {counts.changed}")
        if counts.markers:
            said.append(f"{side}: lines with U+2581, which becomes a space: {counts.markers}")
        if counts.replaced:
            said.append(f"{side}: lines with U+FFFD, which stands for lost text: {counts.replaced}")
        return said

    def as_mapping(self) -> dict[str, Any]:
        """For report.json; the characters by falling frequency."""
        left_out = dict(sorted(self.counts.left_out.items(), key=lambda item: (-item[1], item[0])))
        shares = {"unknown_rate": self.unknown_rate, "left_out_share": self.left_out_share}
        return {"vocab_size": self.vocab_size, **asdict(self.counts), "left_out": left_out, **shares}

    @classmethod
    def from_mapping(cls, mapping: dict[str, Any]) -> SideReport:
        """The inverse of `as_mapping`."""
        names = SideCounts().__dict__
        counts = {name: mapping[name] for name in names if name != "left_out"}
        return cls(mapping["vocab_size"], SideCounts(**counts, left_out=Counter(mapping["left_out"])))


@dataclass
class PrepareReport:
    """What `prepare` returns."""

    folder: Path
    corpora: list[CorpusCounts]
    src: SideReport
    tgt: SideReport
    valid: int = 0
    """Pairs of the validation text; 0 where there is none."""
    valid_empty: int = 0
    """Validation pairs of which a side is empty."""
    up_to_date: bool = False
    """Nothing had to be done."""

    @property
    def read(self) -> int:
        """Training pairs read."""
        return sum(corpus.read for corpus in self.corpora)

    @property
    def kept(self) -> int:
        """Training pairs left."""
        return sum(corpus.kept for corpus in self.corpora)

    @property
    def dropped(self) -> dict[str, int]:
        """Training pairs dropped, for each reason that occurred."""
        total: Counter[str] = Counter()
        for corpus in self.corpora:
            total.update(corpus.dropped)
        return dict(total)

    def summary(self) -> str:
        """`3 of 4 pairs left: 1 too long`."""
        return left(self.kept, self.read, self.dropped)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """The report in words."""
        said = [self.summary()]
        if len(self.corpora) > 1:
            said += [f"  {one.name}: {one.summary()}" for one in self.corpora]
        said.append(f"validation pairs: {self.valid}")
        return said + self.src.lines("source") + self.tgt.lines("target")

    def as_mapping(self) -> dict[str, Any]:
        """For report.json."""
        corpora = [{**asdict(corpus), "kept": corpus.kept} for corpus in self.corpora]
        totals = {
            "read": self.read,
            "kept": self.kept,
            "dropped": self.dropped,
            "valid": self.valid,
            "valid_empty": self.valid_empty,
        }
        return {**totals, "corpora": corpora, "src": self.src.as_mapping(), "tgt": self.tgt.as_mapping()}

    @classmethod
    def from_mapping(cls, mapping: dict[str, Any], folder: Path) -> PrepareReport:
        """The report of an earlier preparation, found up to date."""
        corpora = [CorpusCounts(corpus["name"], corpus["read"], corpus["dropped"]) for corpus in mapping["corpora"]]
        src, tgt = SideReport.from_mapping(mapping["src"]), SideReport.from_mapping(mapping["tgt"])
        return cls(folder, corpora, src, tgt, mapping["valid"], mapping["valid_empty"], up_to_date=True)


def left(kept: int, read: int, dropped: dict[str, int]) -> str:
    """How many pairs are left, and how many went for which reason."""
    reasons = ", ".join(f"{count} {reason}" for reason, count in dropped.items())
    return f"{kept} of {read} {plural(read, 'pair')} left" + (f": {reasons}" if reasons else "")


_KEEPS_MORE = {"word": "A larger vocab_size keeps", "char": "A larger vocab_size or character_coverage: 1 keeps"}


def warnings(report: PrepareReport, tokenizer: str) -> list[str]:
    """What in a report the person should look into; `tokenizer` is its type."""
    keeps = _KEEPS_MORE.get(tokenizer, "A larger vocab_size, character_coverage: 1 or byte_fallback: true keeps")
    said = []
    for name, side in (("source", report.src), ("target", report.tgt)):
        if side.unknown_rate > HIGH_UNKNOWN_RATE:
            said.append(
                f"{side.unknown_rate:.1%} of the {name} pieces are unknown: is the vocabulary that of this text and "
                f"side? {keeps} more of it."
            )
        if side.counts.markers:
            said.append(f"{name} lines with U+2581 (▁), which becomes a space: {side.counts.markers}")
        if side.counts.replaced:
            said.append(
                f"{name} lines with U+FFFD (\ufffd), which stands for text that was lost when it was decoded: "
                f"{side.counts.replaced}; mend them or leave them out."
            )
    if report.valid_empty:
        said.append(f"validation pairs with an empty side, kept as they are: {report.valid_empty}")
    return said
