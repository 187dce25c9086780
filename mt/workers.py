"""Several processes that translate on one machine's CPU, each with the model and some of the threads.

Decoding takes many small steps, between which threads wait for one another: two processes of one thread translate more
than one of two. The processes map the model's file into memory, so that its weights are there once. Blocks of lines
are dealt out in turn, and the answers come in the order of the blocks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import cycle, islice
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from mt.data.prefetch import prefetched
from mt.data.processes import CONTEXT, serve_parent, unguarded
from mt.errors import RunError
from mt.lines.answer import WINDOW, Answer, Style
from mt.search.config import DecodeConfig
from mt.text.files import Block

if TYPE_CHECKING:
    from mt.translator import Translator

PART_LINES = 256
"""Least lines of a part of a full block: the more there are together, the more alike are those of a batch."""
LAST_LINES = 16
"""Least lines of a part of a shorter block, after which no other comes: it is for all processes."""
AHEAD = 2
"""Parts that each process has, the one that it works on included."""


@dataclass(frozen=True)
class Loading:
    """What the processes load: see `mt.translator.load`."""

    run: Path
    checkpoint: str | None
    decode: DecodeConfig
    others: tuple[Path, ...] = ()


class Workers:
    """Answers blocks of lines as a translator would, by processes that live until `close`."""

    def __init__(self, loading: Loading, workers: int, threads: int) -> None:
        """Start `workers` processes with `threads` threads each.

        Raises:
            as `mt.translator.load`.
        """
        self._connections: list[Connection] = []
        self._dealt: deque[Connection] = deque()  # who has the parts that are dealt out and not yet answered, in order
        self._processes = []
        for _ in range(workers):
            ours, theirs = CONTEXT.Pipe()
            process = CONTEXT.Process(target=_work, args=(theirs, loading, threads), daemon=True)
            with unguarded():
                process.start()
            theirs.close()
            self._connections.append(ours)
            self._processes.append(process)
        try:
            identities = [str(self._receive(connection)) for connection in self._connections]
        except BaseException:
            self.close()
            raise
        self.identity = identities[0]
        self.block_lines = WINDOW  # as of a translator: what is kept of a file serves any number of processes

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the processes, whatever they are at."""
        for process in self._processes:
            process.terminate()
        for process, connection in zip(self._processes, self._connections, strict=True):
            process.join()
            connection.close()

    def answers(self, blocks: Iterable[Block], style: Style) -> Iterator[Answer]:
        """As `mt.lines.answer.Answering`, one call at a time; at most `AHEAD` parts a process are not yet answered.

        Raises:
            RunError: a process died; whatever a process raises.
        """
        while self._dealt:  # by a call that was not taken to its end
            self._received(self._dealt.popleft())
        sizes, takers = deque[int](), cycle(self._connections)
        for block in blocks:
            before = len(self._dealt)
            for part in self._parts(block):
                self._deal(next(takers), part, style)
            sizes.append(len(self._dealt) - before)
            while sizes and (self._are_busy() or all(part.poll() for part in islice(self._dealt, sizes[0]))):
                yield self._answer(sizes.popleft())
        while sizes:
            yield self._answer(sizes.popleft())

    def _parts(self, block: Block) -> Iterator[Block]:
        least = LAST_LINES if len(block) < self.block_lines else PART_LINES
        return block.cut(min(len(self._connections), max(1, len(block) // least)))

    def _are_busy(self) -> bool:
        """Whether the parts of one more block would be too many."""
        return len(self._dealt) > (AHEAD - 1) * len(self._connections)

    def _deal(self, connection: Connection, part: Block, style: Style) -> None:
        try:
            connection.send((part, style))
        except OSError:
            raise _died() from None
        self._dealt.append(connection)

    def _answer(self, parts: int) -> Answer:
        return reduce(Answer.then, (self._next() for _ in range(parts)))

    def _next(self) -> Answer:
        answer = self._receive(self._dealt.popleft())
        assert isinstance(answer, Answer)
        return answer

    def _receive(self, connection: Connection) -> object:
        received = self._received(connection)
        if isinstance(received, BaseException):
            raise received
        return received

    @staticmethod
    def _received(connection: Connection) -> object:
        """What a process has sent; it may be an error."""
        try:
            return connection.recv()
        except (EOFError, OSError):
            raise _died() from None


def _died() -> RunError:
    return RunError(
        "A worker process died, perhaps for want of memory: run it again with fewer --workers, or with a smaller "
        "decode.batch_tokens."
    )


def _work(connection: Connection, loading: Loading, threads: int) -> None:
    """The life of a process: say who it is, then answer block after block."""
    serve_parent()
    try:
        import torch

        from mt.translator import load

        torch.set_num_threads(threads)
        translator = load(loading.run, loading.checkpoint, torch.device("cpu"), loading.decode, True, loading.others)
        connection.send(translator.identity)
        # Read ahead: while this process waits for its answer to be taken, the parent may wait for its task to be.
        for block, style in prefetched(_tasks(connection), AHEAD):
            connection.send(_answered(translator, block, style))
    except EOFError:
        return
    except Exception as error:  # is raised where it is seen
        connection.send(error)


def _tasks(connection: Connection) -> Generator[tuple[Block, Style], None, None]:
    while True:
        yield connection.recv()


def _answered(translator: Translator, block: Block, style: Style) -> Answer | Exception:
    """The answer; or an error, which is raised where it is seen."""
    try:
        return next(translator.answers([block], style))
    except Exception as error:
        return error
