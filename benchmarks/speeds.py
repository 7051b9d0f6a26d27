"""Measures how much faster quantized files are than the float model, for several numbers of threads and streams.

    python benchmarks/speeds.py [NAME ...] --work DIR [--threads 1,2,4] [--streams N] [--json FILE]

The files are those that quantizers.py left in --work: a folder for each task. A file of EdgeKit's is measured on the
runtime that it was made for, those of NNCF and of ONNX Runtime's tool on both. The float model and all files of a task
take turns in one process, at batch 1; cells are float32 / quantized, above 1 is faster. --streams measures how many
inferences a second N streams of one thread each make together, in turns of a second.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from quantizers import RUNTIMES, feeds_of

from edgekit.timing.latency import measure_in_turns

FLOAT = "float"
TOOLS = ("edgekit", "nncf", "onnxruntime")
STREAM_TURNS, TURN_SECONDS = 7, 1.0

Feeds = Mapping[str, np.ndarray]
Infer = Callable[[], object]


def files_of(folder: Path, runtime: str) -> dict[str, Path]:
    """The float model and the existing files of the tools, by name."""
    named = {FLOAT: folder / "base.onnx"}
    named |= {tool: folder / (f"edgekit-{runtime}.onnx" if tool == "edgekit" else f"{tool}.onnx") for tool in TOOLS}
    return {name: file for name, file in named.items() if file.is_file()}


def by_onnxruntime(file: Path, feeds: Feeds, threads: int) -> Callable[[], Infer]:
    """Returns a factory of functions that make one inference; several of these functions may run at the same time."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 4
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # sessions take turns
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    taken = {value.name for value in session.get_inputs()}
    given = {name: array for name, array in feeds.items() if name in taken}
    return lambda: lambda: session.run(None, given)


def by_openvino(file: Path, feeds: Feeds, threads: int, streams: int = 1) -> Callable[[], Infer]:
    """Returns a factory of functions that make one inference, each with its own request; floats are float32."""
    import onnx
    import openvino

    graph = onnx.load(file, load_external_data=False).graph
    constants = {value.name for value in graph.initializer}
    given = [feeds[value.name] for value in graph.input if value.name not in constants]
    settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": streams}
    model = openvino.Core().compile_model(str(file), "CPU", settings)

    def infer() -> Infer:
        request = model.create_infer_request()
        return lambda: request.infer(given)

    return infer


def speedups(runtime: str, files: Mapping[str, Path], feeds: Feeds, threads: int) -> dict[str, float]:
    """The float model's latency over each file's, by medians of runs in turns."""
    opened = by_onnxruntime if runtime == "onnxruntime" else by_openvino
    times = measure_in_turns({name: opened(file, feeds, threads)() for name, file in files.items()})
    medians = {name: latency.percentile(50) for name, latency in times.items()}
    return {name: medians[FLOAT] / median for name, median in medians.items() if name != FLOAT}


def gains(runtime: str, files: Mapping[str, Path], feeds: Feeds, streams: int) -> dict[str, float]:
    """Inferences per second of each file over the float model's, with streams that are always busy."""
    sources = {
        name: by_onnxruntime(file, feeds, 1) if runtime == "onnxruntime" else by_openvino(file, feeds, streams, streams)
        for name, file in files.items()
    }
    requests = {name: [source() for _ in range(streams)] for name, source in sources.items()}
    rates: dict[str, list[float]] = {name: [] for name in files}
    with ThreadPoolExecutor(streams) as pool:
        for turn in range(STREAM_TURNS + 1):
            for name, calls in requests.items():
                end = time.perf_counter() + TURN_SECONDS
                made = sum(pool.map(lambda call, end=end: _count_until(end, call), calls))
                if turn:  # the first turn warms up
                    rates[name].append(made / TURN_SECONDS)
    medians = {name: statistics.median(made) for name, made in rates.items()}
    return {name: median / medians[FLOAT] for name, median in medians.items() if name != FLOAT}


def _count_until(end: float, call: Infer) -> float:
    """Counts the inferences until a time; the last one counts by the share of it that lies before that time."""
    count = 0.0
    while True:
        start = time.perf_counter()
        call()
        done = time.perf_counter()
        if done >= end:
            return count + max(0.0, end - start) / (done - start)
        count += 1


def rows(names: Sequence[str], work: Path, threads: Sequence[int], streams: int) -> Iterator[dict[str, Any]]:
    """A row for each task, runtime and setting."""
    for name in names:
        folder = work / name
        samples = next(path for path in (folder / "test", folder / "calib") if path.is_dir())
        feeds = next(feeds_of(samples))
        for runtime in RUNTIMES:
            files = files_of(folder, runtime)
            for count in threads:
                found = speedups(runtime, files, feeds, count)
                yield {"task": name, "runtime": runtime, "setting": f"{count} threads", "faster": found}
            if streams:
                found = gains(runtime, files, feeds, streams)
                yield {"task": name, "runtime": runtime, "setting": f"{streams} streams", "faster": found}


def main() -> int:
    """Print rows as they come, then the geometric means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="folders of --work; all where none is named")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--threads", default="1,2,4")
    parser.add_argument("--streams", type=int, default=0, metavar="N", help="measure N streams as well")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    names = options.names or sorted(file.parent.name for file in options.work.glob("*/base.onnx"))
    means: dict[tuple[str, str, str], list[float]] = {}
    sys.stdout.write(" | ".join(["task", "runtime", "setting", *TOOLS]) + "\n")
    for row in rows(names, options.work, [*map(int, options.threads.split(","))], options.streams):
        cells = [f"{row['faster'][tool]:.2f}" if tool in row["faster"] else "" for tool in TOOLS]
        sys.stdout.write(" | ".join([row["task"], row["runtime"], row["setting"], *cells]) + "\n")
        sys.stdout.flush()
        if options.json is not None:
            with options.json.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(row) + "\n")
        for tool, ratio in row["faster"].items():
            means.setdefault((row["runtime"], row["setting"], tool), []).append(ratio)
    for (runtime, setting, tool), found in means.items():
        mean = math.exp(statistics.fmean(map(math.log, found)))
        sys.stdout.write(f"{tool} on {runtime}, {setting}: {mean:.2f}, geometric mean of {len(found)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
