from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from torch.distributed import HashStore  # type: ignore[attr-defined]
from torch.distributed.distributed_c10d import Store

from mt.errors import RunError
from mt.training import attempt
from mt.training.attempt import fresh


def join(store: Store, ranks: list[int], size: int) -> list[Store]:
    """All ranks at once, those named first begin first."""
    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(lambda rank: fresh(store, rank, size), ranks))


@pytest.mark.parametrize("ranks", [[0, 1, 2], [2, 1, 0]])
def test_each_attempt_has_a_store_of_its_own(ranks: list[int]) -> None:
    store = HashStore()
    for _ in range(3):
        found = join(store, ranks, 3)
        found[0].set("address", "new")
        assert [each.get("address") for each in found] == [b"new"] * 3
        assert [each.add("failures", 1) for each in found] == [1, 2, 3]


def test_a_first_rank_that_does_not_come_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt, "PATIENCE", 0.01)
    store = HashStore()
    store.set("attempt", "one of old")
    with pytest.raises(RunError) as caught:
        fresh(store, 1, 2)
    assert str(caught.value) == "Process 0 did not come within 0 seconds."
