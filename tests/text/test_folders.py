from __future__ import annotations

import os
from pathlib import Path

import pytest

from mt.errors import RunError
from mt.text.folders import locked, write_folder_aside
from mt.text.locks import take


def test_a_second_holder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "run" / "data"
    with locked(folder, "mt prepare"), pytest.raises(RunError) as error, locked(folder, "mt prepare"):
        pass
    assert str(error.value) == (
        f"another mt prepare (process {os.getpid()}) is writing {folder}; wait until it has ended."
    )
    with locked(folder, "mt prepare"):
        pass
    assert list(folder.parent.iterdir()) == []


def test_the_lock_is_let_go_after_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with pytest.raises(KeyError), locked(folder, "mt prepare"):
        raise KeyError
    assert list(tmp_path.iterdir()) == []
    with locked(folder, "mt prepare"):
        pass


def test_a_file_that_cannot_be_deleted_is_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows, where it is still open."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "unlink", refuse)
    for _ in range(2):
        with locked(tmp_path / "data", "mt prepare"):
            pass
    assert [path.name for path in tmp_path.iterdir()] == [".data.lock"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_takes_a_lock() -> None:
    """What is written next fails, and names what it is."""
    with Path("/dev/full").open("ab+") as file:
        assert take(file) is None


def write(folder: Path, name: str) -> None:
    with write_folder_aside(folder) as aside:
        (aside / name).write_bytes(b"")


def test_nothing_of_the_old_folder_remains(tmp_path: Path) -> None:
    """Fault 42."""
    write(tmp_path / "data", "old")
    write(tmp_path / "data", "new")
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")] == ["data", "data/new"]


def test_an_error_of_the_system_names_the_folder_that_was_asked_for(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as error, write_folder_aside(tmp_path / "data") as aside:
        (aside / "ids").read_bytes()
    assert error.value.filename == str(tmp_path / "data" / "ids")


def test_an_error_leaves_the_old_folder(tmp_path: Path) -> None:
    write(tmp_path / "data", "old")

    def fail() -> None:
        with write_folder_aside(tmp_path / "data") as aside:
            (aside / "half").write_bytes(b"")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")] == ["data", "data/old"]


def test_what_an_interrupted_run_left_is_mended(tmp_path: Path) -> None:
    (tmp_path / ".data.old").mkdir()
    (tmp_path / ".data.tmp").mkdir()
    (tmp_path / ".data.tmp" / "half").write_bytes(b"")
    with write_folder_aside(tmp_path / "data") as aside:
        assert (tmp_path / "data").is_dir()
        assert list(aside.iterdir()) == []
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
