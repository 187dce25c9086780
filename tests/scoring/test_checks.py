"""Notices about text that is strange to score."""

from __future__ import annotations

import unicodedata

import pytest

from mt.scoring.checks import strange, strange_references

PLAIN = ["I don't know, said the man.", "It costs 3.5 dollars, or 4.", "Il a dit : « Oui ! »", "Wait ... what?"]


def test_plain_text_is_not_strange() -> None:
    assert strange("hyp", PLAIN, [PLAIN], tokenised=False) == []
    assert strange_references([("ref", PLAIN)]) == []


@pytest.mark.parametrize(
    "line", ["I do n't know , said the man .", "it 's 3.5 % .", "Ja .", "Bob&apos;s dog", "a @-@ b"]
)
def test_tokenised_text(line: str) -> None:
    """Fault 93."""
    assert strange("hyp.de", [line], [["Yes."]], tokenised=False) == [
        f"hyp.de looks tokenised (line 1: '{line}'): score detokenised text, or, where the references are tokenised as "
        "well, set tokenize to none; such scores compare with no others."
    ]
    assert strange("hyp.de", [line], [["Yes."]], tokenised=True) == []


def test_one_tokenised_line_of_many_is_an_accident() -> None:
    lines = ["Yes."] * 20 + ["Yes ."]
    assert strange("hyp", lines, [lines], tokenised=False) == []


@pytest.mark.parametrize("line", ["lo@@ w new@@", "▁low er", "a <unk> ran", "a ⁇ ran", "low ##er", "<0xF0><0x9F>"])
def test_marks_of_pieces(line: str) -> None:
    """Faults 26 and 102."""
    found = strange("hyp.de", ["low", line, line], [["low", "new", "new"]], tokenised=False)
    assert found == [
        f"hyp.de holds marks of pieces or unknown words (2 lines, the first is line 2: '{line}'); such text is "
        "scored as it stands."
    ]
    assert strange("hyp.de", [line], [[line]], tokenised=False) == []


def test_unicode_form() -> None:
    """Fault 8."""
    composed = ["le café est très près", "oui", "été"]
    decomposed = [unicodedata.normalize("NFD", line) for line in composed]
    sentence = (
        "hyp and the references differ in Unicode normal form (2 lines, the first is line 1): an accented letter and "
        "the same letter with a combining accent count as different; nothing was normalised."
    )
    assert strange("hyp", decomposed, [composed], tokenised=False) == [sentence]
    assert strange("hyp", composed, [decomposed], tokenised=False) == [sentence]
    assert strange("hyp", decomposed, [decomposed], tokenised=False) == []
    assert strange("hyp", decomposed, [composed, decomposed], tokenised=False) == []


def test_empty_lines() -> None:
    """Faults 97 and 98."""
    assert strange("hyp", ["", " "], [["a", "b"]], tokenised=False) == ["hyp: every line is empty."]
    assert strange("hyp", ["", "b"], [["a", "b"]], tokenised=False) == []
    assert strange_references([("ref.de", ["a", "", "c", " "])]) == [
        "ref.de has empty lines (2 lines, the first is line 2); nothing matches an empty reference."
    ]
    assert strange_references([("ref.de", ["a", None, ""])]) == [
        "ref.de has empty lines (line 3); nothing matches an empty reference."
    ]
