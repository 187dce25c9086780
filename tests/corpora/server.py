"""A web server on this machine that misbehaves as asked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar


@dataclass
class Site:
    """What the server holds and how it answers; `requests` keeps the Range header of each request, or ''."""

    content: bytes = b""
    cut_after: int | None = None
    """Close the connection after this many bytes of each answer."""
    statuses: list[int] = field(default_factory=list)
    """Answer the next requests with these codes, before it behaves."""
    ignore_range: bool = False
    misplace_range: bool = False
    """Answer a range with the bytes after it."""
    tag: str | None = '"v1"'
    chunked: bool = False
    requests: list[str] = field(default_factory=list)
    url: str = ""


class _Handler(BaseHTTPRequestHandler):
    site: ClassVar[Site]

    def do_GET(self) -> None:
        site = self.site
        site.requests.append(self.headers.get("Range", ""))
        if site.statuses:
            self._status(site.statuses.pop(0))
        elif self.path.startswith("/loop"):
            self._redirect(self.path)
        elif self.path.startswith("/moved"):
            self._redirect("/file.bin")
        else:
            self._content(site)

    def _status(self, code: int) -> None:
        self.send_response(code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _redirect(self, to: str) -> None:
        self.send_response(302)
        self.send_header("Location", to)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _content(self, site: Site) -> None:
        start = self._start(site)
        if start >= len(site.content) > 0:
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(site.content)}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(206 if start else 200)
        if start:
            start += site.misplace_range
            self.send_header("Content-Range", f"bytes {start}-{len(site.content) - 1}/{len(site.content)}")
        if site.tag:
            self.send_header("ETag", site.tag)
        self._body(site, site.content[start:])

    def _start(self, site: Site) -> int:
        wanted = self.headers.get("Range", "")
        if site.ignore_range or not wanted or self.headers.get("If-Range", site.tag) != site.tag:
            return 0
        return int(wanted.removeprefix("bytes=").split("-")[0])

    def _body(self, site: Site, body: bytes) -> None:
        if site.chunked:
            self.send_header("Transfer-Encoding", "chunked")
            body = (
                b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:100], body[100:]) if part)
                + b"0\r\n\r\n"
            )
        else:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body if site.cut_after is None else body[: site.cut_after])
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Be quiet."""


@contextmanager
def serve(site: Site) -> Iterator[Site]:
    """Serve `site` at `site.url` for as long as the block runs."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"site": site}))
    run: Callable[[], None] = lambda: server.serve_forever(poll_interval=0.01)  # noqa: E731
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    site.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
