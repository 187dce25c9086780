"""Options that several commands share: one spelling, one help text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from io import BufferedIOBase
from pathlib import Path
from typing import Any, TypeVar, cast

import click

Command = TypeVar("Command", bound=Callable[..., Any])

path = click.Path(path_type=Path)
recipe = click.argument("recipe", metavar="RECIPE")
_SET_HELP = "Override a key of the recipe, such as train.lr=3e-4; may be given several times, and wins over the file."

overrides = click.option("-o", "--set", "overrides", multiple=True, metavar="KEY=VALUE", help=_SET_HELP)
long_overrides = click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help=_SET_HELP)
workers = click.option(
    "--workers", type=click.IntRange(min=1), help="Processes that read and encode text.  [default: one a CPU core]"
)
device = click.option(
    "--device",
    default="auto",
    show_default=True,
    metavar="auto|cpu|cuda|cuda:N",
    help="Where to compute; auto takes CUDA where there is one, else the CPU.",
)
threads = click.option(
    "--threads", type=click.IntRange(min=1), help="CPU threads of the computation.  [default: all cores]"
)
checkpoint = click.option(
    "--checkpoint",
    metavar="NAME",
    help="A checkpoint of the run, such as best, last or step-00000100.  [default: the final model]",
)
check_expect = click.option(
    "--check-expect", is_flag=True, help="Compare with the recipe's evaluate.expect; exit code 1 if one is missed."
)
dry_run = click.option(
    "--dry-run",
    is_flag=True,
    help="Train nothing: print the effective recipe, parameters, memory estimate and steps an epoch; then check the "
    "recipe.",
)


def stacked(*decorators: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Several options as one decorator, in this order in the help."""

    def decorate(command: Command) -> Command:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorate


machine = stacked(device, threads)


def as_overrides(keys: Mapping[str, object]) -> list[str]:
    """Options that stand for keys of the recipe, as KEY=VALUE; None was not given."""
    return [f"{key}={value}" for key, value in keys.items() if value is not None]


def binary(stream: object) -> BufferedIOBase:
    """The bytes under a standard stream; standard output is there, or `mt` would not have begun."""
    buffer = getattr(stream, "buffer", None)
    if buffer is None:
        raise click.UsageError("standard input is closed; give --input")
    return cast("BufferedIOBase", buffer)
