from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from edgekit.devices.channel import Channel, HungUpError, SilentError
from edgekit.processes import supervision

ECHO = """
import json, sys
for line in sys.stdin.buffer:
    message = json.loads(line)
    payload = sys.stdin.buffer.read(message.get("bytes", 0))
    sys.stdout.buffer.write(line + payload)
    sys.stdout.flush()
"""


def run(program: str, timeout: float = 10.0) -> Channel:
    return Channel([sys.executable, "-c", program], timeout)


def test_messages_and_payloads_go_there_and_back() -> None:
    large = bytes(range(256)) * 40_000
    with run(ECHO) as channel:
        for payload in (b"", b"\n{}\n", large):
            channel.send({"op": "run"}, payload)
            message, received = channel.receive()
            assert message["op"] == "run"
            assert received == payload
        assert channel.close() == 0


def test_who_watches_is_told_how_long_a_program_may_be_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """An emulator answers late, and the limit of a stage's time is shorter than what the program may take."""
    told: list[Mapping[str, Any]] = []
    monkeypatch.setattr(supervision, "_listener", told.append)
    with run(f"import time; time.sleep(2)\n{ECHO}", timeout=90) as channel:
        channel.send({"op": "run"})
        assert channel.receive()[0]["op"] == "run"
    assert {"patience": 90} in told
    assert told[-1] == {}


def test_what_is_printed_before_the_first_message_is_passed_over() -> None:
    with run("print('Welcome'); print('{\"ready\": true}')") as channel:
        assert channel.receive() == ({"ready": True}, b"")


@pytest.mark.parametrize(
    ("program", "code", "words"),
    [
        ("import sys; sys.exit('no room')", 1, "no room"),
        ("print('This account is not available.'); raise SystemExit(3)", 3, "This account is not available."),
        ("raise SystemExit(4)", 4, "it ended with exit code 4"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -9, "it ended with exit code -9"),
    ],
)
def test_an_end_tells_the_exit_code_and_the_last_words(program: str, code: int, words: str) -> None:
    with run(program) as channel, pytest.raises(HungUpError) as caught:
        channel.receive()
    assert (caught.value.code, caught.value.last_words) == (code, words)


def test_a_program_that_ends_while_something_is_sent_is_heard_first() -> None:
    with run('print(\'{"error": "no room"}\')') as channel:
        channel.send({}, bytes(10_000_000))
        assert channel.receive() == ({"error": "no room"}, b"")


def exchange(channel: Channel, payload: bytes) -> None:
    channel.send({}, payload)
    channel.receive()


@pytest.mark.parametrize("payload", [b"", bytes(10_000_000)])
def test_silence_has_a_limit(payload: bytes) -> None:
    start = time.monotonic()
    with run("import time; time.sleep(60)", 0.3) as channel, pytest.raises(SilentError):
        exchange(channel, payload)
    assert time.monotonic() - start < 5


def test_it_runs_in_a_folder_with_an_environment(tmp_path: Path) -> None:
    program = "import json, os; print(json.dumps({'folder': os.getcwd(), 'value': os.environ['VALUE']}))"
    with Channel([sys.executable, "-c", program], 10, folder=tmp_path, environment={"VALUE": "7"}) as channel:
        assert channel.receive()[0] == {"folder": str(tmp_path), "value": "7"}
