from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn

import pytest

from mt.data.encoding import Encoder, encode_blocks, in_order
from mt.errors import DataError, RunError
from mt.text.config import Filters, TokenizerConfig
from mt.text.corpus import read_pair_blocks
from mt.text.tokenizer import Tokenizers
from tests.prepared import write_pair

EVERYTHING = Encoder(Filters(), drop_invalid=True, dedup=True, keep_text=True)
SRC = "".join("é" * count + "\n" for count in (1, 2, 0, 3, 4, 5, 6)).encode()


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    config = TokenizerConfig(vocab_size=40, soft_vocab_limit=True)
    Tokenizers.train(config, ["é éé x y"] * 9, [], ("s", "t")).save(folder)
    return folder


def encoded(tokenizers: Path, folder: Path, lines: int, workers: int) -> list[Any]:
    text = write_pair(folder, SRC, b"y\n\xff\n" + b"y y\n" * 5)
    results = []
    for block in encode_blocks(EVERYTHING, tokenizers, read_pair_blocks(text.src, text.tgt, lines), workers):
        sides = [
            (side.ids.tolist(), side.lengths.tolist(), side.text.tobytes(), side.counts)
            for side in (block.src, block.tgt)
        ]
        results.append((sides, block.read, block.dropped, block.keys.tolist()))
    return results


@pytest.mark.parametrize("workers", [2, *(pytest.param(workers, marks=pytest.mark.slow) for workers in (3, 8, 16))])
def test_the_number_of_workers_makes_no_difference(tokenizers: Path, tmp_path: Path, workers: int) -> None:
    """Fault 40."""
    assert encoded(tokenizers, tmp_path, 1, workers) == encoded(tokenizers, tmp_path, 1, 1)


def test_blocks_hold_all_lines_in_order(tokenizers: Path, tmp_path: Path) -> None:
    """Fault 40."""
    alone = encoded(tokenizers, tmp_path, 1, 1)
    together = encoded(tokenizers, tmp_path, 7, 1)
    assert len(alone) == 7
    assert [ids for block in alone for ids in block[0][0][0]] == together[0][0][0][0]
    assert together[0][1:3] == (7, {"not UTF-8": 1, "source empty": 1})


def test_an_error_of_the_text_names_its_place(tokenizers: Path, tmp_path: Path) -> None:
    """Fault 17."""
    text = write_pair(tmp_path, b"a\nb\n\xff\n", b"a\nb\nc\n")
    strict = Encoder(Filters(), drop_invalid=False, dedup=False, keep_text=False)
    with pytest.raises(DataError, match="line 3, byte offset 4: 0xFF is not UTF-8"):
        list(encode_blocks(strict, tokenizers, read_pair_blocks(text.src, text.tgt, 1), 1))


class Killer(Encoder):
    """An encoder whose process dies."""

    def __call__(self, *_: object) -> NoReturn:
        os._exit(9)


def test_a_worker_that_dies_is_reported(tokenizers: Path, tmp_path: Path) -> None:
    text = write_pair(tmp_path, b"a\nb\n", b"a\nb\n")
    killer = Killer(Filters(), drop_invalid=False, dedup=False, keep_text=False)
    with pytest.raises(RunError) as error:
        list(encode_blocks(killer, tokenizers, read_pair_blocks(text.src, text.tgt, 1), 2))
    assert str(error.value) == (
        "a worker process of mt prepare died, perhaps for want of memory; run it again with fewer workers, or with 1, "
        "which starts none."
    )


def test_few_blocks_are_read_ahead() -> None:
    """Fault 39."""
    taken = 0

    def numbers() -> Iterator[tuple[int]]:
        nonlocal taken
        for taken in range(50):
            yield (taken,)

    with ThreadPoolExecutor(2) as pool:
        for done, number in enumerate(in_order(pool, int, numbers(), ahead=6)):
            assert number == done
            assert taken <= done + 6
    assert taken == 49
