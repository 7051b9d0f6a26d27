"""The loopback server that the browser device's page talks to.

It listens on 127.0.0.1, answers only requests whose path begins with a secret of the server, and isolates the page from
other origins, which makes the browser's clock precise. The page asks for work by POST: the request contains the answer
to the previous work, and the response waits until there is more work. One request is never answered: its connection
ends when the page ends, for whatever reason.
"""

from __future__ import annotations

import queue
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import BaseServer
from typing import Any

from edgekit_onnxruntime.browser.wire import Message

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".mjs": "text/javascript",
    ".js": "text/javascript",
    ".wasm": "application/wasm",
}
POLL_SECONDS = 0.5
"""The interval at which a wait checks whether the page, or the device, is still there."""


class PageGoneError(Exception):
    """The page ended before it answered."""


class Exchange:
    """Passes work to the page, and its answers back."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._gone = threading.Event()

    def ask(self, work: Message, seconds: float, has_ended: Callable[[], bool]) -> Message:
        """The page's answer to a piece of work.

        Args:
            work: The work.
            seconds: How long the page may take.
            has_ended: Whether the browser has ended.

        Raises:
            PageGoneError: The page ended.
            TimeoutError: The page did not answer in time.
        """
        self._work.put(work)
        waited = 0.0
        while waited < seconds:
            try:
                return self._answers.get(timeout=POLL_SECONDS)
            except queue.Empty:
                waited += POLL_SECONDS
                if self._gone.is_set() or has_ended():
                    raise PageGoneError from None
        raise TimeoutError

    def end(self) -> None:
        """Record that the page has ended, or is to end."""
        self._gone.set()

    def next_work(self, answer: Message | None) -> Message | None:
        """The next work for the page, as soon as there is some; None once there will be no more.

        Args:
            answer: The page's answer to the previous work; None for the first request.
        """
        if answer is not None:
            self._answers.put(answer)
        while not self._gone.is_set():
            try:
                return self._work.get(timeout=POLL_SECONDS)
            except queue.Empty:
                continue
        return None


class PageServer:
    """Serves folders to one page.

    Args:
        folders: The folders to serve, by the first part of the path; their subfolders are not served.
    """

    def __init__(self, folders: Mapping[str, Path]) -> None:
        self.folders = dict(folders)
        self.exchange = Exchange()
        self.secret = secrets.token_urlsafe(32)
        self.port = 0

    def url(self, folder: str, file: str) -> str:
        """The address of a served file."""
        return f"http://127.0.0.1:{self.port}/{self.secret}/{folder}/{file}"

    @contextmanager
    def running(self) -> Iterator[None]:
        """Listens on a free port of 127.0.0.1 until the context is left."""
        with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, page_server=self)) as server:
            server.daemon_threads = True  # a request that is never answered must not keep the process
            server.block_on_close = False
            self.port = server.server_port
            thread = threading.Thread(target=server.serve_forever, args=(POLL_SECONDS / 10,), daemon=True)
            thread.start()
            try:
                yield
            finally:
                self.exchange.end()
                server.shutdown()
                thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else the head and the body of a response are 40 ms apart

    def __init__(self, request: Any, client_address: Any, server: BaseServer, *, page_server: PageServer) -> None:
        self._page = page_server
        super().__init__(request, client_address, server)

    def do_GET(self) -> None:
        """Serves a file, or the request whose connection shows that the page is alive."""
        inside = self._inside()
        if inside == "alive":
            self.close_connection = True
            with suppress(ConnectionError):
                self.rfile.read(1)  # the page sends nothing more: this returns when the connection ends
            self._page.exchange.end()
            return
        folder, _, name = inside.partition("/")
        file = self._page.folders.get(folder, Path()) / name
        if folder not in self._page.folders or Path(name).name != name or not file.is_file():
            self._send(HTTPStatus.NOT_FOUND, b"")
            return
        self._send(HTTPStatus.OK, file.read_bytes(), TYPES.get(file.suffix, "application/octet-stream"))

    def do_POST(self) -> None:
        """Receives the answer to the previous work, and responds with the next work."""
        content = self.rfile.read(int(self.headers["Content-Length"]))
        if self._inside() != "work":
            self._send(HTTPStatus.NOT_FOUND, b"")
            return
        work = self._page.exchange.next_work(Message.decode(content) if content else None)
        self._send(HTTPStatus.OK if work else HTTPStatus.NO_CONTENT, work.encode() if work else b"")

    def _inside(self) -> str:
        """The path behind the secret; empty if the secret is wrong or missing."""
        _, secret, *rest = self.path.partition("?")[0].split("/", 2)
        return rest[0] if rest and secrets.compare_digest(secret.encode(), self._page.secret.encode()) else ""

    def _send(self, status: HTTPStatus, content: bytes, kind: str = "application/octet-stream") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        with suppress(ConnectionError):  # the page has ended, which the other connection shows
            self.end_headers()
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class calls it so
        """Logs nothing: the page reports what goes wrong."""
