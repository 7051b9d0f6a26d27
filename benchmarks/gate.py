"""How often the gate's measurement of latency errs: identical bundles that fail, slower ones that are not caught.

    python benchmarks/gate.py [BUNDLE] [--times 200] [--slower 10%] [--limit 5%] [--load 1]

Opens the bundle twice, as the gate does, and asks whether the second one is more than ``--limit`` slower than the
first: once as it is, and once with more work to do. The slower one spins, after each run, for a tenth of the processor
time that the run took (``thread_time``): whatever interrupts the run interrupts that work alike. Beside it ``--load``
processes compute and sleep in bursts of random length. Without BUNDLE the sample model is packaged first.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import random
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from edgekit.bundle import Bundle, read_bundle
from edgekit.config import TIME_LIMIT, parse_fraction
from edgekit.devices.local import open_runner
from edgekit.graph.shape_request import ShapeRequest
from edgekit.pipeline import PackageRequest, package
from edgekit.progress import Progress
from edgekit.quality_gate.measuring import Limit, measure_ratio

SAMPLE = Path(__file__).parents[1] / "sample_apps" / "digits" / "digits_torchscript.onnx"
LONGEST_BURST = 0.2
"""Seconds."""


def main() -> None:
    """Prints both figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path, nargs="?")
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--slower", type=parse_fraction, default=0.1)
    parser.add_argument("--limit", type=parse_fraction, default=0.05)
    parser.add_argument("--load", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=TIME_LIMIT)
    arguments = parser.parse_args()
    limit = Limit(1 + arguments.limit)
    with tempfile.TemporaryDirectory() as folder, load(arguments.load):
        bundle = sample(Path(folder)) if arguments.bundle is None else read_bundle(arguments.bundle)
        print(f"{bundle.name}, {bundle.profile_name}; {arguments.load} processes of load beside it")  # noqa: T201 - a script's output
        for slower, wanted in ((0.0, "kept"), (arguments.slower, "broken")):
            outcomes, seconds = Counter[str](), []
            for _ in range(arguments.times):
                outcome, took = decide(bundle, slower, limit, arguments.seconds)
                outcomes[outcome] += 1
                seconds.append(took)
            told = ", ".join(f"{name} {outcomes[name]}" for name in ("kept", "broken", "inconclusive"))
            print(  # noqa: T201 - likewise
                f"{slower:.0%} slower, limit {arguments.limit:.0%}: {told} of {arguments.times} "
                f"({outcomes[wanted] / arguments.times:.1%} {wanted}); "
                f"{statistics.median(seconds):.1f} s each, {max(seconds):.1f} s at most; "
                f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors",
                flush=True,
            )


def decide(bundle: Bundle, slower: float, limit: Limit, seconds: float) -> tuple[str, float]:
    """What the gate finds, and how long it took."""
    feeds, _ = next(bundle.golden())
    first, second = open_runner(bundle), open_runner(bundle)
    ratio = measure_ratio(
        with_more_work(lambda: second.run(feeds), slower), lambda: first.run(feeds), limit.settled_by, seconds=seconds
    )
    outcome = "kept" if limit.kept_by(ratio) else "broken" if limit.broken_by(ratio) else "inconclusive"
    return outcome, ratio.seconds


def with_more_work(run: Callable[[], object], share: float) -> Callable[[], object]:
    """The same run, and then spinning for that share of the processor time that it took."""
    if not share:
        return run

    def slower() -> None:
        start = time.thread_time()
        run()
        end = time.thread_time()
        while time.thread_time() < end + share * (end - start):
            pass

    return slower


def sample(folder: Path) -> Bundle:
    """The sample model for ONNX Runtime."""
    request = PackageRequest(SAMPLE, "onnxruntime", folder / "digits", shapes=ShapeRequest({"batch": 1}, {}))
    return package(request, Progress())


@contextmanager
def load(processes: int) -> Iterator[None]:
    """Processes that compute in bursts while the body runs."""
    running = [multiprocessing.get_context("spawn").Process(target=bursts, daemon=True) for _ in range(processes)]
    for process in running:
        process.start()
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.join()


def bursts() -> None:
    """Computes and sleeps in turns, for random times, as long as the first process lives."""
    first = multiprocessing.parent_process()
    while first is not None and first.is_alive():
        end = time.perf_counter() + random.uniform(0, LONGEST_BURST)
        while time.perf_counter() < end:
            math.factorial(300)
        time.sleep(random.uniform(0, LONGEST_BURST))


if __name__ == "__main__":
    main()
