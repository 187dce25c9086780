from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mt.text.sentences import join_translations, split_sentences, split_to_fit


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("One.  Two!\tThree", ["One.", "Two!", "Three"]),
        ('He said "No." Then he left.', ['He said "No."', "Then he left."]),
        ("Wait... What?! Yes… (Really.) Good.", ["Wait...", "What?!", "Yes…", "(Really.)", "Good."]),
        ("Mr. Smith met Dr. J. S. Bach, etc. and so on.", ["Mr. Smith met Dr. J. S. Bach, etc. and so on."]),
        ("Das ist z.B. am 3. Oktober so. Ja.", ["Das ist z.B. am 3. Oktober so.", "Ja."]),
        ("Version 3.14 is out. ok then", ["Version 3.14 is out. ok then"]),
        ("In 1999. Then 2000.", ["In 1999.", "Then 2000."]),
        ("he said : &quot; no . &quot;", ["he said : &quot; no . &quot;"]),
        ("so it is . ( ? )", ["so it is . ( ? )"]),
        ("¿Qué? ¡No! «Sí.» Fin", ["¿Qué?", "¡No!", "«Sí.»", "Fin"]),
        ("我去了。他来了！「真的？」好。", ["我去了。", "他来了！", "「真的？」", "好。"]),
        ("これはペンです。それは本です。", ["これはペンです。", "それは本です。"]),
        ("यह एक है। वह दो है॥ बस", ["यह एक है।", "वह दो है॥", "बस"]),
        ("ما هذا؟ هذا كتاب. نعم", ["ما هذا؟", "هذا كتاب.", "نعم"]),
        ("오늘은 좋다. 내일은 모른다.", ["오늘은 좋다.", "내일은 모른다."]),
        ("no end at all", ["no end at all"]),
        ("", []),
        (" \u3000 ", []),
    ],
)
def test_sentences(text: str, sentences: list[str]) -> None:
    assert split_sentences(text) == sentences


def fits(text: str) -> bool:
    return len(text) <= 12


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Short. Short.", ["Short.", "Short."]),
        ("Good dogs; bad, bad cats.", ["Good dogs;", "bad,", "bad cats."]),
        ("one two three, four five six", ["one two", "three,", "four", "five six"]),
        ("a b c d e f g h i j", ["a b c d e", "f g h i j"]),
        ("abcdefghijklmnopqrst", ["abcdefghij", "klmnopqrst"]),
        ("我喜欢苹果和香蕉，他喜欢西瓜。", ["我喜欢苹果和香蕉，", "他喜欢西瓜。"]),
    ],
)
def test_what_is_too_long_is_cut_at_the_best_place_near_the_middle(text: str, parts: list[str]) -> None:
    assert split_to_fit(text, fits) == parts


@given(st.text(alphabet="ab.,;! 。，\u3000\n", max_size=80))
def test_nothing_is_lost_and_each_part_fits(text: str) -> None:
    parts = split_to_fit(text, fits)
    assert "".join("".join(parts).split()) == "".join(text.split())
    assert all(part and part == part.strip() and fits(part) for part in parts)


def test_what_can_never_fit_stays_a_character() -> None:
    assert split_to_fit("abc", lambda _: False) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        (["One.", "Two."], "One. Two."),
        (["我去了。", "他来了。"], "我去了。他来了。"),
        (["좋다", "모른다"], "좋다 모른다"),
        (["One.", "", "Two."], "One. Two."),
        ([], ""),
    ],
)
def test_translations_are_joined_as_their_script_has_it(parts: list[str], text: str) -> None:
    assert join_translations(parts) == text
