"""What is asked for: a line of text, and the wishes that go with it; read from plain text or from JSON lines."""

from __future__ import annotations

import json
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
    """A line to translate."""

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

    @property
    def wishes(self) -> bool:
        """Whether something must be somewhere in the translation, so that the line cannot be taken apart."""
        return bool(self.prefix or self.constraints)


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
        return Request(
            _string(fields.pop("text"), "text", place),
            _string(fields.pop("prefix", common.prefix), "prefix", place),
            (*common.constraints, *_strings(fields.pop("constraints", []), "constraints", place)),
            (*common.banned, *_strings(fields.pop("banned", []), "banned", place)),
            known[written],
            _passed_through(fields, place),
        )

    return read


INPUTS: dict[str, Callable[[Request, DecodeConfig], Reader]] = {"text": text_lines, "jsonl": json_lines}


_SYNONYMS = {name: key.removeprefix("decode.") for name, key in SYNONYMS.items() if key.startswith("decode.")}


def json_object(line: str, place: str) -> dict[str, Any]:
    """The JSON object on a line. Raises DataError, with the line's place, where there is none."""
    try:
        fields = json.loads(line, object_pairs_hook=_without_repetition)
    except RecursionError:
        raise DataError(f"{place}: the JSON is nested too deeply.") from None
    except ValueError as error:
        raise DataError(f"{place}: it is not a JSON object on one line ({error}).") from None
    if not isinstance(fields, dict):
        raise DataError(f'{place}: it is JSON, but not an object such as {{"text": "Good morning."}}.')
    return fields


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    if repeated := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f'"{repeated}" is there twice')
    return dict(pairs)


def _string(value: Any, name: str, place: str) -> str:
    if not isinstance(value, str) or "\n" in value:
        raise DataError(f'{place}: "{name}" must be text of one line, but is {_shown(value)}.')
    try:
        value.encode()
    except UnicodeEncodeError:
        raise DataError(f'{place}: "{name}" holds half a surrogate pair, which is no character.') from None
    return value


def _strings(value: Any, name: str, place: str) -> tuple[str, ...]:
    """A list of texts; one alone may stand without its brackets."""
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(one, str) and one.strip() for one in values):
        raise DataError(f'{place}: "{name}" must be a list of words or phrases, but is {_shown(value)}.')
    return tuple(_string(one, name, place) for one in values)


def _passed_through(fields: dict[str, Any], place: str) -> dict[str, Any]:
    if taken := next((name for name in fields if name in ANSWERS), None):
        raise DataError(f'{place}: "{taken}" is a name of the answer, so it cannot be passed through; rename it.')
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
    text = json.dumps(value, ensure_ascii=True)
    return text if len(text) <= 60 else text[:60] + "..."
