from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from edgekit_onnxruntime.browser.server import PageGoneError, PageServer
from edgekit_onnxruntime.browser.wire import Message


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PageServer]:
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "page.html").write_text("hello")
    (tmp_path / "secret.txt").write_text("not for you")
    served = PageServer({"page": tmp_path / "page"})
    with served.running():
        yield served


def request(
    server: PageServer, method: str, path: str, body: bytes = b""
) -> tuple[int, bytes, http.client.HTTPMessage]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request(method, path, body=body)
    response = connection.getresponse()
    answer = response.status, response.read(), response.headers
    connection.close()
    return answer


def test_it_serves_the_folders_to_who_knows_the_secret(server: PageServer) -> None:
    status, content, headers = request(server, "GET", f"/{server.secret}/page/page.html")
    assert (status, content) == (200, b"hello")
    # The two headers that make a page cross-origin isolated: https://web.dev/articles/coop-coep
    assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert headers["Cross-Origin-Embedder-Policy"] == "require-corp"


@pytest.mark.parametrize(
    "path",
    [
        "/page/page.html",
        "/wrong/page/page.html",
        "/{secret}/page/../secret.txt",
        "/{secret}/page/%2e%2e/secret.txt",
        "/{secret}/page/..",
        "/{secret}/page/",
        "/{secret}/elsewhere/page.html",
        "/{secret}",
        "/",
    ],
)
def test_it_serves_nothing_else(path: str, server: PageServer) -> None:
    assert request(server, "GET", path.format(secret=server.secret))[:2] == (404, b"")


def test_work_is_for_who_knows_the_secret(server: PageServer) -> None:
    assert request(server, "POST", "/wrong/work")[0] == 404


def test_the_page_gets_work_and_brings_answers(server: PageServer) -> None:
    def page() -> None:
        _, content, _ = request(server, "POST", f"/{server.secret}/work")
        doubled = 2 * Message.decode(content).arrays["x"]
        request(server, "POST", f"/{server.secret}/work", Message({"done": True}, {"y": doubled}).encode())

    thread = threading.Thread(target=page)
    thread.start()
    answer = server.exchange.ask(Message({}, {"x": np.arange(3)}), 10, lambda: False)
    assert answer.record == {"done": True}
    assert answer.arrays["y"].tolist() == [0, 2, 4]
    server.exchange.end()
    thread.join(10)
    assert not thread.is_alive()


def test_a_page_that_ends_is_noticed(server: PageServer) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    connection.request("GET", f"/{server.secret}/alive")
    threading.Timer(0.1, connection.close).start()
    with pytest.raises(PageGoneError):
        server.exchange.ask(Message({}), 10, lambda: False)


def test_a_browser_that_ends_is_noticed(server: PageServer) -> None:
    with pytest.raises(PageGoneError):
        server.exchange.ask(Message({}), 10, lambda: True)


def test_a_page_that_gives_no_answer_is_given_up(server: PageServer) -> None:
    with pytest.raises(TimeoutError):
        server.exchange.ask(Message({}), 0.1, lambda: False)
