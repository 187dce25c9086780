"""Work done ahead, in a thread beside the one that needs it."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from queue import Empty, Queue
from threading import Event, Thread
from typing import Generic, TypeVar

Item = TypeVar("Item")


@dataclass(frozen=True)
class _End:
    """No more items, because of `error` if there is one."""

    error: BaseException | None


def prefetched(items: Generator[Item, None, None], depth: int) -> Generator[Item, None, None]:
    """The same items, at most `depth` of them made ahead by a thread; `depth` 0 makes each when it is asked for.

    The thread starts with the first item asked for. An exception of `items` is raised here, after the items before it.
    Closing this generator, also by an exception such as KeyboardInterrupt, closes `items` and ends the thread as soon
    as the item in the making is done.
    """
    return _Thread(items, depth).items() if depth else items


class _Thread(Generic[Item]):
    def __init__(self, items: Generator[Item, None, None], depth: int) -> None:
        self._source = items
        self._queue: Queue[Item | _End] = Queue(depth)
        self._stop = Event()

    def items(self) -> Generator[Item, None, None]:
        thread = Thread(target=self._fill, name="prefetch", daemon=True)
        thread.start()
        try:
            while not isinstance(item := self._queue.get(), _End):
                yield item
            if item.error is not None:
                raise item.error
        finally:
            self._stop.set()
            self._drain()
            thread.join()

    def _fill(self) -> None:
        error: BaseException | None = None
        try:
            for item in self._source:
                self._queue.put(item)
                if self._stop.is_set():
                    break
            self._source.close()
        except BaseException as raised:
            error = raised
        if not self._stop.is_set():
            self._queue.put(_End(error))

    def _drain(self) -> None:
        """Make room for the one `put` that the thread may be waiting in or about to do."""
        try:
            while True:
                self._queue.get_nowait()
        except Empty:
            return
