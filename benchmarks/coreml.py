"""What converting to Core ML and executing the result costs, as ratios measured in one run.

    python benchmarks/coreml.py MODEL.onnx … [--precision float32] [--against onnx2coreml]

Each model needs fixed input shapes (`edgekit fix` makes them). Printed for each model: the conversion time, with that
of another converter if ``--against`` names its package; the reference runtime's time over ONNX Runtime's with 2 threads
(medians of runs that take turns); and the peak memory of a process that only loads and runs the package, with its
limit. Totals come last.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime

import edgekit_coreml
from edgekit.data.inputs import seeded_inputs
from edgekit.data.limits import index_limits
from edgekit.model import Model
from edgekit.timing.latency import measure_in_turns

THREADS = 2
ROUNDS = 3


def conversions(model: onnx.ModelProto, folder: Path, precision: str, other: str | None) -> tuple[float, float | None]:
    """Median seconds of a conversion including saving the package: EdgeKit's and the other converter's, in turns.

    The other converter's are None if there is no other converter, or if it cannot convert the model.
    """
    converters: dict[str, Callable[[Path], object]] = {
        "ours": lambda out: edgekit_coreml.convert(model, out, precision=precision)
    }
    if other:
        convert = importlib.import_module(other).convert
        short = {"float32": "fp32", "float16": "fp16"}[precision]
        converters["other"] = lambda out: convert(model, compute_precision=short).save(str(out))
    seconds: dict[str, list[float]] = {name: [] for name in converters}
    for number in range(ROUNDS):
        for name in list(converters):
            start = time.perf_counter()
            try:
                with Path(os.devnull).open("w") as quiet, contextlib.redirect_stderr(quiet), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    converters[name](folder / f"{name}{number}.mlpackage")
            except Exception as error:
                if name == "ours":
                    raise
                sys.stderr.write(f"{other} does not convert it: {type(error).__name__}: {str(error)[:100]}\n")
                del converters[name]
                continue
            seconds[name].append(time.perf_counter() - start)
    theirs = statistics.median(seconds["other"]) if "other" in converters else None
    return statistics.median(seconds["ours"]), theirs


def execution_ratio(model: Path, package: Path, feeds: dict[str, np.ndarray]) -> float:
    """The reference runtime's median time over ONNX Runtime's."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = THREADS, 4
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    runner = edgekit_coreml.load(package)
    times = measure_in_turns({"runtime": lambda: runner.run(feeds), "original": lambda: session.run(None, feeds)})
    return times["runtime"].percentile(50) / times["original"].percentile(50)


def peak_memory(package: Path, feeds: dict[str, np.ndarray]) -> int:
    """Peak resident bytes of a fresh process that loads the package and runs it twice."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_load_and_run, package, feeds).result()


def _load_and_run(package: Path, feeds: dict[str, np.ndarray]) -> int:
    # Linux counts the parent's memory at the fork towards the child's peak until the peak is reset.
    Path("/proc/self/clear_refs").write_text("5")
    runner = edgekit_coreml.load(package)
    for _ in range(2):
        runner.run(feeds)
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def size(package: Path) -> int:
    """Bytes of all files of a package."""
    return sum(file.stat().st_size for file in package.rglob("*") if file.is_file())


def main() -> int:
    """Print a line for each model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--precision", choices=("float32", "float16"), default="float32")
    parser.add_argument("--against", help="another converter's package, with a function `convert(model)`")
    arguments = parser.parse_args()
    ours_total = theirs_total = 0.0
    sys.stdout.write(
        f"{'model':28} {'convert':>9} {'other':>9} {'run/ORT':>8} {'peak MB':>8} {'3×float32+500 MB':>17}\n"
    )
    for path in arguments.models:
        model = Model(ir.load(path), path)
        feeds = seeded_inputs(model.inputs, 0, index_limits(model))
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            ours, theirs = conversions(onnx.load(path), folder, arguments.precision, arguments.against)
            package = folder / "ours0.mlpackage"
            single = edgekit_coreml.convert(path, folder / "float32.mlpackage", precision="float32")
            ratio, memory = execution_ratio(path, package, feeds), peak_memory(package, feeds)
            bound = 3 * size(single) + 500e6
        if theirs is not None:
            ours_total, theirs_total = ours_total + ours, theirs_total + theirs
        other = "-" if theirs is None else f"{theirs:.2f} s"
        sys.stdout.write(
            f"{path.stem:28} {ours:7.2f} s {other:>9} {ratio:8.2f} {memory / 1e6:8.0f} {bound / 1e6:17.0f}\n"
        )
        sys.stdout.flush()
    if theirs_total:
        sys.stdout.write(
            f"conversions that both make: {ours_total:.2f} s, {arguments.against} {theirs_total:.2f} s, "
            f"ratio {ours_total / theirs_total:.2f}\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
