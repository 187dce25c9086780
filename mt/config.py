"""Strict mapping <-> frozen dataclasses. (The engine is being built; `option` is its public way to declare one.)"""

from __future__ import annotations

from dataclasses import MISSING, field
from typing import Any


def option(
    default: Any = MISSING,
    *,
    help: str,
    choices: tuple[str, ...] | None = None,
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
    lt: float | None = None,
) -> Any:
    """Declare an option of a frozen dataclass: its default (none: required), what it means, and what it may be."""
    bounds = {"ge": ge, "gt": gt, "le": le, "lt": lt}
    return field(default=default, metadata={"help": help, "choices": choices, **bounds})
