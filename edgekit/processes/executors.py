"""Other processes that take a part of the work, on this machine or on a Dask cluster, as an executor.

Both are passed on as :class:`concurrent.futures.Executor`, so that callers need not know which one it is.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager

from edgekit.errors import InputError
from edgekit.files.atomic import temporary_folder
from edgekit.processes.main_module import main_file, require_guarded, unguarded

CONNECT_S = 10.0
"""Seconds that a cluster's scheduler has to answer."""


@contextmanager
def open_executor(processes: int = 1, cluster: str | None = None) -> Iterator[Executor | None]:
    """The requested executor; None if all work stays in this process.

    When the context ends, all work that was given to the executor ends, and so do the processes that were started.

    Args:
        processes: How many processes to start on this machine; 1 starts none.
        cluster: The address of a Dask cluster's scheduler, such as ``tcp://10.0.0.1:8786``.

    Raises:
        InputError: Both are asked for, Dask is not installed, or the cluster cannot be reached.
    """
    if cluster is not None and processes != 1:
        raise InputError("is for this machine, --cluster for others", subject=f"--workers {processes}")
    if processes < 1:
        raise InputError("cannot be used", subject="--workers", expected="1 or more", found=processes)
    if cluster is not None:
        with _cluster(cluster) as executor:
            yield executor
    elif processes > 1:
        with _processes(processes) as executor:
            yield executor
    else:
        yield None


@contextmanager
def _processes(count: int) -> Iterator[Executor]:
    """A pool of new processes. Their temporary files are in one folder, which is removed after they have ended."""
    require_guarded()
    others = set(multiprocessing.active_children())
    with temporary_folder() as folder:
        context = multiprocessing.get_context("spawn")  # a fork would copy this process with its threads' locks
        pool = ProcessPoolExecutor(count, context, _begin, (str(folder),))
        try:
            _require_started(pool)
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in set(multiprocessing.active_children()) - others:
                process.terminate()
            raise
        finally:
            pool.shutdown()


def _require_started(pool: ProcessPoolExecutor) -> None:
    """Waits for the first process, which imports the main module.

    Raises:
        InputError: The process ended while it imported that module.
    """
    try:
        pool.submit(os.getpid).result()
    except BrokenProcessPool as error:
        if main_file() is None:
            raise
        raise unguarded() from error


def _begin(folder: str) -> None:
    """Prepares a worker: it leaves Ctrl-C to its parent, and does not outlive it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    tempfile.tempdir = folder
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def _cluster(address: str) -> Iterator[Executor]:
    try:
        from distributed import Client
    except ImportError as error:
        raise InputError(
            "needs Dask, which is not installed",
            subject=f"--cluster {address}",
            hint="pip install 'distributed>=2024.8'",
        ) from error
    try:
        client = Client(address, timeout=CONNECT_S, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InputError(
            f"the cluster cannot be reached: {error}",
            subject=f"--cluster {address}",
            expected="the address of a running Dask scheduler, such as tcp://10.0.0.1:8786",
        ) from error
    with client:
        executor = client.get_executor(pure=False)
        try:
            yield executor
        finally:
            executor.shutdown(wait=False)
