"""Download a file over HTTP: resumed where it stopped, checked, and under its final name only when it is whole.

Bytes gather in `NAME.part`; `NAME.part.json` remembers which version of the file they belong to (RFC 9110, sections
13.1.5 If-Range and 14.4 Content-Range), so that a later run can go on where this one was stopped.
"""

from __future__ import annotations

import http.client
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from mt import __version__
from mt.corpora.partial import MisfitError, Partial
from mt.errors import DataError
from mt.events import Event, Notice, Progress
from mt.text.files import make_folder

# Some publishers refuse the default of Python's library.
USER_AGENT = f"Mozilla/5.0 (compatible; mt-toolkit/{__version__})"
_CHUNK = 1 << 16
_BROKEN = (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError, ssl.SSLError)
_AGAIN = (408, 425, 429, 500, 502, 503, 504)


@dataclass(frozen=True)
class Patience:
    """How long a download waits, in seconds, and how often it tries again without getting any further."""

    timeout: float = 30.0
    attempts: int = 5
    pause: float = 1.0
    """Before the second attempt; doubled before each further one."""


class _InterruptedError(Exception):
    """The connection failed in a way that another attempt may mend; the message says how."""


def download(url: str, path: Path, sha256: str | None, patience: Patience) -> Generator[Event, None, str]:
    """Bring `url` to `path` and return its checksum. DataError, in one sentence, where that cannot be done."""
    make_folder(path.parent)
    partial = Partial(path, url, pinned=sha256 is not None)
    resumed = partial.size > 0
    yield from _gather(partial, patience)
    found = partial.sha256()
    if resumed and sha256 not in (None, found):  # the publisher's file may have changed in between
        yield Notice(f"{path.name}: what was resumed does not fit the checksum; fetched again from its start.")
        partial.discard()
        yield from _gather(partial, patience)
        found = partial.sha256()
    if sha256 not in (None, found):
        partial.discard()
        raise DataError(
            f"{url} has sha256 {found}, but the recipe wants {sha256}: the file was damaged on its way, or its "
            f"publisher changed it; {path} was not written."
        )
    partial.finish()
    return found


def _gather(partial: Partial, patience: Patience) -> Generator[Event, None, None]:
    """Fill the partial file; attempts count only while no byte beyond the farthest was won."""
    failures, farthest = 0, partial.size
    while True:
        try:
            yield from _attempt(partial, patience)
            return
        except _InterruptedError as error:
            failures = failures + 1 if partial.size <= farthest else 1
            farthest = max(farthest, partial.size)
            if failures >= patience.attempts:
                raise DataError(
                    f"Cannot download {partial.url}: {error} ({failures} attempts); check the network and try again"
                    f"{', it goes on where it stopped' if partial.size else ''}, or bring the file with --from FOLDER."
                ) from None
            yield Notice(f"{partial.path.name}: {error}; attempt {failures + 1} of {patience.attempts}.")
            time.sleep(patience.pause * 2 ** (failures - 1))


def _attempt(partial: Partial, patience: Patience) -> Generator[Event, None, None]:
    """One request: the rest of the file where the server gives it, else the whole."""
    request = urllib.request.Request(partial.url, headers={"User-Agent": USER_AGENT, **partial.headers()})
    try:
        with urllib.request.urlopen(request, timeout=patience.timeout) as response:
            total = partial.accept(response.status, response.headers)
            with partial.open() as file:
                yield from _receive(response, file, partial, total)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code != 416 or not partial.is_whole(error.headers):
            _refuse(error, partial)
    except MisfitError:
        raise _InterruptedError("the server sent another range than the one asked for") from None
    except _BROKEN as error:
        raise _InterruptedError(_in_words(error)) from None


def _receive(
    response: http.client.HTTPResponse, file: BinaryIO, partial: Partial, total: int | None
) -> Generator[Event, None, None]:
    done = file.tell()
    for data in _chunks(response):
        file.write(data)
        done += len(data)
        yield Progress(f"fetch {partial.path.name}", done, total, "bytes")
    file.flush()
    if total is not None and done < total:
        raise _InterruptedError(f"the connection ended after {done} of {total} bytes")


def _chunks(response: http.client.HTTPResponse) -> Iterator[bytes]:
    while data := response.read(_CHUNK):
        yield data


def _refuse(error: urllib.error.HTTPError, partial: Partial) -> None:
    """Try again what may pass; the rest is final."""
    if error.code == 416:  # the range asked for lies behind the file's end: these bytes belong to another version
        partial.discard()
        raise _InterruptedError("the server's file is shorter than what was fetched of it")
    if error.code in _AGAIN:
        raise _InterruptedError(f"the server answers {error.code} ({error.reason})")
    if 300 <= error.code < 400:
        raise DataError(f"Cannot download {partial.url}: the server sends from address to address without an end.")
    raise DataError(
        f"Cannot download {partial.url}: the server answers {error.code} ({error.reason}); check data.download, or "
        "bring the file with --from FOLDER."
    )


def _in_words(error: Exception) -> str:
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, TimeoutError):
        return "the server does not answer"
    if isinstance(cause, OSError):
        return f"no connection ({cause.strerror or cause})"
    return f"the connection broke ({type(cause).__name__})"
