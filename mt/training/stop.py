"""A request that training end early: a signal, another thread, or a test makes it; the training loop looks at it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar

from mt.events import Event

Result = TypeVar("Result")


class _LeftError(BaseException):
    """Leaves work that changes nothing, wherever it is; no `except Exception` on the way catches it."""


class StopRequest:
    """Asks a training to save a checkpoint and end: after the running update, or out of a running validation.

    A signal handler may call `ask`; it is the main thread that must train then.
    """

    def __init__(self, asked: Callable[[], bool] = lambda: False) -> None:
        """`asked` makes the request, too: it is called after each update."""
        self.heard = False
        """Whether a training looks at it now."""
        self.asked = False
        self._too = asked
        self._leaving = False

    def __call__(self) -> bool:
        """Whether somebody asked."""
        self.heard = True
        self.asked = self.asked or self._too()
        return self.asked

    def ask(self) -> None:
        """Make the request. Out of work that `until_asked` runs at this moment, this raises."""
        self.asked = True
        if self._leaving:
            raise _LeftError

    def until_asked(self, work: Generator[Event, None, Result]) -> Generator[Event, None, Result | None]:
        """Run `work` to its result; or leave it where it is and return None as soon as somebody calls `ask`."""
        self.heard = True  # a training may be resumed into such work
        try:
            while True:
                self._leaving = True
                if self.asked:
                    break
                event = next(work)
                self._leaving = False
                yield event
        except StopIteration as end:
            result: Result = end.value
            return result
        except _LeftError:
            pass
        finally:
            self._leaving = False
            work.close()
        return None
