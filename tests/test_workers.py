from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from threading import Thread

import pytest

from mt.data.config import DataConfig, ParallelText
from mt.errors import RunError
from mt.lines.answer import Style
from mt.search.config import DecodeConfig
from mt.text.files import Block
from mt.translator import load
from mt.workers import Loading, Workers
from tests.translators import run_folder

DECODE = DecodeConfig(beam_size=2, max_length=4)


def blocks(count: int) -> list[Block]:
    return [Block(Path("in"), b"a b\nc\n" * (1 + n % 3), 1 + 10 * n, 0) for n in range(count)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder with a model that says nonsense, soon."""
    folder = tmp_path_factory.mktemp("run")
    run_folder(folder, DataConfig("en", "de", (ParallelText(Path("a"), Path("b")),)))
    return folder


def test_answers_come_in_order_and_a_dead_worker_is_a_sentence(run: Path) -> None:
    """The same answers as of one process, by name and by content; and processes that are gone when all is over."""
    alone = load(run, device="cpu", decode=DECODE)
    with Workers(Loading(run, None, DECODE), 2, 1) as workers:
        assert workers.identity == alone.identity
        expected = [answer.data for answer in alone.answers(blocks(7), Style())]
        assert [answer.data for answer in workers.answers(iter(blocks(7)), Style())] == expected
        bad = Block(Path("in"), b"a\nb \xe9\n", 1, 0)
        [answer] = workers.answers([bad], Style())
        assert answer.lines == 1
        assert str(answer.error).startswith("in, line 2, byte offset 4: 0xE9 is not UTF-8")
        os.kill(workers._processes[1].pid or 0, signal.SIGKILL)
        with pytest.raises(RunError, match=r"^A worker process died, perhaps for want of memory: run it again with"):
            list(workers.answers(blocks(7), Style()))
    assert not any(process.is_alive() for process in workers._processes)


def test_all_processes_have_a_part_of_a_short_block(run: Path) -> None:
    """And what cannot be read ends the answer where it stands, whoever else had lines after it."""
    alone = load(run, device="cpu", decode=DECODE)
    lines = [b"a b\n", b"c\n", b"\n", b"b c a\n"] * 25
    with Workers(Loading(run, None, DECODE), 3, 1) as workers:
        dealt = [len(part) for part in workers._parts(Block(Path("in"), b"".join(lines), 1, 0))]
        assert sum(dealt) == 100
        assert all(30 <= count <= 36 for count in dealt)
        for broken in (None, 5, 40, 99):
            data = b"".join(b"\xe9\n" if number == broken else line for number, line in enumerate(lines))
            block = Block(Path("in"), data, 11, 0)
            [answer], [expected] = workers.answers([block], Style()), alone.answers([block], Style())
            assert (str(answer.error), vars(answer) | {"error": None}) == (
                str(expected.error),
                vars(expected) | {"error": None},
            )


def test_full_blocks_are_cut_into_parts_that_batch_well(run: Path) -> None:
    with Workers(Loading(run, None, DECODE), 2, 1) as workers:
        lines = workers.block_lines
        assert [len(part) for part in workers._parts(Block(Path("in"), b"a\n" * lines, 1, 0))] == [lines // 2] * 2
        assert [len(part) for part in workers._parts(Block(Path("in"), b"a\n" * 3, 1, 0))] == [3]


def test_what_hinders_a_worker_from_loading_is_raised_here(run: Path) -> None:
    with pytest.raises(RunError) as raised:
        Workers(Loading(run, "best", DECODE), 1, 1)
    assert str(raised.value) == f"{run} has no checkpoint 'best'; there are: none."


def test_only_few_blocks_are_read_ahead(run: Path) -> None:
    """Fault 88."""
    taken = 0

    def counted() -> object:
        nonlocal taken
        for block in blocks(50):
            taken += 1
            yield block

    with Workers(Loading(run, None, DECODE), 1, 1) as workers:
        answers = workers.answers(counted(), Style())  # type: ignore[arg-type]
        next(answers)
        assert taken <= 2


def test_what_one_call_leaves_is_no_answer_to_the_next(run: Path) -> None:
    """Fault 74: of a file that was given up, nor of one that failed, as where there is no such format."""
    alone = load(run, device="cpu", decode=DECODE)
    expected = [answer.data for answer in alone.answers(blocks(5), Style())]
    with Workers(Loading(run, None, DECODE), 2, 1) as workers:
        given_up = workers.answers([Block(Path("other"), b"k l m\n", 1 + n, 0) for n in range(5)], Style("jsonl"))
        next(given_up)
        given_up.close()  # type: ignore[attr-defined]
        assert [answer.data for answer in workers.answers(blocks(5), Style())] == expected
        with pytest.raises(KeyError):
            list(workers.answers(blocks(5), Style("none")))
        assert [answer.data for answer in workers.answers(blocks(5), Style())] == expected


def test_tasks_and_answers_larger_than_a_pipe_holds_do_not_wait_for_each_other(run: Path) -> None:
    line = json.dumps({"text": "a", "kept": "x" * 3_000_000}).encode() + b"\n"
    blocks = [Block(Path("in"), line, 1 + n, 0) for n in range(4)]
    found = list[int]()
    with Workers(Loading(run, None, DECODE), 1, 1) as workers:
        answers = workers.answers(blocks, Style("jsonl", "jsonl"))
        working = Thread(target=lambda: found.extend(len(answer.data) for answer in answers), daemon=True)
        working.start()
        working.join(timeout=60)
        assert not working.is_alive()
    assert len(found) == 4
    assert all(size > 3_000_000 for size in found)
