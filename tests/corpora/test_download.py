"""Downloads from a server that cuts connections, serves wrong bytes, ignores ranges and answers with errors."""

from __future__ import annotations

import errno
import hashlib
import socket
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from mt.corpora.download import Patience, download
from mt.errors import DataError
from mt.events import Event, Notice, Progress, finish
from tests.corpora.server import Site, serve

CONTENT = Random(1).randbytes(300_000)
SUM = hashlib.sha256(CONTENT).hexdigest()
QUICK = Patience(timeout=5.0, attempts=3, pause=0.0)


@pytest.fixture
def site() -> Iterator[Site]:
    with serve(Site(CONTENT)) as site:
        yield site


def get(site: Site, folder: Path, sha256: str | None = SUM, name: str = "file.bin") -> tuple[str, list[Event]]:
    events: list[Event] = []
    found = finish(download(f"{site.url}/{name}", folder / "deep" / "file.bin", sha256, QUICK), events.append)
    return found, events


def refusal(site: Site, folder: Path, sha256: str | None = SUM, name: str = "file.bin") -> str:
    with pytest.raises(DataError) as error:
        get(site, folder, sha256, name)
    assert not (folder / "deep" / "file.bin").exists()
    return str(error.value).replace(site.url, "URL").replace(str(folder), "DIR")


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "deep").iterdir())


def test_a_file_arrives_whole_with_its_checksum_and_progress(site: Site, tmp_path: Path) -> None:
    found, events = get(site, tmp_path)
    assert found == SUM
    assert (tmp_path / "deep" / "file.bin").read_bytes() == CONTENT
    assert left(tmp_path) == ["file.bin"]
    last = events[-1]
    assert isinstance(last, Progress)
    assert (last.label, last.done, last.total, last.unit) == ("fetch file.bin", len(CONTENT), len(CONTENT), "bytes")


@pytest.mark.parametrize("tag", ['"v1"', 'W/"weak"', None], ids=["strong tag", "weak tag", "no tag"])
def test_a_cut_connection_is_resumed_where_it_stopped(site: Site, tmp_path: Path, tag: str | None) -> None:
    site.cut_after, site.tag = 100_000, tag
    get(site, tmp_path)
    assert (tmp_path / "deep" / "file.bin").read_bytes() == CONTENT
    assert site.requests == ["", "bytes=100000-", "bytes=200000-"]


def test_attempts_count_only_while_nothing_is_gained(site: Site, tmp_path: Path) -> None:
    site.cut_after = 10_000
    get(site, tmp_path)
    assert len(site.requests) == 30 > QUICK.attempts


def test_a_server_without_ranges_that_cuts_is_given_up(site: Site, tmp_path: Path) -> None:
    site.cut_after, site.ignore_range = 100_000, True
    assert refusal(site, tmp_path) == (
        "Cannot download URL/file.bin: the connection ended after 100000 of 300000 bytes (3 attempts); check the "
        "network and try again, it goes on where it stopped, or bring the file with --from FOLDER."
    )


def test_a_later_run_goes_on_where_the_first_was_stopped(site: Site, tmp_path: Path) -> None:
    site.cut_after, site.ignore_range = 100_000, True
    refusal(site, tmp_path)
    site.cut_after, site.ignore_range = None, False
    get(site, tmp_path)
    assert site.requests[-1] == "bytes=100000-"
    assert (tmp_path / "deep" / "file.bin").read_bytes() == CONTENT


@pytest.mark.parametrize("sha256", [SUM, None])
def test_a_file_changed_in_between_is_fetched_from_its_start(site: Site, tmp_path: Path, sha256: str | None) -> None:
    site.content, site.tag, site.cut_after, site.ignore_range = b"x" * 300_000, '"v0"', 100_000, True
    refusal(site, tmp_path, sha256)
    site.content, site.tag, site.cut_after, site.ignore_range = CONTENT, '"v1"', None, False
    get(site, tmp_path, sha256)
    assert (tmp_path / "deep" / "file.bin").read_bytes() == CONTENT


def test_resumed_bytes_that_do_not_fit_are_fetched_again_once(site: Site, tmp_path: Path) -> None:
    site.content, site.tag, site.cut_after, site.ignore_range = b"x" * 300_000, None, 100_000, True
    refusal(site, tmp_path)
    site.content, site.cut_after, site.ignore_range = CONTENT, None, False
    _, events = get(site, tmp_path)
    assert [event.text for event in events if isinstance(event, Notice)] == [
        "file.bin: what was resumed does not fit the checksum; fetched again from its start."
    ]
    assert site.requests[-2:] == ["bytes=100000-", ""]


def test_bytes_of_an_unknown_version_are_not_resumed_without_a_checksum(site: Site, tmp_path: Path) -> None:
    site.tag, site.cut_after = None, 100_000
    refusal(site, tmp_path, sha256=None)
    assert set(site.requests) == {""}


def test_the_bytes_of_another_address_are_not_resumed(site: Site, tmp_path: Path) -> None:
    site.cut_after, site.ignore_range = 100_000, True
    refusal(site, tmp_path, name="other.bin")
    site.cut_after, site.ignore_range = None, False
    get(site, tmp_path)
    assert site.requests[-1] == ""


@pytest.mark.parametrize("note", [b"{", b"[]", b""])
def test_a_damaged_note_of_an_earlier_run_starts_over(site: Site, tmp_path: Path, note: bytes) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "file.bin.part").write_bytes(CONTENT[:100])
    (tmp_path / "deep" / "file.bin.part.json").write_bytes(note)
    assert get(site, tmp_path)[0] == SUM
    assert left(tmp_path) == ["file.bin"]


def test_a_server_that_ignores_ranges_starts_over(site: Site, tmp_path: Path) -> None:
    site.cut_after = 100_000
    work = download(f"{site.url}/file.bin", tmp_path / "deep" / "file.bin", SUM, QUICK)
    for event in work:
        if isinstance(event, Notice):
            site.cut_after, site.ignore_range = None, True
    assert (tmp_path / "deep" / "file.bin").read_bytes() == CONTENT


def test_another_range_than_asked_for_is_not_taken(site: Site, tmp_path: Path) -> None:
    site.cut_after, site.misplace_range = 100_000, True
    message = refusal(site, tmp_path)
    assert "Cannot download URL/file.bin: the connection ended after 100000 of 300000 bytes (3 attempts)" in message
    site.cut_after = None
    get(site, tmp_path)
    assert (tmp_path / "deep" / "file.bin").read_bytes() == CONTENT


def test_a_part_that_is_whole_already_is_only_checked(site: Site, tmp_path: Path) -> None:
    site.cut_after, site.ignore_range = 100_000, True
    refusal(site, tmp_path)
    (tmp_path / "deep" / "file.bin.part").write_bytes(CONTENT)
    site.cut_after, site.ignore_range = None, False
    get(site, tmp_path)
    assert site.requests[-1] == "bytes=300000-"
    assert left(tmp_path) == ["file.bin"]


def test_a_part_longer_than_the_file_is_dropped(site: Site, tmp_path: Path) -> None:
    site.cut_after, site.ignore_range = 100_000, True
    refusal(site, tmp_path)
    (tmp_path / "deep" / "file.bin.part").write_bytes(CONTENT + b"more")
    site.cut_after, site.ignore_range = None, False
    get(site, tmp_path)
    assert (tmp_path / "deep" / "file.bin").read_bytes() == CONTENT


def test_a_chunked_answer_that_is_cut_is_noticed(site: Site, tmp_path: Path) -> None:
    site.chunked, site.cut_after = True, 50_000
    assert "Cannot download URL/file.bin: the connection broke (IncompleteRead)" in refusal(site, tmp_path)
    site.cut_after = None
    get(site, tmp_path)


@pytest.mark.parametrize("content", [b"wrong", b""])
def test_wrong_bytes_are_refused_with_both_sums(site: Site, tmp_path: Path, content: bytes) -> None:
    site.content = content
    assert refusal(site, tmp_path) == (
        f"URL/file.bin has sha256 {hashlib.sha256(content).hexdigest()}, but the recipe wants {SUM}: the file was "
        "damaged on its way, or its publisher changed it; DIR/deep/file.bin was not written."
    )
    assert left(tmp_path) == []


def test_an_address_that_is_gone(site: Site, tmp_path: Path) -> None:
    site.statuses = [404]
    assert refusal(site, tmp_path) == (
        "Cannot download URL/file.bin: the server answers 404 (Not Found); check data.download, or bring the file with "
        "--from FOLDER."
    )
    assert len(site.requests) == 1


def test_a_server_in_trouble_is_asked_again(site: Site, tmp_path: Path) -> None:
    site.statuses = [503, 500]
    _, events = get(site, tmp_path)
    assert [event.text for event in events if isinstance(event, Notice)] == [
        "file.bin: the server answers 503 (Service Unavailable); attempt 2 of 3.",
        "file.bin: the server answers 500 (Internal Server Error); attempt 3 of 3.",
    ]
    site.statuses = [500, 500, 500]
    (tmp_path / "deep" / "file.bin").unlink()
    assert refusal(site, tmp_path) == (
        "Cannot download URL/file.bin: the server answers 500 (Internal Server Error) (3 attempts); check the network "
        "and try again, or bring the file with --from FOLDER."
    )


def test_redirects_are_followed_unless_they_have_no_end(site: Site, tmp_path: Path) -> None:
    get(site, tmp_path, name="moved.bin")
    (tmp_path / "deep" / "file.bin").unlink()
    assert refusal(site, tmp_path, name="loop") == (
        "Cannot download URL/loop: the server sends from address to address without an end."
    )


def test_no_connection(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/file.bin"
    with pytest.raises(DataError) as error:
        finish(download(url, tmp_path / "file.bin", SUM, QUICK))
    assert str(error.value) == (
        f"Cannot download {url}: no connection (Connection refused) (3 attempts); check the network and try again, or "
        "bring the file with --from FOLDER."
    )


def test_a_name_that_cannot_be_resolved(tmp_path: Path) -> None:
    """What a machine without a network says."""
    with pytest.raises(
        DataError, match=r"^Cannot download http://no-such-host.invalid/x: no connection \(.+\) \(3 attempts\);"
    ):
        finish(download("http://no-such-host.invalid/x", tmp_path / "x", SUM, QUICK))


def test_a_server_that_says_nothing(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/file.bin"
        with pytest.raises(DataError, match="the server does not answer"):
            finish(download(url, tmp_path / "file.bin", SUM, Patience(timeout=0.05, attempts=2, pause=0.0)))


def test_a_full_disk_leaves_what_can_be_resumed(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error itself comes from the disk; `mt.fetch` puts it into a sentence."""
    site.cut_after = 100_000

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    work = download(f"{site.url}/file.bin", tmp_path / "deep" / "file.bin", SUM, QUICK)
    monkeypatch.setattr("mt.corpora.partial.Partial.open", full)
    with pytest.raises(OSError, match="No space left"):
        finish(work)
    monkeypatch.undo()
    site.cut_after = None
    get(site, tmp_path)
