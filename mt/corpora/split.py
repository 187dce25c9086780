"""Cut sentence pairs into train, valid and test so that no sentence is in two parts.

Pairs that share a sentence, on either side, directly or through other pairs, form a group, and a group goes to one part
whole. Which one is decided by a hash of its text: neither the order of the lines nor a repeated line changes the parts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping

from mt.data.config import Split
from mt.errors import DataError, plural
from mt.text.files import read_lines

SentencePair = tuple[str, str]
PARTS = ("train", "valid", "test")


def split_pairs(pairs: Iterable[SentencePair], valid: int, test: int, salt: str = "") -> dict[str, list[SentencePair]]:
    """Part name -> its pairs, each pair once: `valid` and `test` of them exactly, the rest to train.

    Another `salt` gives other parts. Memory grows with the text. DataError where the groups cannot be cut so.
    """
    order = {pair: hashlib.sha256(f"{salt}\t{pair[0]}\t{pair[1]}".encode()).digest() for pair in pairs}
    rest = sorted(_groups(order), key=lambda group: order[min(group)])  # by one pair: size must not weigh
    parts: dict[str, list[SentencePair]] = {}
    for part, size in (("test", test), ("valid", valid)):
        parts[part], rest = _take(rest, size, part)
    parts["train"] = sorted((pair for group in rest for pair in group), key=order.__getitem__)
    if not parts["train"]:
        raise DataError(
            f"No pair is left for training: all {len(order)} went to the parts valid ({valid}) and test ({test})."
        )
    return {part: parts[part] for part in PARTS}


def read_table(split: Split) -> Iterator[SentencePair]:
    """The pairs of `split.tsv`, without white space at their ends; a side may be empty."""
    for number, line in enumerate(read_lines(split.tsv), start=1):
        cells = line.split("\t")
        if len(cells) < max(split.columns):
            raise DataError(
                f"{split.tsv}, line {number} has {len(cells)} tab-separated {plural(len(cells), 'column')}, but "
                f"data.split.columns asks for column {max(split.columns)}."
            )
        source, target = (cells[column - 1].strip() for column in split.columns)
        yield source, target


def _groups(order: Mapping[SentencePair, bytes]) -> list[list[SentencePair]]:
    """Pairs that share a sentence together, each group in the order of the hashes."""
    groups: dict[str, list[SentencePair]] = {}
    roots = _roots(order)
    for pair in sorted(order, key=order.__getitem__):
        groups.setdefault(roots[pair[0]], []).append(pair)
    return list(groups.values())


def _roots(pairs: Iterable[SentencePair]) -> dict[str, str]:
    """Sentence -> the sentence that stands for its group (union-find with path halving)."""
    parent: dict[str, str] = {}

    def find(text: str) -> str:
        while parent.setdefault(text, text) != text:
            parent[text] = parent[parent[text]]
            text = parent[text]
        return text

    for source, target in pairs:
        parent[find(source)] = find(target)
    return {text: find(text) for text in list(parent)}


def _take(
    groups: list[list[SentencePair]], size: int, part: str
) -> tuple[list[SentencePair], list[list[SentencePair]]]:
    """Groups of `size` pairs in all, in the order given but small ones first: one large group is a poor test."""
    taken: list[SentencePair] = []
    left: list[list[SentencePair]] = []
    for group in sorted(groups, key=lambda group: len(group) * 100 > max(size, 100)):
        if len(taken) + len(group) <= size:
            taken += group
        else:
            left.append(group)
    if len(taken) < size:
        raise DataError(
            f"The {part} part should have {size} {plural(size, 'pair')}, but only {len(taken)} can be set apart "
            "without sharing a sentence with the others; ask for fewer."
        )
    return taken, left
