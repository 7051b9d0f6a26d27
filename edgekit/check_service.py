"""Runs a bundle's model for a host that sends the inputs and compares the outputs itself: ``python check.py --serve``.

EdgeKit ships this file in its bundles as it stands: it needs nothing but NumPy and the standard library.

The host speaks on standard input, the service answers on standard output. A message is one line of JSON, followed by
as many bytes as its ``bytes`` says: arrays in NumPy's ``.npz`` format, named by their positions in the manifest. The
service speaks first, once the model is loaded; a request that fails is answered with ``error``, and the next one may
follow.

=================================================  ==================================================================
request                                            answer
=================================================  ==================================================================
(none)                                             ``{"runtime": …, "settings": {…}, "load_ms": …}``
``{"op": "run", "bytes": n}`` and inputs           ``{"bytes": n}`` and outputs
``{"op": "time", "runs": r, "warm_up": w, …}``     ``{"milliseconds": […], "peak_memory": …}``
and inputs, or those of before without ``bytes``
=================================================  ==================================================================
"""

from __future__ import annotations

import io
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

Execute = Callable[[Sequence[np.ndarray]], Sequence[np.ndarray]]
"""Outputs in the manifest's order for inputs in the manifest's order."""


@dataclass
class OpenModel:
    """A bundle's model in the runtime of the device."""

    execute: Execute
    runtime: str
    """What executes: runtime, version, unit, precision, threads."""
    settings: dict[str, str] = field(default_factory=dict)
    """What was pinned."""


def serve(open_model: Callable[[], OpenModel]) -> int:
    """Answer the host until it hangs up."""
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a runtime prints is no answer
    start = time.perf_counter()
    model = open_model()
    load_ms = (time.perf_counter() - start) * 1e3
    runtime = f"{model.runtime}, on {platform.system()} {platform.machine()}"
    _answer(answers, {"runtime": runtime, "settings": model.settings, "load_ms": load_ms})
    inputs: list[np.ndarray] = []
    for line in requests:
        request = json.loads(line)
        if request.get("bytes"):
            inputs = unpack(requests.read(request["bytes"]))
        try:
            if request["op"] == "run":
                _answer(answers, {}, pack(model.execute(inputs)))
            else:
                times = run_times(partial(model.execute, inputs), request["runs"], request["warm_up"])
                _answer(answers, {"milliseconds": times, "peak_memory": peak_memory()})
        except Exception as error:  # whatever a runtime raises, the host is to be told
            _answer(answers, {"error": f"{type(error).__name__}: {error}"})
    return 0


def run_times(run: Callable[[], object], runs: int, warm_up: int) -> list[float]:
    """Milliseconds of each run, after some that do not count."""
    for _ in range(warm_up):
        run()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        run()
        times.append((time.perf_counter() - start) * 1e3)
    return times


def peak_memory() -> int | None:
    """The most bytes that this process has had in memory; None where the system does not tell."""
    status = Path("/proc/self/status")
    if status.is_file():  # what getrusage tells on Linux includes the process that started this one
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        return int(lines["VmHWM"].split()[0]) * 1024 if "VmHWM" in lines else None
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def pack(arrays: Sequence[np.ndarray]) -> bytes:
    """Arrays as the bytes of an ``.npz`` file; texts, which NumPy keeps as objects, in its own type for them."""
    stream = io.BytesIO()
    named = {str(position): np.asarray(array) for position, array in enumerate(arrays)}
    np.savez(
        stream,
        **{name: array.astype(str) if array.dtype.kind == "O" else array for name, array in named.items()},  # type: ignore[arg-type]  # no array is called allow_pickle
    )
    return stream.getvalue()


def unpack(data: bytes) -> list[np.ndarray]:
    """The arrays that :func:`pack` packed."""
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        loaded = [arrays[str(position)] for position in range(len(arrays.files))]
    return [array.astype(object) if array.dtype.kind == "U" else array for array in loaded]


def _answer(stream: BinaryIO, message: dict[str, Any], payload: bytes = b"") -> None:
    if payload:
        message = {**message, "bytes": len(payload)}
    stream.write(json.dumps(message).encode() + b"\n" + payload)
    stream.flush()
