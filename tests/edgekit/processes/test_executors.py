from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import pytest

from edgekit.errors import InputError
from edgekit.processes.executors import open_executor

NOBODY = "tcp://127.0.0.1:1"
INTERRUPTED = """
import os, sys, tempfile, time
from pathlib import Path
from edgekit.processes.executors import open_executor

def busy(number):
    Path(tempfile.mkdtemp(), "work").touch()
    Path(sys.argv[1], f"{number}.pid").write_text(str(os.getpid()))
    time.sleep(60)

if __name__ == "__main__":
    with open_executor(2) as executor:
        list(executor.map(busy, range(2)))
"""


def test_one_process_is_this_one() -> None:
    with open_executor() as executor:
        assert executor is None


@pytest.mark.slow
def test_the_work_is_done_elsewhere_in_a_folder_that_goes() -> None:
    with open_executor(2) as executor:
        assert executor is not None
        places = list(executor.map(tempfile.mkdtemp, ["a", "b", "c"]))
        pids = {executor.submit(os.getpid).result() for _ in range(3)}
        assert all(Path(place).is_dir() for place in places)
    assert os.getpid() not in pids
    assert not any(Path(place).parent.exists() for place in places)


@pytest.mark.slow
def test_a_worker_that_dies_is_told(tmp_path: Path) -> None:
    with open_executor(2) as executor:
        assert executor is not None
        with pytest.raises(BrokenProcessPool):
            executor.submit(os.abort).result()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "kill"])
def test_when_the_parent_ends_so_do_the_workers(number: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "interrupted.py").write_text(INTERRUPTED)
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    parent = subprocess.Popen(
        [sys.executable, str(tmp_path / "interrupted.py"), str(tmp_path)],
        stderr=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    files = [tmp_path / "0.pid", tmp_path / "1.pid"]
    assert _soon(lambda: all(file.exists() and file.read_text() for file in files))
    parent.send_signal(number)
    _, errors = parent.communicate(timeout=20)
    assert _soon(lambda: not any(Path(f"/proc/{file.read_text()}").exists() for file in files))
    if number == signal.SIGINT:
        assert errors.decode().rstrip().endswith("KeyboardInterrupt")
        assert list(temporary.iterdir()) == []


def _soon(condition: Any) -> bool:
    end = time.monotonic() + 20
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0,), "--workers: cannot be used\nexpected: 1 or more\nfound: 0"),
        ((2, NOBODY), "--workers 2: is for this machine, --cluster for others"),
        ((1, "nonsense://x"), "--cluster nonsense://x: the cluster cannot be reached"),
    ],
)
def test_what_cannot_be_opened_is_refused(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InputError) as caught, open_executor(*arguments):
        pass
    assert str(caught.value).startswith(message)


@pytest.mark.slow
def test_a_cluster_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgekit.processes.executors.CONNECT_S", 0.5)
    with (
        pytest.raises(InputError, match=r"--cluster \S+:1: the cluster cannot be reached"),
        open_executor(cluster=NOBODY),
    ):
        pass


def test_a_cluster_needs_dask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    hint = r"needs Dask, which is not installed\nhint: pip install 'distributed>=2024.8'"
    with pytest.raises(InputError, match=hint), open_executor(cluster=NOBODY):
        pass


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The scheduler's address of a Dask cluster of two processes on this machine."""
    distributed = pytest.importorskip("distributed", reason="Dask is not installed (pip install 'distributed>=2024.8')")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
    ) as started:
        yield started.scheduler_address


@pytest.mark.slow
def test_a_cluster_does_the_work(cluster: str) -> None:
    with open_executor(cluster=cluster) as executor:
        assert executor is not None
        assert os.getpid() not in {executor.submit(os.getpid).result(timeout=30) for _ in range(2)}
