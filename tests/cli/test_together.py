"""Commands that torchrun started several times."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Call


@pytest.mark.parametrize(
    ("rank", "said"),
    [
        ("0", "Error: prepare is work for one process: call it without torchrun (mt --help shows the options).\n"),
        ("1", ""),
    ],
)
def test_what_processes_cannot_share_is_refused_once(
    mt: Call, monkeypatch: pytest.MonkeyPatch, rank: str, said: str
) -> None:
    for name, value in {"WORLD_SIZE": "2", "RANK": rank, "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    called = mt("prepare", "quickstart")
    assert (called.code, called.err) == (2, said)
