"""What long work tells its caller. The library yields events; `cli` draws them, tests assert on them.

A use case is a generator of events that returns its result:

    report = finish(prepare(recipe))                  # nobody watches
    report = finish(prepare(recipe), watch=print)     # somebody does
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TypeVar


class Event:
    """Base of all events."""


@dataclass(frozen=True)
class Progress(Event):
    """`done` of `total` `unit`s of the work named `label` are done; `total` is None where it cannot be known."""

    label: str
    done: int
    total: int | None = None
    unit: str = "lines"
    detail: str = ""


@dataclass(frozen=True)
class Notice(Event):
    """A line that the person should read: a stage begins or is skipped, a setting falls back, text was cut."""

    text: str


Result = TypeVar("Result")


def silent(work: Generator[Event, None, Result]) -> Generator[Event, None, Result]:
    """The same work without a word."""
    result = finish(work)
    yield from ()
    return result


def finish(work: Generator[Event, None, Result], watch: Callable[[Event], object] | None = None) -> Result:
    """Run `work` to its end, show each event to `watch`, and return the work's result."""
    while True:
        try:
            event = next(work)
        except StopIteration as end:
            result: Result = end.value
            return result
        if watch is not None:
            watch(event)
