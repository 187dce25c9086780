"""Take files out of zip and tar archives."""

from __future__ import annotations

import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from mt.errors import DataError
from mt.text.codecs import decompressed
from mt.text.files import write_aside

Opener = Callable[[str], IO[bytes]]


def extract(archive: Path, members: Sequence[str], folder: Path) -> None:
    """Write each of `members` below `folder`, under the name it has in the archive; one that is there is written over.

    DataError for a file that is no archive or is damaged, and for a member that is absent or is no plain file.
    """
    try:
        with _open(archive) as open_member:
            for member in members:
                with open_member(member) as inside, write_aside(folder / member) as outside:
                    while data := inside.read(1 << 20):
                        outside.write(data)
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, RuntimeError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"{archive} cannot be unpacked: {reason}; delete it and fetch it again.") from None


@contextmanager
def _open(archive: Path) -> Iterator[Opener]:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as opened:
            names = {info.filename for info in opened.infolist() if not info.is_dir()}
            yield lambda member: opened.open(_known(archive, member, names))
    elif tarfile.is_tarfile(archive):
        for _ in decompressed(archive):  # tarfile does not read as far as the checksum of a compressed archive
            pass
        with tarfile.open(archive) as opened_tar:
            files = {info.name: info for info in opened_tar if info.isfile()}
            yield lambda member: _plain(opened_tar.extractfile(files[_known(archive, member, files.keys())]))
    else:
        raise DataError(f"{archive} is no whole zip or tar archive; delete it and fetch it again.")


def _known(archive: Path, member: str, names: Iterable[str]) -> str:
    listed = sorted(names)
    if member in listed:
        return member
    raise DataError(
        f"{archive} holds no file '{member}', which data.download.members names; it holds {', '.join(listed[:10])}"
        f"{', ...' if len(listed) > 10 else ''}."
    )


def _plain(file: IO[bytes] | None) -> IO[bytes]:
    assert file is not None  # only plain files are listed
    return file
