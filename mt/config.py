"""Frozen dataclasses as the schema of a recipe.

A dataclass declares its keys with `option`: type, default, meaning and what is allowed. `mt.config_reader` makes the
object from what a person wrote; `to_mapping` and `dump` here are its inverse.
"""

from __future__ import annotations

import io
import os
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, field, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

from mt.errors import ConfigError


def option(
    default: Any = MISSING,
    *,
    help: str,
    factory: Callable[[], Any] | Any = MISSING,
    choices: tuple[str, ...] | None = None,
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
    lt: float | None = None,
) -> Any:
    """Declare a key of a frozen dataclass: its default (none: required), what it means, and what it may be.

    `choices` and the bounds (greater or equal, greater, less or equal, less) hold for each item of a list.
    """
    metadata = {"help": help, "choices": choices, "ge": ge, "gt": gt, "le": le, "lt": lt}
    if factory is not MISSING:
        return field(default_factory=factory, metadata=metadata)
    return field(default=default, metadata=metadata)


def internal(factory: Callable[[], Any]) -> Any:
    """A field that is no key of the recipe."""
    return field(default_factory=factory, compare=False, repr=False, metadata={"internal": True})


def keys_of(cls: type) -> dict[str, Field[Any]]:
    """The recipe keys of a config dataclass, in order."""
    return {entry.name: entry for entry in fields(cls) if "internal" not in entry.metadata}


@cache
def types_of(cls: type) -> dict[str, Any]:
    """The resolved type of each key."""
    return typing.get_type_hints(cls)


def default_of(cls: type, key: str) -> Any:
    """What a key is where nobody wrote it."""
    return keys_of(cls)[key].default


def refuse_idle(config: Any, block: str, choice: str, readers: Mapping[str, Sequence[str]]) -> None:
    """Refuse a value for a key that would not be read. `readers`: key -> the values of `choice` with which it is.

    Raises:
        ConfigError: it names the keys, which stand in `block`.
    """
    chosen = getattr(config, choice)
    for key, names in readers.items():
        value = getattr(config, key)
        if chosen not in names and value != default_of(type(config), key):
            raise ConfigError(
                f"{block}.{key} {as_yaml(value)} belongs to {block}.{choice} {' or '.join(names)}, but that is "
                f"{chosen}: change {block}.{choice}, or leave {block}.{key} out."
            )


def is_block(kind: Any) -> bool:
    """Whether values of this type are written as a mapping of known keys."""
    return isinstance(kind, type) and is_dataclass(kind) and not hasattr(kind, "parse")


def without_none(kind: Any) -> Any:
    """X of `X | None`; any other type as it is."""
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        return next(part for part in typing.get_args(kind) if part is not type(None))
    return kind


def key_paths(cls: type, prefix: str = "") -> Iterator[str]:
    """All dotted keys that a recipe of class `cls` knows, outer ones first; without those in lists."""
    kinds = types_of(cls)
    for name in keys_of(cls):
        yield prefix + name
    for name in keys_of(cls):
        kind = without_none(kinds[name])
        if is_block(kind):
            yield from key_paths(kind, f"{prefix}{name}.")


def bounds_in_words(rules: Mapping[str, Any]) -> str:
    """`at least 0 and below 1`; '' where there are none."""
    words = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}
    bounds = [(word, rules[name]) for name, word in words.items() if rules.get(name) is not None]
    return " and ".join(f"{word} {bound if isinstance(bound, int) else format(bound, 'g')}" for word, bound in bounds)


def to_mapping(config: Any, folder: Path | None = None) -> Any:
    """Plain values of a config, as YAML knows them; paths inside `folder` relative to it, all others absolute."""
    if is_block(type(config)):
        return {name: to_mapping(getattr(config, name), folder) for name in keys_of(type(config))}
    if isinstance(config, Path):
        return _path_text(config, folder)
    if isinstance(config, (list, tuple)):
        return [to_mapping(entry, folder) for entry in config]
    if isinstance(config, Mapping):
        return {name: to_mapping(entry, folder) for name, entry in config.items()}
    if config is None or isinstance(config, (bool, int, float, str)):
        return config
    text = str(config)  # a type that parses its own text
    return int(text) if text.isdecimal() and str(int(text)) == text else text


def as_yaml(value: Any) -> str:
    """A single value, or a list of them, as a recipe has it."""
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(as_yaml, value))}]"
    words = {None: "null", True: "true", False: "false"}
    return words[value] if value is None or isinstance(value, bool) else str(value)


def leaves(tree: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted key and value of each leaf of a tree of mappings and of lists of mappings: `data.train[0].src`."""
    if isinstance(tree, Mapping):
        for name, entry in tree.items():
            yield from leaves(entry, f"{key}.{name}" if key else str(name))
    elif isinstance(tree, (list, tuple)) and any(isinstance(entry, Mapping) for entry in tree):
        for number, entry in enumerate(tree):
            yield from leaves(entry, f"{key}[{number}]")
    else:
        yield key, tree


def _path_text(path: Path, folder: Path | None) -> str:
    absolute = Path(os.path.abspath(path)) if not path.is_absolute() else path  # noqa: PTH100 (keeps symlinks)
    if folder is None or not absolute.is_relative_to(folder):
        return str(absolute)
    inside = str(absolute.relative_to(folder))
    return f"./{inside}" if inside.startswith("~") else inside


def dump(mapping: Mapping[str, Any]) -> str:
    """The mapping as YAML that a person can read; `mt.yaml_tree.parse_yaml` gives it back."""
    import yaml

    node = yaml.SafeDumper(io.StringIO(), sort_keys=False).represent_data(mapping)
    for key, block in node.value:
        _set_style(key)
        _set_style(block)
    text: str = yaml.serialize(node, Dumper=yaml.SafeDumper, allow_unicode=True, width=2**20)
    return text


def _set_style(node: Any) -> bool:
    """Blocks and lists of blocks one key a line; lists and blocks of few single values on one. Returns if single."""
    if node.id == "scalar":
        if not node.value.isprintable():
            node.style = '"'  # line ends of all kinds are escaped, not folded
        return True
    entries = [value for _, value in node.value] if node.id == "mapping" else node.value
    for key, _ in node.value if node.id == "mapping" else ():
        _set_style(key)
    singles = [_set_style(entry) for entry in entries]
    node.flow_style = all(singles) and len(entries) <= 4
    return False
