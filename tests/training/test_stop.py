"""Requests to stop, made from outside the work and from inside it, as a signal's handler does."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from mt.events import Event, Progress, finish
from mt.training.stop import StopRequest


class Work:
    """Three events and a result; `at` asks to stop in the middle of that event."""

    def __init__(self, request: StopRequest, at: int | None = None) -> None:
        self.request = request
        self.at = at
        self.done: list[int] = []
        self.closed = False

    def run(self) -> Generator[Event, None, str]:
        try:
            for number in range(3):
                if number == self.at:
                    self.request.ask()
                self.done.append(number)
                yield Progress("work", number)
            return "done"
        finally:
            self.closed = True


def test_work_that_nobody_stops_gives_its_result() -> None:
    request = StopRequest()
    assert finish(request.until_asked(Work(request).run())) == "done"


def test_it_is_heard_as_soon_as_work_runs() -> None:
    """A training may be resumed into a validation, before it has looked for the first time."""
    request = StopRequest()
    heard = [request.heard]
    next(request.until_asked(Work(request).run()))
    assert [*heard, request.heard] == [False, True]


@pytest.mark.parametrize("at", [0, 1, 2])
def test_work_is_left_where_it_is(at: int) -> None:
    request = StopRequest()
    work = Work(request, at)
    assert finish(request.until_asked(work.run())) is None
    assert work.done == list(range(at))
    assert work.closed
    assert request()


def test_a_request_between_two_events_does_not_reach_their_watcher() -> None:
    request = StopRequest()
    work = Work(request)
    assert finish(request.until_asked(work.run()), lambda _: request.ask()) is None
    assert (work.done, work.closed) == ([0], True)


def test_work_does_not_begin_after_a_request() -> None:
    request = StopRequest()
    request.ask()
    work = Work(request)
    assert finish(request.until_asked(work.run())) is None
    assert work.done == []


def test_outside_of_such_work_a_request_is_only_noted() -> None:
    request = StopRequest()
    heard = [request.heard, request(), request.heard]
    assert heard == [False, False, True]
    request.ask()
    assert request()


def test_a_question_may_make_the_request() -> None:
    answers = iter([False, True])
    request = StopRequest(lambda: next(answers))
    assert [request(), request(), request()] == [False, True, True]


def test_work_that_fails_leaves_the_request_usable() -> None:
    request = StopRequest()

    def failing() -> Generator[Event, None, str]:
        yield Progress("work", 0)
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        finish(request.until_asked(failing()))
    request.ask()
    assert request.asked
