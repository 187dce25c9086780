"""The reference of the recipe's keys, written from the dataclasses that declare them: docs/recipes.md."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from dataclasses import MISSING, Field
from pathlib import Path
from typing import Any

from mt.config import as_yaml, bounds_in_words, is_block, keys_of, leaves, types_of, without_none
from mt.models.presets import PRESETS
from mt.recipe import Recipe

HEAD = """\
# The recipe, key by key

A recipe is one YAML file that says all of an experiment. `python -m cli.reference docs` writes this page from the code
that reads recipes, and a test keeps the two equal.

## Rules

- **Values are what their key wants.** `5e-4` and `1e3` are numbers, `no` is a text where a text is wanted, `0123`,
  `1_000`, `12:30` and `"512"` are no numbers. Booleans are `true` and `false`. `null` is allowed where the default is
  `null` or the type says so. Anchors, aliases and tags are refused; so are unknown keys and keys given twice.
- **Paths** are relative to the folder of the file that they are written in; `~` is the home folder. In recipes shipped
  with the toolkit, called by name or by path, and in `-o` overrides they are relative to the current directory.
- **Periods** carry a unit: `500` or `500u` updates, `2e` epochs, `10Mt` target tokens (`t`, `kt`, `Mt`, `Gt`), `90s`,
  `30m`, `4h` of training time.
- **`extends: other.yaml`** (or a shipped recipe's name, or a list of both, later ones over earlier ones) takes that
  recipe and lays this one over it: blocks deeply, key by key; lists and single values are replaced, and an empty block
  `{}` clears.
- **`model.preset`** lies under the recipe's own `model` keys, and takes the place of the `model` block of what it
  extends.
- **`-o KEY=VALUE`** (long: `--set`) lays a value over the recipe on every command: dots lead into blocks, numbers into
  lists counted from 0, `[a, b]` and `{a: b}` are read as YAML. `mt train recipe.yaml -o train.lr=3e-4 -o
  data.train.0.src=corpus.en`. The command line wins over the file.
- **The effective recipe**, with all defaults filled in, is saved as `recipe.yaml` in the run folder; `--dry-run` prints
  it. What lies in the run folder is named relative to it, so that a run can be moved.
"""


def reference() -> str:
    """The whole page, as Markdown."""
    parts = [HEAD, *_sections(Recipe, "", "The recipe"), _presets()]
    return "\n".join(parts)


def _sections(cls: type, prefix: str, title: str) -> Iterator[str]:
    """The table of a block's keys, then a section for each block inside it."""
    yield _section(cls, prefix, title)
    for name, kind in types_of(cls).items():
        if name in keys_of(cls):
            inner, path = _block_in(kind, prefix + name)
            if inner is not None:
                yield from _sections(inner, f"{path}.", f"`{path}`")


def _section(cls: type, prefix: str, title: str) -> str:
    lines = [f"## {title}", "", " ".join((cls.__doc__ or "").split()), ""]
    lines += ["| key | type | default | allowed | meaning |", "| --- | --- | --- | --- | --- |"]
    kinds = types_of(cls)
    for name, declared in keys_of(cls).items():
        meaning = declared.metadata.get("help") or _first_sentence(kinds[name])
        cells = (f"`{prefix}{name}`", _type(kinds[name]), _default(declared, kinds[name]), _allowed(declared), meaning)
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join([*lines, ""])


def _block_in(kind: Any, path: str) -> tuple[type | None, str]:
    """The block that values of this type hold, and how its keys are reached: `.N` in a list, `.NAME` in a table."""
    kind = without_none(kind)
    if is_block(kind):
        return kind, path
    if typing.get_origin(kind) is tuple:
        return _block_in(typing.get_args(kind)[0], f"{path}.N")
    if typing.get_origin(kind) is dict:
        return _block_in(typing.get_args(kind)[1], f"{path}.NAME")
    return None, path


_NAMES = {bool: "true or false", int: "whole number", float: "number", str: "text", Path: "path"}


def _type(kind: Any) -> str:
    inner = without_none(kind)
    if inner is not kind:
        return f"{_type(inner)}, or null"
    arguments = typing.get_args(kind)
    if typing.get_origin(kind) is tuple:
        return f"{_type(arguments[0])}, or a list" if arguments[0] in (str, Path) else f"list: {_type(arguments[0])}"
    if typing.get_origin(kind) is dict:
        return f"name: {_type(arguments[1])}"
    return _NAMES.get(kind, "block" if is_block(kind) else kind.__name__.lower())


def _default(declared: Field[Any], kind: Any) -> str:
    if declared.default is not MISSING:
        return f"`{as_yaml(declared.default)}`"
    if declared.default_factory is MISSING:
        return "required"
    return "see below" if is_block(kind) else f"`{as_yaml(declared.default_factory())}`"


def _allowed(declared: Field[Any]) -> str:
    choices = ", ".join(f"`{choice}`" for choice in declared.metadata.get("choices") or ())
    return choices or bounds_in_words(declared.metadata)


def _first_sentence(kind: Any) -> str:
    """What the block's own description begins with."""
    sentence = " ".join((getattr(_block_in(kind, "")[0], "__doc__", "") or "").split()).split(". ")[0].rstrip(".")
    return sentence[:1].lower() + sentence[1:]


def _presets() -> str:
    lines = ["## Presets", "", "| `model.preset` | keys |", "| --- | --- |"]
    for name, keys in PRESETS.items():
        lines.append(f"| `{name}` | {', '.join(f'`{path}: {as_yaml(value)}`' for path, value in leaves(keys))} |")
    return "\n".join([*lines, ""])
