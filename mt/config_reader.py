"""From what a person wrote to the frozen dataclasses of a recipe, strictly.

Whatever does not fit is refused in one sentence: file and line (or the `-o` that said it), key path, the value met,
what is allowed, and where possible what was meant.
"""

from __future__ import annotations

import difflib
import re
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from mt.config import bounds_in_words, is_block, key_paths, keys_of, types_of, without_none
from mt.errors import ConfigError, meant
from mt.yaml_tree import Block, Items, Place, Scalar, Tree

T = TypeVar("T")

_INT = re.compile(r"[+-]?(0|[1-9][0-9]*)")
_LARGEST = 2**63 - 1  # of a whole number whose key names no bound
_DIGITS = 1000  # of a whole number; more are not converted
_FLOAT = re.compile(r"[+-]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_BOOLS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}


@dataclass(frozen=True)
class Written:
    """What stood in the recipe for a key: the text ('' for lists and blocks), and where."""

    text: str
    place: Place


class Origin(dict[str, Written]):
    """Key path -> what was written for it; keys left to their default are absent."""

    def cite(self, *keys: str) -> str:
        """`FILE, line N: ` of the first of `keys` that was written, the command line's before a file's; or ''."""
        places = [self[key].place.text for key in keys if key in self]
        places.sort(key=lambda text: not text.startswith(("-o ", "--set ")))
        return f"{places[0]}: " if places else ""


def build(cls: type[T], tree: Block, synonyms: Mapping[str, str] | None = None) -> tuple[T, Origin]:
    """Make a `cls` from what was written. Raises ConfigError with place, key path, value and what is allowed.

    `synonyms` maps names that other tools use to the key path that is meant.
    """
    builder = _Builder(list(key_paths(cls)), synonyms or {})
    value: T = builder.block(cls, tree, "")
    return value, builder.origin


class _Builder:
    """Converts a tree by the types of a dataclass, and keeps where each key was written."""

    def __init__(self, known: list[str], synonyms: Mapping[str, str]) -> None:
        self.origin = Origin()
        self.known = known
        self.synonyms = synonyms

    def value(self, kind: Any, tree: Tree, key: str, rules: Mapping[str, Any]) -> Any:
        """Convert `tree`, the value of `key`, to `kind`."""
        self.origin[key] = Written(tree.text if isinstance(tree, Scalar) else "", tree.place)
        if isinstance(tree, Scalar) and tree.is_empty:
            raise ConfigError(f"{tree.place}: {key} has no value; write one, or leave the key out.")
        inner = without_none(kind)
        if inner is not kind and isinstance(tree, Scalar) and tree.is_null:
            return None
        if is_block(inner):
            return self.block(inner, tree, key)
        if typing.get_origin(inner) is tuple:
            return self.items(typing.get_args(inner), tree, key, rules)
        if typing.get_origin(inner) is dict:
            return self.table(typing.get_args(inner)[1], tree, key)
        return self.scalar(inner, tree, key, rules)

    def block(self, cls: Any, tree: Tree, key: str) -> Any:
        """A mapping of known keys becomes a dataclass."""
        if not isinstance(tree, Block):
            _refuse(tree, key, "a mapping of keys")
        prefix = f"{key}." if key else ""
        known, kinds = keys_of(cls), types_of(cls)
        for name, entry in tree.entries.items():
            if name not in known:
                raise ConfigError(
                    f"{entry.place}: unknown key {prefix}{name}; {self.suggest(name, prefix, list(known))}"
                )
        self.require(
            [name for name in known if _required(known[name]) and name not in tree.entries], known, prefix, tree
        )
        values: dict[str, Any] = {}
        for name, declared in known.items():
            if name in tree.entries:
                values[name] = self.value(kinds[name], tree.entries[name], prefix + name, declared.metadata)
            elif is_block(kinds[name]):
                values[name] = self.block(kinds[name], Block({}, tree.place), prefix + name)
        return self.made(cls, values, tree)

    def require(self, missing: list[str], known: dict[str, Field[Any]], prefix: str, tree: Tree) -> None:
        if missing:
            names = ", ".join(prefix + name for name in missing)
            meaning = f" ({known[missing[0]].metadata.get('help', '')})" if len(missing) == 1 else ""
            word = "keys are" if len(missing) > 1 else "key is"
            raise ConfigError(f"{tree.place}: the required {word} missing: {names}{meaning}.")

    def made(self, cls: Any, values: dict[str, Any], tree: Tree) -> Any:
        """The dataclass; what its own check refuses gets the place of the keys that the sentence names."""
        try:
            return cls(**values)
        except ConfigError as error:
            named = [word for word in re.findall(r"[\w.]*\w", str(error)) if word in self.origin]
            raise ConfigError(f"{self.origin.cite(*named) or f'{tree.place}: '}{error}") from None

    def items(self, kinds: tuple[Any, ...], tree: Tree, key: str, rules: Mapping[str, Any]) -> tuple[Any, ...]:
        """A list becomes a tuple; a single text or path may stand without its brackets."""
        if isinstance(tree, Scalar) and kinds[0] in (str, Path) and not tree.is_null:
            return (self.scalar(kinds[0], tree, key, rules),)
        if not isinstance(tree, Items):
            _refuse(tree, key, "a list")
        if kinds[-1] is not Ellipsis and len(tree.values) != len(kinds):
            _refuse(tree, key, f"a list of {len(kinds)}", f"a list of {len(tree.values)}")
        return tuple(self.value(kinds[0], entry, f"{key}.{index}", rules) for index, entry in enumerate(tree.values))

    def table(self, kind: Any, tree: Tree, key: str) -> dict[str, Any]:
        """A mapping of free names becomes a dict."""
        if not isinstance(tree, Block):
            _refuse(tree, key, "a mapping of names")
        return {name: self.value(kind, entry, f"{key}.{name}", {}) for name, entry in tree.entries.items()}

    def scalar(self, kind: Any, tree: Tree, key: str, rules: Mapping[str, Any]) -> Any:
        """A single value becomes what its key wants."""
        allowed, convert = _SCALARS.get(kind, ("a single value", None))
        if not isinstance(tree, Scalar):
            _refuse(tree, key, allowed)
        if tree.is_null:
            _refuse(tree, key, allowed)
        if convert is None:
            return _parse(kind, tree, key)
        value = convert(tree)
        if value is None:
            _refuse(tree, key, allowed, remedy=_remedy(kind, tree))
        _check_rules(value, tree, key, rules)
        return value

    def suggest(self, name: str, prefix: str, here: list[str]) -> str:
        """What may have been meant by an unknown key: another tool's name, another block's key, a slip of the pen."""
        meant = self.synonyms.get(name.lower())
        elsewhere = [path for path in self.known if path.rpartition(".")[2] == name]
        close = difflib.get_close_matches(name, here, n=1) or difflib.get_close_matches(name.lower(), here, n=1)
        if meant or elsewhere or close:
            return f"did you mean {meant or (elsewhere[0] if elsewhere else prefix + close[0])}?"
        near = difflib.get_close_matches(name, [path.rpartition(".")[2] for path in self.known], n=1, cutoff=0.75)
        if near:
            return f"did you mean {next(path for path in self.known if path.rpartition('.')[2] == near[0])}?"
        return f"known here: {', '.join(here)}."


def _required(declared: Field[Any]) -> bool:
    return declared.default is MISSING and declared.default_factory is MISSING


def _refuse(tree: Tree, key: str, allowed: str, met: str = "", remedy: str = "") -> NoReturn:
    sentence = f"{tree.place}: {key} must be {allowed}, but is {met or _describe(tree)}{remedy}"
    raise ConfigError(sentence if sentence.endswith("?") else f"{sentence}.")


def _describe(tree: Tree) -> str:
    if isinstance(tree, Scalar):
        return f'the quoted text "{tree.text}"' if tree.quoted else tree.text
    return "a list" if isinstance(tree, Items) else "a mapping"


def _remedy(kind: type, tree: Scalar) -> str:
    """How to write what was probably meant."""
    text = tree.text
    if tree.quoted and kind is not str and _SCALARS[kind][1](Scalar(text, tree.place)) is not None:
        return "; remove the quotes"
    if kind in (int, float) and re.fullmatch(r"[+-]?[0-9][0-9_]*", text) and len(text) < 20:
        return f"; write {int(text.replace('_', ''))}"
    if (
        kind is int
        and _FLOAT.fullmatch(text)
        and len(text) < 20
        and float(text).is_integer()
        and abs(float(text)) < 1e15
    ):
        return f"; write {int(float(text))}"
    return ""


def _bool(tree: Scalar) -> bool | None:
    return None if tree.quoted else _BOOLS.get(tree.text)


def _int(tree: Scalar) -> int | None:
    if tree.quoted or len(tree.text) > _DIGITS or not _INT.fullmatch(tree.text):
        return None
    return int(tree.text)


def _float(tree: Scalar) -> float | None:
    if tree.quoted or not _FLOAT.fullmatch(tree.text):
        return None
    value = float(tree.text)
    return value if abs(value) != float("inf") else None


def _path(tree: Scalar) -> Path | None:
    """Relative to the folder of the file where it is written; `~` is the home folder."""
    if not tree.text or "\0" in tree.text:
        return None
    path = Path(tree.text)
    if tree.text.startswith("~"):
        try:
            path = path.expanduser()
        except RuntimeError:
            return None
    return tree.place.base / path


# type -> what is allowed, in words, and the conversion (None: refused).
_SCALARS: dict[Any, tuple[str, Callable[[Scalar], Any]]] = {
    bool: ("true or false", _bool),
    int: ("a whole number", _int),
    float: ("a number", _float),
    str: ("a text", lambda tree: tree.text),
    Path: ("a path", _path),
}


def _parse(kind: Any, tree: Scalar, key: str) -> Any:
    """A type that reads its own text, such as a period."""
    try:
        return kind.parse(tree.text)
    except ConfigError as error:
        raise ConfigError(f"{tree.place}: {key}: {error}") from None


def _check_rules(value: Any, tree: Scalar, key: str, rules: Mapping[str, Any]) -> None:
    choices = rules.get("choices")
    if choices is not None and value not in choices:
        names = choices[0] if len(choices) == 1 else f"one of {', '.join(choices[:-1])} or {choices[-1]}"
        _refuse(tree, key, names, remedy=meant(str(value), choices))
    if isinstance(value, str) and not value.strip():
        _refuse(tree, key, "a text that is not blank")
    tests: dict[str, Callable[[Any, Any], bool]] = {
        "ge": lambda a, b: a >= b, "gt": lambda a, b: a > b, "le": lambda a, b: a <= b, "lt": lambda a, b: a < b,
    }  # fmt: skip
    bounds = {name: rules[name] for name in tests if rules.get(name) is not None}
    if isinstance(value, int) and abs(value) > _LARGEST:
        bounds = {"ge": -_LARGEST, "le": _LARGEST, **bounds}
    if any(not tests[name](value, bound) for name, bound in bounds.items()):
        _refuse(tree, key, bounds_in_words(bounds))
