"""How often the gate's measurement of latency errs: identical models that fail, slower ones that are not caught.

    python benchmarks/gate.py ROUNDS.jsonl [--runtime onnxruntime,intel-cpu] [--ms 0.05,0.7,10,100]
                              [--noise idle,busy,bursty,pinned,memory] [--slower 0%,5%,10%] [--times 2] [--minutes 60]
    python benchmarks/gate.py ROUNDS.jsonl --table

A cell of the matrix is a runtime, a model of about N milliseconds, what else the machine does, and by how much the
second model is slower. A recording opens the same bundle twice and measures rounds of pairs, as the gate does, but it
goes on after the gate's question is answered: is the second model slower than the first by more than the limit (5 %, or
2.5 % for models that are only 5 % slower)? The slower model spins after each run for that share of the processor time
that the run took (``thread_time``), so that whatever interrupts the run also interrupts the spinning. Each recording
has its own process and is a line of ROUNDS.jsonl; recordings that exist already are not repeated, so that the matrix
can be measured in pieces. Cells take turns.

The table shows for each cell how the recorded rounds decide, one decision after the other in their order, and how
replayed decisions turn out. A replay draws one of the cell's recordings and from it blocks of consecutive rounds, until
the question is answered or the rounds have taken as long as the gate may (H. Künsch, The Jackknife and the Bootstrap
for General Stationary Observations, 1989). For identical models, a coin for each round decides which of the two counts
as the second one, as when the rounds were measured: for them it is the same experiment again.

=======  =================================================================================================
idle     no other process that this script started
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
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper, parser

from edgekit.bundle import Bundle, is_bundle, read_bundle
from edgekit.config import parse_fraction
from edgekit.packaging.pipeline import package
from edgekit.packaging.request import PackageRequest
from edgekit.progress import Progress
from edgekit.quality_gate.latency import opening
from edgekit.quality_gate.measuring import Limit, Opening, Round, Run, observe_rounds, settle

LAYERS = {"0.05": (8, 24, 2), "0.7": (32, 32, 8), "10": (64, 64, 6), "100": (96, 96, 12)}
"""Approximate milliseconds of each model -> its channels, its height and width, and its number of convolutions."""
LONG_RUNS = "100"
"""The model whose rounds take so long that a recording of it takes :data:`LONGER` times as long."""
LONGER = 3
LONGEST_BURST = 0.2
"""Longest time in seconds for which a bursty process computes or sleeps."""
COPIED_BYTES = 64_000_000
REPLAYS = 2000
"""How many decisions are replayed for each cell."""
OUTCOMES = ("kept", "broken", "inconclusive")
BLOCK = 5
"""How many consecutive rounds a replay draws at once: a burst, or a processor's frequency, lasts over some rounds."""


@dataclass(frozen=True)
class Cell:
    """One cell of the matrix."""

    runtime: str
    ms: str
    noise: str
    slower: float

    @property
    def limit(self) -> Limit:
        """The allowed latency of the second model, as a ratio to the first."""
        return Limit(1 + limit_for(self.slower))


@dataclass(frozen=True)
class Recording:
    """The rounds that one process measured."""

    rounds: list[Round]
    load: float
    """The load average over one minute when the recording began."""


def main() -> None:
    """Measures missing recordings, or prints the table of existing ones."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("recordings", type=Path)
    options.add_argument("--runtime", default="onnxruntime,intel-cpu")
    options.add_argument("--ms", default=",".join(LAYERS))
    options.add_argument("--noise", default=",".join(NOISES))
    options.add_argument("--slower", default="0%,5%,10%")
    options.add_argument("--times", type=int, default=2, help="recordings a cell")
    options.add_argument(
        "--seconds", type=float, default=15, help=f"a recording takes; {LONGER} times as many at 100 ms"
    )
    options.add_argument("--minutes", type=float, default=float("inf"), help="that all may take")
    options.add_argument("--table", action="store_true", help="print what is there and measure nothing")
    given = options.parse_args()
    if given.table:
        print_table(given.recordings)
        return
    end = time.monotonic() + 60 * given.minutes
    slower = [parse_fraction(share) for share in given.slower.split(",")]
    wanted = [Cell(*each) for each in product(*(given.__dict__[key].split(",") for key in AXES), slower)]
    done = Counter(cell for cell, _ in read_recordings(given.recordings))
    with tempfile.TemporaryDirectory() as folder:
        while missing := [cell for cell in wanted if done[cell] < given.times]:
            for cell in missing:
                if time.monotonic() > end:
                    return
                seconds = given.seconds * (LONGER if cell.ms == LONG_RUNS else 1)
                recording = record(bundle_of(Path(folder), cell), cell, seconds)
                done[cell] += 1
                with given.recordings.open("a") as stream:
                    stream.write(json.dumps(asdict(cell) | asdict(recording)) + "\n")


AXES = ("runtime", "ms", "noise")


def record(bundle: Bundle, cell: Cell, seconds: float) -> Recording:
    """Measures rounds for ``seconds`` in a new process, as the command does."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(record_here, bundle.path, cell, seconds).result()


def record_here(path: Path, cell: Cell, seconds: float) -> Recording:
    """Measures rounds for ``seconds`` in this process."""
    model = opening(read_bundle(path))
    with NOISES[cell.noise]():
        load = os.getloadavg()[0]
        built, other = (with_more_work(model, share) for share in (cell.slower, 0.0)) if cell.slower else (model, model)
        with closing(observe_rounds(built, other)) as observed:
            rounds: list[Round] = []
            while sum(each.seconds for each in rounds) < seconds:
                rounds.append(next(observed))
    return Recording(rounds, round(load, 1))


@dataclass(frozen=True)
class Decision:
    """The gate's answer, and the seconds that the rounds took."""

    outcome: str
    seconds: float


def decisions(cell: Cell, rounds: Iterator[Round]) -> Iterator[Decision]:
    """The gate's decisions on the cell's question, one after the other, until the rounds end."""
    while True:
        try:
            ratio = settle(rounds, cell.limit.settled_by)
        except ValueError:
            return
        outcome = "kept" if cell.limit.kept_by(ratio) else "broken" if cell.limit.broken_by(ratio) else "inconclusive"
        yield Decision(outcome, ratio.seconds)


def replayed_rounds(cell: Cell, recordings: list[Recording], draw: random.Random) -> Iterator[Round]:
    """An endless sequence of rounds, resampled from one recording in blocks, for one replayed decision."""
    rounds = draw.choice(recordings).rounds
    sign_of_sessions = draw.choice((-1, 1))
    for start in iter(lambda: draw.randrange(max(1, len(rounds) - BLOCK + 1)), None):
        for each in rounds[start : start + BLOCK]:
            if cell.slower:
                yield each
            else:
                sign = sign_of_sessions if each.same_sessions else draw.choice((-1, 1))
                yield replace(each, difference=sign * each.difference)


def limit_for(slower: float) -> float:
    """The allowed growth of the latency, as a share."""
    return 0.025 if 0 < slower <= 0.05 else 0.05


def with_more_work(model: Opening, share: float) -> Opening:
    """The same model, which spins after each run for a share of the processor time that the run took.

    Both models are wrapped, one with a share of 0, because asking for the time takes time, too.
    """
    return lambda: slower(model(), share)


def slower(run: Run, share: float) -> Run:
    """The same run, followed by spinning for a share of its processor time."""

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
    """A chain of 3 x 3 convolutions with biases and rectifiers."""
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
    """Runs each of ``works`` in a process while the body runs."""
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
    """Pins this process, and one that computes all the time, to the first processor."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        with beside([compute]):
            yield
    finally:
        os.sched_setaffinity(0, before)


def as_long_as_wanted() -> Iterator[None]:
    """Yields again and again until the process that started this one is gone, however it ended."""
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
    """Copies more memory than the caches hold, again and again."""
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


def read_recordings(file: Path) -> Iterator[tuple[Cell, Recording]]:
    """The recordings of a file, each with its cell."""
    for line in file.read_text().splitlines() if file.exists() else ():
        plain = json.loads(line)
        rounds = [Round(**each) for each in plain["rounds"]]
        yield Cell(*(plain[key] for key in (*AXES, "slower"))), Recording(rounds, plain["load"])


def print_table(file: Path) -> None:
    """Prints a row of Markdown for each model and noise: decisions on identical models, and on slower ones."""
    cells: dict[Cell, list[Recording]] = defaultdict(list)
    for cell, recording in read_recordings(file):
        cells[cell].append(recording)
    slower = sorted({cell.slower for cell in cells})
    names = [f"{share:.0%} slower, limit {limit_for(share):.1%}" if share else "the same, limit 5%" for share in slower]
    say("| runtime | a run takes | beside it | load | " + " | ".join(f"{name} | replayed" for name in names) + " |")
    say("|---" * (4 + 2 * len(slower)) + "|")
    came, replayed = Counter[tuple[float, str]](), Counter[tuple[float, str]]()
    for runtime, ms, noise in dict.fromkeys((cell.runtime, cell.ms, cell.noise) for cell in cells):
        load = statistics.median(each.load for share in slower for each in cells[Cell(runtime, ms, noise, share)])
        line = f"| {runtime} | {ms} ms | {noise} | {load:.0f} |"
        for share in slower:
            cell = Cell(runtime, ms, noise, share)
            once = Counter(made.outcome for each in cells[cell] for made in decisions(cell, iter(each.rounds)))
            again, seconds = replay(cell, cells[cell])
            came.update({(share, outcome): count for outcome, count in once.items()})
            replayed.update({(share, outcome): count for outcome, count in again.items()})
            line += f" {counts_text(once)} | {shares_text(again)}, {seconds:.0f} s |"
        say(line)
    for share, name in zip(slower, names, strict=True):
        counts = [Counter({outcome: of[share, outcome] for outcome in OUTCOMES}) for of in (came, replayed)]
        say(f"{name}: {counts_text(counts[0])} as they came; {shares_text(counts[1])} of {counts[1].total()} replayed")


def replay(cell: Cell, recordings: list[Recording]) -> tuple[Counter[str], float]:
    """The number of :data:`REPLAYS` decisions with each outcome, and the median of the seconds that they take."""
    draw = random.Random(0)
    made = [next(decisions(cell, replayed_rounds(cell, recordings, draw))) for _ in range(REPLAYS)]
    return Counter(each.outcome for each in made), statistics.median(each.seconds for each in made)


def counts_text(outcomes: Counter[str]) -> str:
    """The number of decisions with each outcome: kept, broken, not clear."""
    return ", ".join(str(outcomes[name]) for name in OUTCOMES)


def shares_text(outcomes: Counter[str]) -> str:
    """The share of each outcome: kept, broken, not clear."""
    return ", ".join(f"{outcomes[name] / outcomes.total():.1%}".replace(".0%", "%") for name in OUTCOMES)


def say(text: str) -> None:
    """Prints a line."""
    print(text)  # noqa: T201 - a script's output


if __name__ == "__main__":
    main()
