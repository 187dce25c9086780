"""Draws the events of long work on standard error: bars only on a terminal, notices always."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from mt.events import Event, Notice, Progress, finish

if TYPE_CHECKING:
    from tqdm import tqdm

Result = TypeVar("Result")
Lines = Mapping[type[Event], Callable[[Any], "str | None"]]


def draw(work: Generator[Event, None, Result], lines: Lines | None = None, bars: bool = True) -> Result:
    """Run `work` to its end, show its events, and return its result.

    `lines` turns further kinds of events into a line, or None to say nothing; without `bars` there is none at all.
    """
    with closing(work), Screen(lines or {}, bars) as screen:
        return finish(work, screen.show)


class Screen:
    """One progress bar at a time, and lines above it."""

    def __init__(self, lines: Lines, bars: bool) -> None:
        self.lines: dict[type[Event], Callable[[Any], str | None]] = {Notice: _notice, **lines}
        self.terminal = bars and sys.stderr is not None and sys.stderr.isatty()
        self.bar: tqdm[Any] | None = None
        self.label = ""

    def __enter__(self) -> Screen:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def show(self, event: Event) -> None:
        """Draw one event."""
        if isinstance(event, Progress):
            if self.terminal:
                self.move(event)
            return
        draws = self.lines.get(type(event))
        line = draws(event) if draws else None
        if line is not None:
            self.say(line)

    def move(self, event: Progress) -> None:
        """Move the bar, or begin a new one for a new label."""
        if self.bar is None or self.label != event.label:
            self.close()
            self.label = event.label
            self.bar = _bar(event)
        self.bar.total = event.total
        self.bar.set_postfix_str(event.detail, refresh=event.done == self.bar.n)
        self.bar.update(event.done - self.bar.n)

    def say(self, line: str) -> None:
        """Write a line above the bar."""
        if self.bar is not None:
            self.bar.write(line, file=sys.stderr)
        elif sys.stderr is not None:
            print(line, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Leave the bar as it stands."""
        if self.bar is not None:
            self.bar.close()
            self.bar = None


def _notice(event: Notice) -> str:
    return event.text


def _bar(event: Progress) -> tqdm[Any]:
    from tqdm import tqdm

    return tqdm(
        desc=event.label,
        total=event.total,
        initial=event.done,  # what was done before has no part in the speed
        unit=f" {event.unit}",
        unit_scale=True,
        dynamic_ncols=True,
        file=sys.stderr,
    )
