from __future__ import annotations

import pytest

from mt.errors import ConfigError
from mt.place import Place


def test_without_torchrun_a_process_is_alone() -> None:
    whole = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "here", "MASTER_PORT": "1", "LOCAL_RANK": "1"}
    assert Place.of({}) == Place.of({"RANK": "1", "WORLD_SIZE": "2"}) == Place(0, 1, 0)
    assert Place.of(whole) == Place(1, 2, 1)
    with pytest.raises(ConfigError) as caught:
        Place.of({**whole, "RANK": "one"})
    assert str(caught.value) == (
        "RANK, WORLD_SIZE and LOCAL_RANK must be numbers, but are RANK=one, WORLD_SIZE=2, LOCAL_RANK=1."
    )


def test_each_piece_of_work_is_dealt_to_one_process() -> None:
    places = [Place(rank, 3, rank) for rank in range(3)]
    assert [[place.rank for place in places if place.has(number)] for number in range(5)] == [[0], [1], [2], [0], [1]]
    assert [place.leads for place in places] == [True, False, False]


def test_only_processes_that_were_started_together_have_a_device_each() -> None:
    assert (Place().process, Place(3, 4, 1).process) == (None, 1)
