"""Files out of zip and tar archives, whole and damaged."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from mt.corpora.archive import extract
from mt.errors import DataError

TEXT = "Straße\n".encode() * 1000
NOISE = Random(1).randbytes(200_000)


def make_zip(path: Path, files: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("folder/", b"")
        for name, data in files.items():
            archive.writestr(name, data)


def make_tar(path: Path, files: dict[str, bytes], mode: str = "w:gz") -> None:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)


MAKERS: dict[str, Callable[[Path, dict[str, bytes]], None]] = {"zip": make_zip, "tar.gz": make_tar}


@pytest.fixture(params=list(MAKERS))
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / f"corpus.{request.param}"
    MAKERS[request.param](path, {"a.txt": TEXT, "deep/b.txt": NOISE, "c.txt": b""})
    return path


def test_members_come_out_under_their_own_names(archive: Path, tmp_path: Path) -> None:
    extract(archive, ["deep/b.txt", "a.txt", "c.txt"], tmp_path / "out")
    files = {
        path.relative_to(tmp_path / "out").as_posix(): path.read_bytes() for path in (tmp_path / "out").rglob("*.txt")
    }
    assert files == {"a.txt": TEXT, "deep/b.txt": NOISE, "c.txt": b""}


def test_an_absent_member_is_named_with_what_there_is(archive: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        extract(archive, ["d.txt"], tmp_path / "out")
    assert str(error.value) == (
        f"{archive} holds no file 'd.txt', which data.download.members names; it holds a.txt, c.txt, deep/b.txt."
    )


def test_a_link_is_no_file(tmp_path: Path) -> None:
    make_tar(tmp_path / "x.tar", {"a": b"a"}, "w")
    with pytest.raises(DataError, match="holds no file 'link'"):
        extract(tmp_path / "x.tar", ["link"], tmp_path / "out")


@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_a_damaged_archive_leaves_no_half_member(archive: Path, tmp_path: Path, damage: str) -> None:
    data = bytearray(archive.read_bytes())
    if damage == "cut":
        data = data[: len(data) // 2]
    else:
        data[len(data) // 2] ^= 0xFF
    archive.write_bytes(data)
    with pytest.raises(
        DataError, match=r"^\S+ (cannot be unpacked|is no whole zip or tar archive|is cut off|is damaged)\b.* again\.$"
    ):
        extract(archive, ["deep/b.txt"], tmp_path / "out")
    assert list((tmp_path / "out").rglob("*.*")) == []


def test_what_is_no_archive(tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_bytes(b"<html>Not Found</html>")
    with pytest.raises(DataError, match=r"x\.zip is no whole zip or tar archive; delete it and fetch it again\.$"):
        extract(tmp_path / "x.zip", ["a.txt"], tmp_path)
