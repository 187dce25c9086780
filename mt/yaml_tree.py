"""What a person wrote in a recipe, as a tree of texts that know their place: YAML files and `-o KEY=VALUE`.

PyYAML finds the structure and never the types: `no`, `0123`, `12:30` and `5e-4` stay the text that was written
until `mt.config` knows what the key wants.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from mt.errors import ConfigError, plural

LARGEST = 1_000_000  # bytes; more is no recipe, but a corpus given by mistake
DEEPEST = 20  # levels; recipes need five
SHOWN = 200  # characters of an override that errors cite
_NULLS = ("null", "Null", "NULL", "~")


@dataclass(frozen=True)
class Place:
    """Where something was written: `text` for people, and the folder that relative paths start from."""

    text: str
    base: Path

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Scalar:
    """A single value, as written."""

    text: str
    place: Place
    quoted: bool = False

    @property
    def is_null(self) -> bool:
        """Whether it is YAML's null, spelled out."""
        return not self.quoted and self.text in _NULLS

    @property
    def is_empty(self) -> bool:
        """Whether nothing stands after the key."""
        return not self.quoted and not self.text


@dataclass(frozen=True)
class Items:
    """A list."""

    values: tuple[Tree, ...]
    place: Place


@dataclass(frozen=True)
class Block:
    """Keys and their values; each value's place is the line of its key."""

    entries: dict[str, Tree]
    place: Place


Tree = Scalar | Items | Block


class _Loader(yaml.SafeLoader):
    """Composes nodes, and refuses what a recipe has no use for: aliases, tags, depth."""

    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise yaml.MarkedYAMLError(
                problem="anchors and aliases are not used in recipes", problem_mark=event.start_mark
            )
        if getattr(event, "tag", None):
            tag = event.tag.replace("tag:yaml.org,2002:", "!!")
            raise yaml.MarkedYAMLError(problem=f"the tag {tag} is not used in recipes", problem_mark=event.start_mark)
        if self.depth > DEEPEST:
            raise yaml.MarkedYAMLError(problem="it is nested too deeply", problem_mark=event.start_mark)
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


def read_yaml(path: Path, base: Path) -> Block:
    """Read the file; relative paths in it start from `base`. Raises ConfigError with file and line."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except FileNotFoundError:
        raise ConfigError(f"There is no file '{path}' ({path.resolve()}).") from None
    except OSError as error:
        raise ConfigError(f"'{path}' cannot be read: {error.strerror}.") from None
    if len(data) > LARGEST:
        raise ConfigError(f"{path}: it is larger than {LARGEST} bytes; a recipe is a short YAML file.")
    return parse_yaml(_decode(data, path), str(path), base)


def _decode(data: bytes, path: Path) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}, line {line}: byte {error.start} is not UTF-8; save the file as UTF-8.") from None


def parse_yaml(text: str, file: str, base: Path) -> Block:
    """The tree of a YAML text that holds one mapping. Raises ConfigError with file and line."""
    node = _compose(text, file)
    if node is None:
        raise ConfigError(f"{file}: it is empty; a recipe has at least the keys name, model_dir and data.")
    tree = _tree(node, Place(f"{file}, line {node.start_mark.line + 1}", base), file, base)
    if not isinstance(tree, Block):
        kind = "a list" if isinstance(tree, Items) else "a single value"
        raise ConfigError(f"{tree.place}: a recipe is a mapping of keys (name: ..., data: ...), but this is {kind}.")
    return Block(tree.entries, Place(file, base))


def _compose(text: str, file: str) -> Any:
    try:
        loader = _Loader(text)
        try:
            return loader.get_single_node()
        finally:
            loader.dispose()
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ConfigError(f"{file}, line {line}: the character U+{error.character:04X} is not allowed.") from None
    except yaml.MarkedYAMLError as error:
        raise ConfigError(f"{file}{_line(error)}: {_problem(error)}.") from None


def _line(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    return f", line {mark.line + 1}" if mark else ""


def _problem(error: yaml.MarkedYAMLError) -> str:
    problem = error.problem or error.context or "it cannot be read"
    if "'\\t'" in problem:
        return "there is a tab; indent with spaces"
    if "single document" in str(error):
        return "a second document begins here (---); a recipe is one document"
    return f"not valid YAML: {problem}" if "recipes" not in problem and "deeply" not in problem else problem


def _tree(node: Any, place: Place, file: str, base: Path) -> Tree:
    if isinstance(node, yaml.ScalarNode):
        return Scalar(node.value, place, quoted=node.style is not None)
    if isinstance(node, yaml.SequenceNode):
        return Items(tuple(_tree(value, _place(value, file, base), file, base) for value in node.value), place)
    entries: dict[str, Tree] = {}
    for key, value in node.value:
        here = _place(key, file, base)
        if not isinstance(key, yaml.ScalarNode):
            raise ConfigError(f"{here}: a key must be a word, but is a list or a mapping.")
        if key.value in entries:
            raise ConfigError(f"{here}: the key {key.value} is given twice (first: {entries[key.value].place}).")
        entries[key.value] = _tree(value, here, file, base)
    return Block(entries, place)


def _place(node: Any, file: str, base: Path) -> Place:
    return Place(f"{file}, line {node.start_mark.line + 1}", base)


def merge(under: Tree | None, over: Tree) -> Tree:
    """`over` laid on `under`: mappings deeply, all else replaced. An empty mapping clears what is under it."""
    if not isinstance(under, Block) or not isinstance(over, Block) or not over.entries:
        return over
    entries = dict(under.entries)
    for key, value in over.entries.items():
        entries[key] = merge(entries.get(key), value)
    return Block(entries, over.place)


def plant(value: Any, place: Place) -> Tree:
    """The tree of plain Python values, all written at `place`."""
    if isinstance(value, Mapping):
        return Block({key: plant(entry, place) for key, entry in value.items()}, place)
    if isinstance(value, (list, tuple)):
        return Items(tuple(plant(entry, place) for entry in value), place)
    if value is None or isinstance(value, bool):
        return Scalar({None: "null", True: "true", False: "false"}[value], place)
    return Scalar(str(value), place, quoted=isinstance(value, str))


def override(tree: Tree, text: str, base: Path, flag: str = "-o") -> Tree:
    """Lay `KEY=VALUE` (dots lead into blocks, numbers into lists) over `tree`. Raises ConfigError that cites it."""
    key, equals, value = text.partition("=")
    place = Place(f"{flag} {text if len(text) <= SHOWN else text[: SHOWN - 3] + '...'}", base)
    parts = key.strip().split(".")
    if not equals or not all(parts):
        raise ConfigError(f"{place}: write KEY=VALUE, such as train.lr=3e-4 or data.train.0.src=corpus.en.")
    return _set(tree, parts, _value(value.strip(), place), place)


def _value(text: str, place: Place) -> Tree:
    """Lists, mappings and quoted texts as YAML; all else is one plain text, whatever signs are in it."""
    if text[:1] not in ("[", "{", '"', "'"):
        return Scalar(text, place)
    try:
        return _relocate(_tree(_compose(text, "value"), place, "value", place.base), place)
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from None


def _relocate(tree: Tree, place: Place) -> Tree:
    if isinstance(tree, Block):
        return Block({key: _relocate(value, place) for key, value in tree.entries.items()}, place)
    if isinstance(tree, Items):
        return Items(tuple(_relocate(value, place) for value in tree.values), place)
    return Scalar(tree.text, place, tree.quoted)


def _set(tree: Tree | None, parts: list[str], value: Tree, place: Place) -> Tree:
    if not parts:
        return merge(tree, value)
    head, rest = parts[0], parts[1:]
    if isinstance(tree, Items):
        values = list(tree.values)
        if not head.isdecimal() or int(head) >= len(values):
            raise ConfigError(
                f"{place}: '{head}' is no number of an item: this list has {len(values)} "
                f"{plural(len(values), 'item')}, counted from 0."
            )
        values[int(head)] = _set(values[int(head)], rest, value, place)
        return Items(tuple(values), tree.place)
    block = tree if isinstance(tree, Block) else Block({}, place)
    return Block({**block.entries, head: _set(block.entries.get(head), rest, value, place)}, block.place)
