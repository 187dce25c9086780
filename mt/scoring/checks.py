"""What is strange about text that is to be scored. Nothing is changed and nothing left out: a person should know."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from mt.scoring.metrics import References

# A full stop or comma that stands alone, a split English contraction, an escaped quotation mark.
_TOKENISED = re.compile(r"(?:^| )[.,](?: |$)| (?:n't|'s|'re|'ve|'ll)(?: |$)|&(?:apos|quot);|@-@")
# Marks of pieces and of unknown words: SentencePiece, subword-nmt, WordPiece, byte pieces.
_PIECES = re.compile(r"▁|@@(?: |$)|(?:^| )##\w|<0x[0-9A-F]{2}>|<unk>|⁇")

_SHARE = 10  # one line in ten is a habit, not an accident


def strange(name: str, hypotheses: Sequence[str], references: References, tokenised: bool) -> list[str]:
    """Sentences about the system `name`, none where all is well; `tokenised` where the text is meant to be.

    All arguments have the same number of lines.
    """
    found = ["" if tokenised else _looks_tokenised(name, hypotheses), _holds_pieces(name, hypotheses, references)]
    found.append(_differs_in_form(name, hypotheses, references))
    if not any(line.strip() for line in hypotheses):
        found.append(f"{name}: every line is empty.")
    return [sentence for sentence in found if sentence]


def strange_references(references: Sequence[tuple[str, Sequence[str | None]]]) -> list[str]:
    """Sentences about empty lines of the references, given as (name, lines)."""
    found = []
    for name, lines in references:
        empty = [number for number, line in enumerate(lines, start=1) if line is not None and not line.strip()]
        if empty:
            found.append(f"{name} has empty lines ({_places(empty)}); nothing matches an empty reference.")
    return found


def _looks_tokenised(name: str, hypotheses: Sequence[str]) -> str:
    lines = [number for number, line in enumerate(hypotheses, start=1) if _TOKENISED.search(line)]
    if not lines or len(lines) * _SHARE < len(hypotheses):
        return ""
    return (
        f"{name} looks tokenised ({_places(lines)}: '{_excerpt(hypotheses[lines[0] - 1])}'): score detokenised text, "
        "or, where the references are tokenised as well, set tokenize to none; such scores compare with no others."
    )


def _holds_pieces(name: str, hypotheses: Sequence[str], references: References) -> str:
    if any(line is not None and _PIECES.search(line) for lines in references for line in lines):
        return ""
    lines = [number for number, line in enumerate(hypotheses, start=1) if _PIECES.search(line)]
    if not lines:
        return ""
    return (
        f"{name} holds marks of pieces or unknown words ({_places(lines)}: '{_excerpt(hypotheses[lines[0] - 1])}'); "
        "such text is scored as it stands."
    )


def _differs_in_form(name: str, hypotheses: Sequence[str], references: References) -> str:
    lines = []
    for number, (line, *refs) in enumerate(zip(hypotheses, *references, strict=True), start=1):
        composed = unicodedata.is_normalized("NFC", line)
        if all(ref is not None and unicodedata.is_normalized("NFC", ref) != composed for ref in refs):
            lines.append(number)
    if not lines:
        return ""
    return (
        f"{name} and the references differ in Unicode normal form ({_places(lines)}): an accented letter and "
        "the same letter with a combining accent count as different; nothing was normalised."
    )


def _places(numbers: Sequence[int]) -> str:
    """`line 7`, or `12 lines, the first is line 7`."""
    return f"{len(numbers)} lines, the first is line {numbers[0]}" if len(numbers) > 1 else f"line {numbers[0]}"


def _excerpt(line: str) -> str:
    return line if len(line) <= 60 else line[:57] + "..."
