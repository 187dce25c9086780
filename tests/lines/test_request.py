from __future__ import annotations

from typing import Any

import pytest

from mt.errors import DataError
from mt.lines.request import INPUTS, Request
from mt.search.config import DecodeConfig, LengthPenaltyConfig

DECODE = DecodeConfig(beam_size=4, length_penalty=LengthPenaltyConfig("wu", 0.6))


def read(line: str, common: Request | None = None) -> Request:
    return INPUTS["jsonl"](common or Request(""), DECODE)(line, "in.jsonl, line 3")


def test_text_is_a_line_with_the_common_wishes() -> None:
    common = Request("", "p", ("c",), ("b",))
    assert INPUTS["text"](common, DECODE)('{"text": 1}', "x") == Request('{"text": 1}', "p", ("c",), ("b",))


def test_all_that_json_can_say() -> None:
    line = (
        '{"text": "a b", "prefix": "x", "constraints": ["y z", "v"], "banned": "w", '
        '"options": {"beam_size": 2, "length_penalty": {"alpha": 0.5}}, "id": 7, "meta": {"x": [null]}}'
    )
    found = read(line, Request("", "common", ("all",), ("none",)))
    assert (found.text, found.prefix) == ("a b", "x")
    assert (found.constraints, found.banned) == (("all", "y z", "v"), ("none", "w"))
    assert found.extra == {"id": 7, "meta": {"x": [None]}}
    assert found.decode is not None
    assert (found.decode.beam_size, found.decode.length_penalty) == (2, LengthPenaltyConfig("wu", 0.5))


def test_what_is_not_said_is_as_for_every_line() -> None:
    assert read('{"text": ""}', Request("", "p", ("c",), ("b",))) == Request("", "p", ("c",), ("b",), DECODE)


PHRASES = "must be a list of words or phrases, none of them blank, but is "

BAD = [
    ("{", "it is not a JSON object on one line (Expecting property name enclosed in double quotes: line 1 column 2"),
    ("", "it is not a JSON object on one line (Expecting value: line 1 column 1 (char 0))."),
    ('{"text": "a"} x', "it is not a JSON object on one line (Extra data: line 1 column 15 (char 14))."),
    ('{"text": "a", "text": "b"}', 'it is not a JSON object on one line ("text" is there twice).'),
    ('["a"]', 'it is JSON, but not an object such as {"text": "Good morning."}.'),
    ("{}", 'there is no "text" in the JSON object; it is the line to translate.'),
    ('{"text": 3}', '"text" must be text, but is 3.'),
    ('{"text": "a\\nb"}', '"text" must be text of one line, but is "a\\nb".'),
    ('{"text": "\\ud800"}', "the JSON holds half a surrogate pair, which is no character."),
    ('{"text": "a", "x": [{"\\udce9": 1}]}', "the JSON holds half a surrogate pair, which is no character."),
    ('{"text": "a", "prefix": null}', '"prefix" must be text, but is null.'),
    ('{"text": "a", "prefix": "a\\nb"}', '"prefix" must be text of one line, but is "a\\nb".'),
    ('{"text": "a", "constraints": [1]}', f'"constraints" {PHRASES}[1].'),
    ('{"text": "a", "constraints": {"b": 1}}', f'"constraints" {PHRASES}{{"b": 1}}.'),
    ('{"text": "a", "constraints": [""]}', f'"constraints" {PHRASES}[""].'),
    ('{"text": "a", "banned": [" "]}', f'"banned" {PHRASES}[" "].'),
    ('{"text": "a", "x": NaN}', "it is not a JSON object on one line (NaN is no number of JSON's)."),
    ('{"text": "a", "x": [-Infinity]}', "it is not a JSON object on one line (-Infinity is no number of JSON's)."),
    ('{"text": "a", "x": 1e999}', "it is not a JSON object on one line (1e999 is no number of JSON's)."),
    ('{"text": "a", "options": 3}', '"options" must be an object of decode keys, but is 3.'),
    ('{"text": "a", "score": 3}', '"score" is a name of the answer, so it cannot be passed through; rename it.'),
    ('{"text": "a", "options": {"beam": 3}}', "unknown key beam; did you mean beam_size?"),
    ('{"text": "a", "options": {"beam_size": 0}}', "beam_size must be at least 1, but is 0"),
    ('{"text": "a", "options": {"beam_size": "2x"}}', "beam_size must be a whole number"),
    ('{"text": "a", "options": {"n_best": 9}}', "decode.n_best (9) must not be above decode.beam_size (4)."),
    ("[" * 100_000, "the JSON is nested too deeply."),
]


@pytest.mark.parametrize(("line", "sentence"), BAD)
def test_a_bad_line_is_named(line: str, sentence: str) -> None:
    with pytest.raises(DataError) as raised:
        read(line)
    place = 'in.jsonl, line 3, "options": ' if '"options": {' in line else "in.jsonl, line 3: "
    assert str(raised.value).startswith(place + sentence)


@pytest.mark.parametrize(
    ("wishes", "sentence"),
    [
        ({"text": None}, '"text" must be text, but is null.'),
        ({"text": b"x"}, '"text" must be text, but is "b\'x\'".'),
        ({"text": "caf\udce9"}, '"text" holds half a surrogate pair, which is no character.'),
        ({"prefix": "\udce9"}, '"prefix" holds half a surrogate pair, which is no character.'),
        ({"constraints": "Hund"}, f'"constraints" {PHRASES}"Hund".'),
        ({"constraints": ("",)}, f'"constraints" {PHRASES}[""].'),
        ({"banned": ("a", 3)}, f'"banned" {PHRASES}["a", 3].'),
    ],
)
def test_a_request_is_made_of_text(wishes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(DataError) as raised:
        Request(**{"text": "a", **wishes})
    assert str(raised.value) == sentence
