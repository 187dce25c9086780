from __future__ import annotations

import threading
from collections.abc import Generator

import pytest

from mt.data.prefetch import prefetched


def numbers(made: list[int], closed: list[bool], end: int = 10**9) -> Generator[int, None, None]:
    try:
        for number in range(end):
            made.append(number)
            yield number
    finally:
        closed.append(True)


def threads() -> int:
    return sum(thread.name == "prefetch" for thread in threading.enumerate())


@pytest.mark.parametrize("depth", [0, 1, 3, 100])
def test_items_come_in_order_and_the_thread_ends(depth: int) -> None:
    """Fault 69: however much is made ahead."""
    closed: list[bool] = []
    assert list(prefetched(numbers([], closed, 20), depth)) == list(range(20))
    assert closed == [True]
    assert threads() == 0


@pytest.mark.parametrize("depth", [1, 4])
def test_no_more_is_made_ahead_than_asked_for(depth: int) -> None:
    made: list[int] = []
    items = prefetched(numbers(made, []), depth)
    assert next(items) == 0
    items.close()
    assert len(made) <= depth + 3


@pytest.mark.parametrize("depth", [0, 1, 5])
@pytest.mark.parametrize("taken", [0, 1, 7])
def test_closing_closes_the_source_and_ends_the_thread(depth: int, taken: int) -> None:
    closed: list[bool] = []
    items = prefetched(numbers([], closed), depth)
    for _ in range(taken):
        next(items)
    items.close()
    assert closed == ([True] if taken else [])
    assert threads() == 0


@pytest.mark.parametrize("depth", [0, 1, 5])
def test_an_exception_passes_through_after_the_items_before_it(depth: int) -> None:
    def failing() -> Generator[int, None, None]:
        yield 1
        yield 2
        raise ValueError("broken")

    items = prefetched(failing(), depth)
    assert [next(items), next(items)] == [1, 2]
    with pytest.raises(ValueError, match=r"^broken$"):
        next(items)
    assert threads() == 0


def test_an_interrupt_ends_the_thread() -> None:
    closed: list[bool] = []
    items = prefetched(numbers([], closed), 2)
    next(items)
    with pytest.raises(KeyboardInterrupt):
        items.throw(KeyboardInterrupt)
    assert closed == [True]
    assert threads() == 0


def test_one_may_lie_in_another() -> None:
    inner = prefetched(numbers([], [], 50), 2)
    assert list(prefetched(inner, 3)) == list(range(50))
    assert threads() == 0
