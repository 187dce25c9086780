"""The errors that a person can mend, each one sentence (what, where, what is allowed, what to do); and its grammar.

Whatever raises `MtError` has left nothing half-written. The command line prints the sentence and exits with
`exit_code`; a traceback means a fault of this project, never of its input.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def plural(number: int, noun: str) -> str:
    """The form of `noun` that goes with `number`."""
    if number == 1:
        return noun
    return f"{noun}es" if noun.endswith("s") else f"{noun}s"


def meant(name: str, known: Iterable[str]) -> str:
    """What to add to a sentence that refuses `name`: which of `known` it may be a slip of the pen for; or nothing."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""


class MtError(Exception):
    """Something that the user can mend; `str(error)` is the whole sentence."""

    exit_code = 2


class ConfigError(MtError):
    """A recipe or an option is wrong."""


class DataError(MtError):
    """A text, a corpus or a prepared file is wrong."""


class RunError(MtError):
    """A run folder is wrong, in use, or does not fit what is asked of it."""


class BusyError(RunError):
    """Another process is at the very same work; it may be worth waiting for."""


class EchoError(MtError):
    """Another process of the same work failed and has said why: there is nothing to add."""


class MissingExtraError(MtError):
    """An optional dependency is not installed."""

    def __init__(self, purpose: str, extra: str) -> None:
        super().__init__(f"{purpose} needs an optional package: pip install 'mt-toolkit[{extra}]'.")
