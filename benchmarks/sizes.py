"""Compares the smallest model within a budget for iOS 18 with every single scheme of coremltools' optimizer.

    python benchmarks/sizes.py MODEL.onnx --data DIR --test DIR --metric labels [--max-drop 0.01] [--json FILE]

Needs `coremltools`, with `scikit-learn<1.6` and `kmeans1d` for its k-means. Samples are `.npz` files as EdgeKit
takes them. Those of --data calibrate EdgeKit's search, which sees no others; the loss of every form is measured on
those of --test. The schemes of coremltools are applied to the float16 package that EdgeKit builds without quantizing,
with coremltools' default: weights of more than 2,048 numbers. EdgeKit's reference runtime executes every package.

Metrics are those of scores.py, of the first output.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from scores import METRICS

import edgekit
import edgekit_coreml
from edgekit.bundle import read_bundle

Scheme = Callable[[Any], Any]
"""Makes a smaller Core ML model from a Core ML model."""
TARGET = "ios18"


def single_schemes() -> dict[str, Scheme]:
    """The schemes of coremltools for iOS 18, by this script's names."""
    import coremltools.optimize.coreml as cto

    def linear(dtype: str, granularity: str, block: int) -> Scheme:
        config = cto.OpLinearQuantizerConfig(
            mode="linear_symmetric", dtype=dtype, granularity=granularity, block_size=block
        )
        return lambda model: cto.linear_quantize_weights(model, cto.OptimizationConfig(global_config=config))

    def palettes(bits: int, group: int) -> Scheme:
        granularity = "per_grouped_channel" if group else "per_tensor"
        config = cto.OpPalettizerConfig(
            mode="kmeans", nbits=bits, granularity=granularity, group_size=group or 32, num_kmeans_workers=1
        )
        return lambda model: cto.palettize_weights(model, cto.OptimizationConfig(global_config=config))

    def pruned(share: float) -> Scheme:
        config = cto.OpMagnitudePrunerConfig(target_sparsity=share)
        return lambda model: cto.prune_weights(model, cto.OptimizationConfig(global_config=config))

    return {
        "int8, a scale a channel": linear("int8", "per_channel", 0),
        "int4, a scale a channel": linear("int4", "per_channel", 0),
        "int4, blocks of 32": linear("int4", "per_block", 32),
        **{f"palettes of {2**bits}": palettes(bits, 0) for bits in (8, 6, 4, 3, 2)},
        **{f"palettes of {2**bits} for 16 channels": palettes(bits, 16) for bits in (4, 3, 2)},
        **{f"{share:.0%} pruned": pruned(share) for share in (0.3, 0.5, 0.75)},
    }


def samples_of(folder: Path) -> Iterator[tuple[dict[str, np.ndarray], int]]:
    """The inputs of each sample, and its label; -1 for a sample without a label."""
    for file in sorted(folder.glob("*.npz")):
        with np.load(file) as arrays:
            feeds = {name: arrays[name] for name in arrays.files}
        label = feeds.pop("label", np.array(-1))
        yield feeds, int(label)


def answers_of(package: Path, test: Path, outputs: Sequence[str]) -> list[dict[str, np.ndarray]]:
    """The outputs for every sample, executed by the reference runtime."""
    runner = edgekit_coreml.load(package)
    answers = (runner.run(feeds) for feeds, _ in samples_of(test))
    return [{name: answer[name] for name in outputs} for answer in answers]


def size_of(package: Path) -> int:
    """Bytes of all files of a package."""
    return sum(file.stat().st_size for file in package.rglob("*") if file.is_file())


def rows(options: argparse.Namespace, folder: Path) -> Iterator[dict[str, Any]]:
    """The size of each form, and its score by the metric."""
    import coremltools

    logging.getLogger("coremltools").setLevel(logging.ERROR)
    session = onnxruntime.InferenceSession(str(options.model), providers=["CPUExecutionProvider"])
    outputs = [value.name for value in session.get_outputs()]
    exact = [dict(zip(outputs, session.run(outputs, feeds), strict=True)) for feeds, _ in samples_of(options.test)]
    labels = [label for _, label in samples_of(options.test)]
    metric = METRICS[options.metric]
    yield {"form": "float32", "bytes": options.model.stat().st_size, "value": metric(exact, exact, labels)}

    def row(form: str, package: Path, start: float) -> dict[str, Any]:
        seconds = time.perf_counter() - start
        value = metric(answers_of(package, options.test, outputs), exact, labels)
        return {"form": form, "bytes": size_of(package), "value": value, "seconds": round(seconds, 1)}

    def packaged(name: str, **how: Any) -> Path:
        if not (folder / name).is_dir():
            edgekit.package(options.model, TARGET, folder / name, data=options.data, **how)
        return read_bundle(folder / name).main

    start = time.perf_counter()
    plain = packaged("float16", quantize="none")
    yield row("float16", plain, start)
    start = time.perf_counter()
    small = packaged("smallest", smallest=True, max_drop=options.max_drop, floor=options.floor)
    yield row(f"--smallest --max-drop {options.max_drop:.3g}", small, start)
    model = coremltools.models.MLModel(str(plain), skip_model_load=True)
    for name, scheme in single_schemes().items():
        start, package = time.perf_counter(), folder / f"{name}.mlpackage"
        try:
            if not package.is_dir():
                scheme(model).save(str(package))
        except Exception as error:  # the row shows coremltools' own message
            yield {"form": name, "error": f"{type(error).__name__}: {error}".splitlines()[0]}
            continue
        yield row(name, package, start)


def main() -> int:
    """Print the rows as they come, and the ratio of the two sizes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--test", type=Path, required=True)
    parser.add_argument("--metric", choices=sorted(METRICS), required=True)
    parser.add_argument("--max-drop", type=float, default=0.01)
    parser.add_argument("--floor", type=float, help="decibels that verification asks of each output")
    parser.add_argument("--work", type=Path, help="keep packages here, and take those that are there")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    os.environ["TQDM_DISABLE"] = "1"
    made: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as temporary:
        for row in rows(options, options.work or Path(temporary)):
            made.append(row)
            figures = (
                row.get("error")
                or f"{row['bytes'] / 1e3:10.1f} kB  {row['value']:8.2%}  {row.get('seconds', 0):6.1f} s"
            )
            sys.stdout.write(f"{row['form']:36} {figures}\n")
            sys.stdout.flush()
    if options.json is not None:
        options.json.write_text(json.dumps(made, indent=1))
    float_value, ours = made[0]["value"], made[2]
    held = [row for row in made[3:] if "value" in row and float_value - row["value"] <= options.max_drop]
    if not held:
        sys.stdout.write("no single scheme holds the budget\n")
        return 0
    best = min(held, key=lambda row: row["bytes"])
    sys.stdout.write(f"{ours['bytes'] / best['bytes']:.3f} of {best['form']!r}, the smallest that holds the budget\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
