"""The modules of a model as a tree: their shapes, and how many parameters they hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from torch import nn

RULE = "What is tied counts once in what holds it."


@dataclass(frozen=True)
class Weight:
    """A parameter that a module has itself."""

    name: str
    shape: tuple[int, ...]
    tied: str = ""
    """The first parameter of the model that is the same one, where that is another."""

    def __str__(self) -> str:
        return f"{self.name} {self.shape}" + (f" = {self.tied}" if self.tied else "")


@dataclass(frozen=True)
class Module:
    """A module, and those inside it that hold parameters."""

    name: str
    """In the module that holds it."""
    kind: str
    parameters: int
    """With those of the modules inside it; what is tied counts once."""
    weights: tuple[Weight, ...]
    modules: tuple[Module, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain mappings and lists."""
        weights = [{"name": own.name, "shape": list(own.shape), "tied": own.tied or None} for own in self.weights]
        inside = [module.to_json() for module in self.modules]
        return {
            "name": self.name,
            "kind": self.kind,
            "parameters": self.parameters,
            "weights": weights,
            "modules": inside,
        }

    @property
    def shapes(self) -> tuple[object, ...]:
        """Equal for modules that are alike in all but their place."""
        own = tuple((weight.name, weight.shape) for weight in self.weights)
        return self.kind, own, tuple((module.name, module.shapes) for module in self.modules)


def module_tree(model: nn.Module) -> Module:
    """The tree of a model; its root has no name."""
    first: dict[int, str] = {}
    for name, parameter in model.named_parameters():
        first.setdefault(id(parameter), name)
    return _tree(model, "", "", first)


def _tree(module: nn.Module, name: str, place: str, first: dict[int, str]) -> Module:
    """`place`: what stands before the names of the module's own parameters."""
    weights = []
    for key, parameter in module.named_parameters(recurse=False):
        origin = first[id(parameter)]
        weights.append(Weight(key, tuple(parameter.shape), "" if origin == place + key else origin))
    inside = (_tree(child, key, f"{place}{key}.", first) for key, child in module.named_children())
    count = sum(parameter.numel() for parameter in module.parameters())
    return Module(
        name, type(module).__name__, count, tuple(weights), tuple(child for child in inside if child.parameters)
    )


def tree_lines(root: Module) -> Iterator[str]:
    """The tree as text; what is alike and stands in a row, such as the layers of a stack, is shown once."""
    rows = list(_rows(root, "", ""))
    names, kinds = (max(len(row[column]) for row in rows) for column in (1, 2))
    yield f"{'parameters':>13}  module"
    for count, name, kind, weights in rows:
        yield f"{count:>13}  {name:{names}}  {kind:{kinds}}  {weights}".rstrip()
    yield RULE


def _rows(module: Module, head: str, below: str, label: str = "model") -> Iterator[tuple[str, str, str, str]]:
    """(parameters, name, kind, weights) of a module after `head`, and of those in it after `below`."""
    yield f"{module.parameters:,}", head + label, module.kind, ", ".join(map(str, module.weights))
    groups = [
        list(alike) for _, alike in groupby(module.modules, lambda inside: (inside.name.isdigit(), inside.shapes))
    ]
    runs = [run for group in groups for run in ([group] if group[0].name.isdigit() else [[one] for one in group])]
    for run in runs:
        label = run[0].name if len(run) == 1 else f"{run[0].name} to {run[-1].name}, each"
        last = run is runs[-1]
        yield from _rows(run[0], below + ("└─ " if last else "├─ "), below + ("   " if last else "│  "), label)
