"""Compares what a device computes with the golden outputs of the bundle that this file lies in.

EdgeKit ships this file in its bundles as it stands: it needs nothing but NumPy and the standard library. ``check.py``
beside it opens the model with the device's runtime and hands it to :func:`main`.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Execute = Callable[[Sequence[np.ndarray]], Sequence[np.ndarray]]
"""Outputs in the manifest's order for inputs in the manifest's order."""

BUNDLE = Path(__file__).resolve().parent
WARM_UP_RUNS = 3


@dataclass
class OutputTally:
    """How far one output is from the golden one, over all samples."""

    name: str
    floor_db: float | None
    """Least signal-to-noise ratio in dB; None for an output that is judged by its unequal elements."""
    max_mismatch: float | None
    """Greatest share of unequal elements; None for an output that is judged by its signal-to-noise ratio."""
    signal: float = 0.0
    noise: float = 0.0
    max_abs_error: float = 0.0
    unequal: int = 0
    """Elements of a floating-point output that are infinite or NaN on one side only, unequal ones of any other."""
    elements: int = 0
    problem: str = ""
    """What makes a comparison impossible, such as another shape."""

    def add(self, golden: np.ndarray, actual: np.ndarray) -> None:
        """Compare one sample's output."""
        if golden.shape != actual.shape:
            self.problem = f"shape {actual.shape} instead of {golden.shape}"
            return
        self.elements += golden.size
        if self.floor_db is None:
            self.unequal += int(np.count_nonzero(golden != actual))
            return
        want, got = golden.astype(np.float64), actual.astype(np.float64)
        comparable = np.isfinite(want) & np.isfinite(got)
        one_sided = ~comparable & ~((want == got) | (np.isnan(want) & np.isnan(got)))
        if one_sided.any():
            self.problem = "infinite or NaN on one side only"
        error = (got - want)[comparable]
        self.signal += float(np.square(want[comparable]).sum())
        self.noise += float(np.square(error).sum())
        self.max_abs_error = max(self.max_abs_error, float(np.abs(error).max(initial=0.0)))
        self.unequal += int(np.count_nonzero(one_sided))

    @property
    def sqnr_db(self) -> float:
        """Signal-to-quantization-noise ratio: 10 log10 of the golden output's energy over the error's energy."""
        if self.noise == 0.0:
            return math.inf
        return 10.0 * math.log10(self.signal / self.noise) if self.signal > 0.0 else -math.inf

    @property
    def mismatch(self) -> float:
        """Share of unequal elements, as :attr:`unequal` counts them."""
        return self.unequal / self.elements if self.elements else 0.0

    @property
    def passed(self) -> bool:
        """Whether the output is as near to the golden one as the manifest asks."""
        if self.problem:
            return False
        if self.floor_db is not None:
            return self.sqnr_db >= self.floor_db
        return self.max_mismatch is None or self.mismatch <= self.max_mismatch

    def __str__(self) -> str:
        verdict = "ok  " if self.passed else "FAIL"
        if self.problem:
            return f"{verdict} {self.name}: {self.problem}"
        if self.floor_db is None:
            return (
                f"{verdict} {self.name}: {self.mismatch:.4%} of the elements differ (at most {self.max_mismatch:.4%})"
            )
        return (
            f"{verdict} {self.name}: max abs error {self.max_abs_error:.3g}, "
            f"SQNR {self.sqnr_db:.1f} dB (at least {self.floor_db:.1f} dB)"
        )

    def as_record(self) -> dict[str, Any]:
        """The figures as plain data; JSON has no infinity, so infinite decibels are texts."""
        decibels = self.sqnr_db if math.isfinite(self.sqnr_db) else str(self.sqnr_db)
        return {
            "name": self.name,
            "passed": self.passed,
            "problem": self.problem,
            "max_abs_error": self.max_abs_error,
            "sqnr_db": None if self.floor_db is None else decibels,
            "mismatch": self.mismatch,
        }


def read_manifest(bundle: Path = BUNDLE) -> dict[str, Any]:
    """The bundle's manifest."""
    manifest: dict[str, Any] = json.loads((bundle / "manifest.json").read_text(encoding="utf-8"))
    return manifest


def golden_samples(manifest: dict[str, Any], bundle: Path) -> Iterator[tuple[list[np.ndarray], list[np.ndarray]]]:
    """Inputs and golden outputs of each sample, in the manifest's order."""
    for sample in range(manifest["golden"]["samples"]):
        folder = bundle / "golden" / str(sample)
        yield tuple(  # type: ignore[misc]  # a pair, which mypy does not see in a tuple made of a generator
            [np.load(folder / kind / f"{position}.npy") for position in range(len(manifest[kind]))]
            for kind in ("inputs", "outputs")
        )


def compare(execute: Execute, manifest: dict[str, Any], bundle: Path = BUNDLE) -> list[OutputTally]:
    """Run every golden sample and compare its outputs."""
    tallies = [
        OutputTally(output["name"], output["floor_db"], output["max_mismatch"])
        for output in manifest["golden"]["outputs"]
    ]
    for inputs, outputs in golden_samples(manifest, bundle):
        for tally, golden, actual in zip(tallies, outputs, execute(inputs), strict=True):
            tally.add(golden, np.asarray(actual))
    return tallies


def main(open_model: Callable[[dict[str, Any], argparse.Namespace], Any], parser: argparse.ArgumentParser) -> int:
    """Run the check as a program: 0 when every output is near enough, 1 when one is not.

    Args:
        open_model: Opens the bundle's model with the runtime of this device; gets the manifest and the arguments, and
            returns a ``check_service.OpenModel``.
        parser: Knows the runtime's own options already.
    """
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--runs", type=int, default=0, metavar="N", help="also time N runs of the first golden sample")
    parser.add_argument("--serve", action="store_true", help="run what a host sends; see check_service.py")
    arguments = parser.parse_args()
    from check_service import run_times, serve  # type: ignore[import-not-found]  # lies beside this file in a bundle

    manifest = read_manifest()
    if arguments.serve:
        return int(serve(lambda: open_model(manifest, arguments)))
    model = open_model(manifest, arguments)
    sys.stderr.write(f"{model.runtime}\n")
    tallies = compare(model.execute, manifest)
    inputs, _ = next(golden_samples(manifest, BUNDLE))
    times = run_times(lambda: model.execute(inputs), arguments.runs, WARM_UP_RUNS) if arguments.runs else []
    passed = all(tally.passed for tally in tallies)
    if arguments.json:
        record = {"passed": passed, "outputs": [tally.as_record() for tally in tallies], "milliseconds": times}
        lines = [json.dumps(record)]
    else:
        lines = [*map(str, tallies), "the device computes what the original model computes" if passed else "NOT PASSED"]
        if times:
            percentiles = zip((50, 90, 99), np.percentile(times, (50, 90, 99)), strict=True)
            lines.append(", ".join(f"P{percent} {value:.3g} ms" for percent, value in percentiles))
    sys.stdout.write("\n".join(lines) + "\n")
    return 0 if passed else 1
