"""A matrix of exported models: makes them with the exporters that are installed, and packages each for three targets.

    python -m venv exporters && exporters/bin/pip install torch onnxscript skl2onnx onnxmltools xgboost lightgbm \
        scikit-learn pandas onnx numpy    (others: tensorflow-cpu tf2onnx tflite2onnx; paddlepaddle paddle2onnx;
        jax2onnx flax; transformers optimum-onnx; their requirements may need environments of their own)
    exporters/bin/python benchmarks/exporters.py make MODELS       (an exporter that is missing is left out and named)
    python benchmarks/exporters.py run MODELS --targets ios18,intel-cpu,onnxruntime --json result.jsonl

The first command needs the exporters and not EdgeKit, the second EdgeKit and no exporter. The shapes of the dynamic
inputs of a model ``NAME.onnx`` are in ``NAME.json`` beside it. The run counts, for each target, how many of the models
that ONNX Runtime runs become a verified bundle; the others are listed with the error message that the user reads.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from exporter_models import Maker, Shapes

FAMILIES = {
    "handmade": "before_2019",
    "sklearn": "scikit",
    "boosting": "scikit",
    "text": "scikit",
    "torch": "pytorch",
    "keras": "tensorflow_keras",
    "tflite": "tensorflow_keras",
    "jax": "jax_functions",
    "transformers": "transformer_models",
    "optimum": "transformer_models",
    "paddle": "paddle_layers",
}
"""The module of ``exporter_models`` for each family; its function ``of_FAMILY`` makes the models."""


def _tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def recipes() -> Iterator[tuple[str, str, Shapes, Maker]]:
    """Yields for each model: family, name, shapes of the dynamic inputs, and the function that writes the model."""
    for family, module in FAMILIES.items():
        try:
            of_family = getattr(importlib.import_module(f"exporter_models.{module}"), f"of_{family}")
            yield from ((family, *each) for each in of_family())
        except ImportError as error:
            _tell(f"{family}: left out, {error}")


def make(folder: Path, only: str) -> None:
    """Makes all models that do not exist yet."""
    folder.mkdir(parents=True, exist_ok=True)
    done = failed = 0
    for family, name, shapes, maker in recipes():
        path = folder / f"{family}-{name}.onnx"
        if only not in path.stem or path.exists():
            continue
        try:
            with contextlib.redirect_stdout(sys.stderr):
                maker(path)
        except (Exception, SystemExit) as error:  # whatever an exporter raises, the other models are still made
            failed += 1
            _tell(f"{path.stem}: not exported: {type(error).__name__}: {' '.join(str(error).split())[:160]}")
            continue
        path.with_suffix(".json").write_text(json.dumps(_of_inputs(path, shapes)))
        done += 1
    _tell(f"{done} made, {failed} that their exporter could not make")


def run(folder: Path, targets: Sequence[str], only: str, output: Path | None) -> None:
    """Packages every model for every target, and counts."""
    import onnxruntime

    rows = []
    for path in sorted(folder.glob("*.onnx")):
        if only not in path.stem:
            continue
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        try:
            onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
            runs = True
        except Exception:  # ONNX Runtime's exceptions have no common base class
            runs = False
        for target in targets:
            row = {"model": path.stem, "target": target, "onnxruntime_runs": runs, **_packaged(path, target)}
            rows.append(row)
            _tell(
                f"{path.stem:40s} {target:12s} {row['seconds']:5.1f} s  {row['outcome']} {row['reason'][:300]}",
            )
    if output is not None:
        output.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for target in targets:
        own = [row for row in rows if row["target"] == target]
        good = sum(row["outcome"] == "bundle" for row in own)
        runnable = [row for row in own if row["onnxruntime_runs"]]
        of_runnable = sum(row["outcome"] == "bundle" for row in runnable)
        faults = sum(row["outcome"] == "fault" for row in own)
        _tell(
            f"{target}: {good} of {len(own)} bundles; {of_runnable} of the {len(runnable)} that ONNX Runtime runs; "
            f"{faults} faults"
        )


def _of_inputs(path: Path, shapes: Shapes) -> Shapes:
    """The shapes of the inputs that the model's file has."""
    import onnx

    graph = onnx.load(path, load_external_data=False).graph
    return {value.name: shapes[value.name] for value in graph.input if value.name in shapes}


def _packaged(path: Path, target: str) -> dict[str, Any]:
    from edgekit.errors import EdgeKitError
    from edgekit.graph.sizes.shape_request import ShapeRequest
    from edgekit.packaging.pipeline import package
    from edgekit.packaging.request import PackageRequest
    from edgekit.progress import Progress

    side = path.with_suffix(".json")
    shapes = json.loads(side.read_text()) if side.exists() else {}
    start = time.perf_counter()
    outcome, reason = "bundle", ""
    with tempfile.TemporaryDirectory() as scratch:
        try:
            package(
                PackageRequest(path, target, Path(scratch) / "bundle", shapes=ShapeRequest(shapes=shapes)), Progress()
            )
        except EdgeKitError as error:
            outcome = "fault" if error.exit_code == 3 else "refused"
            reason = " ".join(str(error).split())
        except Exception as error:  # an exception that no stage turned into an EdgeKitError
            outcome, reason = "fault", repr(error)
    return {"outcome": outcome, "reason": reason, "seconds": round(time.perf_counter() - start, 2)}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("command", choices=("make", "run"))
    parser.add_argument("folder", type=Path, help="where the models are")
    parser.add_argument("--only", default="", help="models whose name contains this")
    parser.add_argument("--targets", default="ios18,intel-cpu,onnxruntime", help="default: %(default)s")
    parser.add_argument("--json", type=Path, help="write a line per model and target")
    options = parser.parse_args()
    if options.command == "make":
        make(options.folder, options.only)
    else:
        run(options.folder, options.targets.split(","), options.only, options.json)


if __name__ == "__main__":
    main()
