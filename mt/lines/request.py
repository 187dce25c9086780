"""What is asked for: a line of text, and the wishes that go with it; read from plain text or from JSON lines."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mt.config import to_mapping
from mt.config_reader import build
from mt.errors import ConfigError, DataError
from mt.lines.formats import ANSWERS
from mt.search.config import DecodeConfig
from mt.synonyms import SYNONYMS
from mt.yaml_tree import Block, Place, merge, plant


@dataclass(frozen=True)
class Request:
    """A line to translate. Raises DataError where it asks for what is no text, or for a phrase that is blank."""

    text: str
    prefix: str = ""
    """What its translation begins with."""
    constraints: tuple[str, ...] = ()
    """Words or phrases that its translation holds."""
    banned: tuple[str, ...] = ()
    """Words or phrases that its translation does not hold."""
    decode: DecodeConfig | None = None
    """Settings of the search for this line; None: the translator's."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Fields that are passed through to the JSON of the answer."""

    def __post_init__(self) -> None:
        for name in ("text", "prefix"):
            check_text(name, getattr(self, name))
        for name in ("constraints", "banned"):
            _check_phrases(name, getattr(self, name))

    @property
    def wishes(self) -> bool:
        """Whether it says what its translation holds, or what not."""
        return bool(self.prefix or self.constraints or self.banned)


def check_text(name: str, value: Any) -> None:
    """Raise DataError, which calls it `name`, where `value` is no text."""
    if not isinstance(value, str):
        raise DataError(f'"{name}" must be text, but is {_shown(value)}.')
    try:
        value.encode()
    except UnicodeEncodeError:
        raise DataError(f'"{name}" holds half a surrogate pair, which is no character.') from None


def _check_phrases(name: str, values: Any) -> None:
    if not isinstance(values, (list, tuple)) or not all(isinstance(one, str) and one.strip() for one in values):
        raise DataError(f'"{name}" must be a list of words or phrases, none of them blank, but is {_shown(values)}.')
    for one in values:
        check_text(name, one)


Reader = Callable[[str, str], Request]
"""A line, and what errors call it (FILE, line N) -> the request."""


def text_lines(common: Request, decode: DecodeConfig) -> Reader:  # noqa: ARG001 - one signature for all
    """Each line is a text, with the wishes of `common`."""
    return lambda line, _: replace(common, text=line)


def json_lines(common: Request, decode: DecodeConfig) -> Reader:
    """Each line is a JSON object.

    `text` is the line to translate. `prefix`, `constraints`, `banned` and `options` (keys of the recipe's `decode`
    block) may be there; a prefix takes the place of that of `common`, the others are added to those of `common` and to
    `decode`. All other fields are passed through.

    Raises:
        DataError: a line is no such object; the sentence has its place.
    """
    known: dict[str, DecodeConfig] = {}

    def read(line: str, place: str) -> Request:
        fields = json_object(line, place)
        if "text" not in fields:
            raise DataError(f'{place}: there is no "text" in the JSON object; it is the line to translate.')
        options = fields.pop("options", {})
        written = json.dumps(options, sort_keys=True)
        if written not in known:
            known[written] = _overlaid(decode, options, place)
        try:
            asked = Request(
                _one_line(fields.pop("text"), "text"),
                _one_line(fields.pop("prefix", common.prefix), "prefix"),
                _phrases(fields.pop("constraints", [])),
                _phrases(fields.pop("banned", [])),
                known[written],
                _passed_through(fields),
            )
        except DataError as error:
            raise DataError(f"{place}: {error}") from None
        constraints, banned = (*common.constraints, *asked.constraints), (*common.banned, *asked.banned)
        return replace(asked, constraints=constraints, banned=banned)

    return read


INPUTS: dict[str, Callable[[Request, DecodeConfig], Reader]] = {"text": text_lines, "jsonl": json_lines}


_SYNONYMS = {name: key.removeprefix("decode.") for name, key in SYNONYMS.items() if key.startswith("decode.")}


def json_object(line: str, place: str) -> dict[str, Any]:
    """The JSON object on a line. Raises DataError, with the line's place, where there is none."""
    try:
        fields = json.loads(line, object_pairs_hook=_without_repetition, parse_constant=_finite, parse_float=_finite)
        if "\\u" in line:
            json.dumps(fields, ensure_ascii=False).encode()
    except RecursionError:
        raise DataError(f"{place}: the JSON is nested too deeply.") from None
    except UnicodeEncodeError:
        raise DataError(f"{place}: the JSON holds half a surrogate pair, which is no character.") from None
    except ValueError as error:
        raise DataError(f"{place}: it is not a JSON object on one line ({error}).") from None
    if not isinstance(fields, dict):
        raise DataError(f'{place}: it is JSON, but not an object such as {{"text": "Good morning."}}.')
    return fields


def _finite(written: str) -> float:
    """The number; ValueError for what JSON does not know, which Python writes and others cannot read."""
    if not math.isfinite(number := float(written)):
        raise ValueError(f"{written} is no number of JSON's")
    return number


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    if repeated := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f'"{repeated}" is there twice')
    return dict(pairs)


def _one_line(value: Any, name: str) -> Any:
    if isinstance(value, str) and "\n" in value:
        raise DataError(f'"{name}" must be text of one line, but is {_shown(value)}.')
    return value


def _phrases(value: Any) -> Any:
    """A list as a tuple; one phrase alone may stand without its brackets."""
    return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value


def _passed_through(fields: dict[str, Any]) -> dict[str, Any]:
    if taken := next((name for name in fields if name in ANSWERS), None):
        raise DataError(f'"{taken}" is a name of the answer, so it cannot be passed through; rename it.')
    return fields


def _overlaid(decode: DecodeConfig, options: Any, place: str) -> DecodeConfig:
    if not isinstance(options, dict):
        raise DataError(f'{place}: "options" must be an object of decode keys, but is {_shown(options)}.')
    if not options:
        return decode
    here = Place(f'{place}, "options"', Path.cwd())
    tree = merge(plant(to_mapping(decode), here), plant(options, here))
    assert isinstance(tree, Block)
    try:
        return build(DecodeConfig, tree, _SYNONYMS)[0]
    except ConfigError as error:
        raise DataError(str(error)) from None


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=True, default=repr)
    return text if len(text) <= 60 else text[:60] + "..."
