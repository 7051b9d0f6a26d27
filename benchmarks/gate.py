"""How often the gate's measurement of latency errs: identical models that fail, slower ones that are not caught.

    python benchmarks/gate.py RESULTS.jsonl [--runtime onnxruntime,intel-cpu] [--ms 0.05,0.7,10,100]
                              [--noise idle,busy,bursty,pinned,memory] [--slower 0%,5%,10%] [--times 200] [--minutes 60]
    python benchmarks/gate.py RESULTS.jsonl --table

A cell of the matrix is a runtime, a model of about N milliseconds, what else the machine does, and by how much the
second model is slower. A decision opens the same bundle twice, as the gate does, and asks whether the second one is
more than the limit slower than the first: 5 %, or half of it for models that are only 5 % slower. The slower one spins
after each run for that share of the processor time that the run took (``thread_time``): whatever interrupts the run
interrupts that work alike. Every decision is a line of RESULTS.jsonl; whatever is there already is not done again, so
that the matrix can be measured in pieces. Cells take turns.

=======  =================================================================================================
idle     nothing beside it that this script started
busy     one process that computes all the time
bursty   a process for each processor, each of which computes and sleeps for random times up to 0.2 s
pinned   everything, the busy process too, on one processor
memory   one process that copies 64 MB back and forth
=======  =================================================================================================
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import statistics
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper, parser

from edgekit.bundle import Bundle, is_bundle, read_bundle
from edgekit.config import TIME_LIMIT, parse_fraction
from edgekit.pipeline import PackageRequest, package
from edgekit.progress import Progress
from edgekit.quality_gate.latency import opening
from edgekit.quality_gate.measuring import Limit, Opening, Run, measure_ratio

LAYERS = {"0.05": (8, 24, 2), "0.7": (32, 32, 8), "10": (64, 64, 6), "100": (96, 96, 12)}
"""Channels, height and width, and convolutions of the models, by about how many milliseconds they take."""
LONGEST_BURST = 0.2
"""Seconds."""
COPIED_BYTES = 64_000_000


@dataclass(frozen=True)
class Cell:
    """One cell of the matrix."""

    runtime: str
    ms: str
    noise: str
    slower: float


def main() -> None:
    """Measures what is missing, or prints what is there."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("results", type=Path)
    options.add_argument("--runtime", default="onnxruntime,intel-cpu")
    options.add_argument("--ms", default=",".join(LAYERS))
    options.add_argument("--noise", default=",".join(NOISES))
    options.add_argument("--slower", default="0%,5%,10%")
    options.add_argument("--times", type=int, default=200)
    options.add_argument("--seconds", type=float, default=TIME_LIMIT, help="that one decision may take")
    options.add_argument("--minutes", type=float, default=float("inf"), help="that all may take")
    options.add_argument("--table", action="store_true", help="print what is there and measure nothing")
    given = options.parse_args()
    if given.table:
        print_table(given.results)
        return
    end = time.monotonic() + 60 * given.minutes
    slower = [parse_fraction(share) for share in given.slower.split(",")]
    wanted = [Cell(*each) for each in product(*(given.__dict__[key].split(",") for key in AXES), slower)]
    done = Counter(cell for cell, _ in read_results(given.results))
    with tempfile.TemporaryDirectory() as folder:
        while missing := [cell for cell in wanted if done[cell] < given.times]:
            for cell in missing:
                if time.monotonic() > end:
                    return
                record = decide(bundle_of(Path(folder), cell), cell, given.seconds)
                done[cell] += 1
                with given.results.open("a") as stream:
                    stream.write(json.dumps(asdict(cell) | record) + "\n")


AXES = ("runtime", "ms", "noise")


def decide(bundle: Bundle, cell: Cell, seconds: float) -> dict[str, object]:
    """What the gate finds, in a process of its own, as the command is."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(decide_here, bundle.path, cell, seconds).result()


def decide_here(path: Path, cell: Cell, seconds: float) -> dict[str, object]:
    """The work of that process."""
    limit = Limit(1 + limit_for(cell.slower))
    model = opening(read_bundle(path))
    with NOISES[cell.noise]():
        load = os.getloadavg()[0]
        built, other = (with_more_work(model, share) for share in (cell.slower, 0.0)) if cell.slower else (model, model)
        ratio = measure_ratio(built, other, limit.settled_by, seconds=seconds)
    outcome = "kept" if limit.kept_by(ratio) else "broken" if limit.broken_by(ratio) else "inconclusive"
    return {"outcome": outcome, "load": round(load, 1), **ratio.as_record()}


def limit_for(slower: float) -> float:
    """The growth that is allowed."""
    return 0.025 if 0 < slower <= 0.05 else 0.05


def with_more_work(model: Opening, share: float) -> Opening:
    """The same model, which then spins for that share of the processor time that a run took.

    Both are timed so, one with a share of nothing: asking for the time takes some, too.
    """
    return lambda: slower(model(), share)


def slower(run: Run, share: float) -> Run:
    """The same run, and more work."""

    def run_and_spin() -> None:
        start = time.thread_time()
        run()
        end = time.thread_time()
        while time.thread_time() < end + share * (end - start):
            pass

    return run_and_spin


def bundle_of(folder: Path, cell: Cell) -> Bundle:
    """The cell's bundle, packaged once: convolutions of random weights."""
    place = folder / f"{cell.runtime}-{cell.ms}"
    if not is_bundle(place):
        model = folder / f"{cell.ms}.onnx"
        onnx.save(convolutions(*LAYERS[cell.ms]), model)
        package(PackageRequest(model, cell.runtime, place), Progress())
    return read_bundle(place)


def convolutions(channels: int, size: int, layers: int) -> onnx.ModelProto:
    """A row of 3 x 3 convolutions with biases and rectifiers."""
    shape, nodes = f"float[1, {channels}, {size}, {size}]", "h0 = Identity(x) "
    for layer in range(layers):
        nodes += f"c{layer} = Conv<pads=[1, 1, 1, 1]>(h{layer}, w{layer}, b{layer}) h{layer + 1} = Relu(c{layer}) "
    text = (
        f'<ir_version: 8, opset_import: ["": 17]> net ({shape} x) => ({shape} y) {{ {nodes} y = Identity(h{layers}) }}'
    )
    model = parser.parse_model(text)
    draw = np.random.default_rng(0)
    for layer in range(layers):
        weights = draw.standard_normal((channels, channels, 3, 3)) / np.sqrt(9 * channels)
        for name, array in ((f"w{layer}", weights), (f"b{layer}", draw.standard_normal(channels) / 10)):
            model.graph.initializer.append(numpy_helper.from_array(array.astype(np.float32), name))
    return model


@contextmanager
def beside(works: list[Callable[[], None]]) -> Iterator[None]:
    """Processes that do these while the body runs."""
    running = [multiprocessing.get_context("fork").Process(target=work, daemon=True) for work in works]
    for process in running:
        process.start()
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.join()


@contextmanager
def on_one_processor() -> Iterator[None]:
    """This process, and one that computes all the time, on the first of the processors."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        with beside([compute]):
            yield
    finally:
        os.sched_setaffinity(0, before)


def as_long_as_wanted() -> Iterator[None]:
    """Goes on until the process that started this one is gone, however it ended."""
    first = os.getppid()
    while os.getppid() == first:
        yield


def compute() -> None:
    """Computes all the time."""
    for _ in as_long_as_wanted():
        sum(range(10_000))


def compute_in_bursts() -> None:
    """Computes and sleeps in turns, for random times."""
    draw = random.Random(os.getpid())
    for _ in as_long_as_wanted():
        end = time.perf_counter() + draw.uniform(0, LONGEST_BURST)
        while time.perf_counter() < end:
            sum(range(1000))
        time.sleep(draw.uniform(0, LONGEST_BURST))


def copy_memory() -> None:
    """Copies more than the caches hold."""
    one = np.zeros(COPIED_BYTES, np.uint8)
    other = np.ones_like(one)
    for _ in as_long_as_wanted():
        np.copyto(one, other)
        np.copyto(other, one)


NOISES = {
    "idle": lambda: beside([]),
    "busy": lambda: beside([compute]),
    "bursty": lambda: beside([compute_in_bursts] * (os.cpu_count() or 1)),
    "pinned": on_one_processor,
    "memory": lambda: beside([copy_memory]),
}


def read_results(file: Path) -> Iterator[tuple[Cell, dict[str, object]]]:
    """The decisions that were made."""
    for line in file.read_text().splitlines() if file.exists() else ():
        record = json.loads(line)
        yield Cell(*(record.pop(key) for key in (*AXES, "slower"))), record


def print_table(file: Path) -> None:
    """A line of Markdown for each cell: how many decisions were right, wrong and not clear."""
    cells = defaultdict(list)
    for cell, record in read_results(file):
        cells[cell].append(record)
    print("| runtime | model | beside it | slower by | limit | kept | broken | inconclusive | median time | load |")  # noqa: T201 - a script's output
    print("|---|---|---|---|---|---|---|---|---|---|")  # noqa: T201 - a script's output
    for cell, records in sorted(cells.items(), key=lambda item: (item[0].runtime, float(item[0].ms), item[0].noise)):
        outcomes = Counter(record["outcome"] for record in records)
        counts = " | ".join(str(outcomes[name]) for name in ("kept", "broken", "inconclusive"))
        seconds, load = (statistics.median(record[key] for record in records) for key in ("seconds", "load"))
        what = f"| {cell.runtime} | {cell.ms} ms | {cell.noise} | {cell.slower:.0%} | {limit_for(cell.slower):.1%} "
        print(f"{what}| {counts} | {seconds:.0f} s | {load:.0f} |")  # noqa: T201 - a script's output


if __name__ == "__main__":
    main()
