"""Writes the tables of measured cases that `edgekit check` uses for devices that are not at hand.

    pip download --no-deps winml-cli==0.4.0 && unzip winml_cli-0.4.0-py3-none-any.whl -d DIR
    pip install pyarrow
    python benchmarks/measured_tables.py DIR [--calibrate MODELS]

winml-cli (PyPI, MIT) contains what its authors measured on their machines: for each of ONNX Runtime's providers, and
for each case of a standard operator (types, ranks, constants, attributes), whether the provider compiled it. Cases of
dynamic shapes are left out; the others are counted in a decision tree, whose splits are those that best separate the
compiled cases from the others (Quinlan, Induction of Decision Trees, 1986).

--calibrate compares such tables of two devices that execute here, OpenVINO's CPU plugin and the simulator of Qualcomm's
NPU, with what the devices themselves say of the nodes of MODELS, a folder of ONNX files, and prints how often the
tables err.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx

from edgekit.graph.sizes.shape_request import ShapeRequest
from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.model import Model
from edgekit.operators.measured import MeasuredTable, default_of
from edgekit.registry import find_profile
from edgekit.stages.fix_shapes import FixShapes
from edgekit.stages.load import Load
from edgekit.target import Support

ROOT = Path(__file__).parents[1]
RULES = "winml/modelkit/analyze/rules/runtime_check_rules"
TABLES = {
    "OpenVINOExecutionProvider_CPU": (
        "ONNX Runtime's OpenVINO provider on a CPU",
        "edgekit_onnxruntime/measured/openvino.json",
    ),
    "OpenVINOExecutionProvider_GPU": (
        "ONNX Runtime's OpenVINO provider on a GPU",
        "edgekit_openvino/measured/GPU.json",
    ),
    "OpenVINOExecutionProvider_NPU": (
        "ONNX Runtime's OpenVINO provider on an NPU",
        "edgekit_openvino/measured/NPU.json",
    ),
    "NvTensorRTRTXExecutionProvider_GPU": (
        "ONNX Runtime's provider for TensorRT for RTX",
        "edgekit_onnxruntime/measured/tensorrt.json",
    ),
}
"""The wheel's name of each provider: what its cases were measured with, and the file for its table."""
CALIBRATED = {"OpenVINOExecutionProvider_CPU": "intel-cpu", "QNNExecutionProvider_NPU": "android-qnn"}
"""Providers that execute here, each with the profile whose check asks it."""
PURE = 0.02
"""A node of the tree is not split if at most this share of its cases differ from the majority."""
LEAST_GAIN = 0.002
"""Least information gain of a split, in bits per case."""

SCALARS = (onnx.defs.OpSchema.AttrType.STRING, onnx.defs.OpSchema.AttrType.INT)
"""Types of attributes that distinguish cases."""

Case = tuple[Mapping[str, str], bool]
"""The values of a case's features, and whether it was compiled."""


def cases_of(files: Sequence[Path]) -> tuple[list[Case], list[int]]:
    """All cases of an operator with fixed shapes, and the inputs whose being constant distinguishes cases."""
    from pyarrow import parquet

    found: list[Case] = []
    places: list[int] = []
    for file in files:
        operator, opset = named(file)
        schema = onnx.defs.get_schema(operator, opset)
        columns = parquet.read_schema(file).names
        names = [given.name for given in schema.inputs]
        places = [at for at, name in enumerate(names) if f"{name}_is_constant" in columns]
        attributes = [
            name
            for name, attribute in schema.attributes.items()
            if attribute.type in SCALARS and f"attr_{name}" in columns
        ]
        for row in parquet.read_table(file).to_pylist():
            values = {
                name: None if text is None else json.loads(text).get("v")
                for name, text in row.items()
                if name != "compile_run_success"
            }
            if any(value is False for name, value in values.items() if name.endswith("_is_fixed_shape")):
                continue
            features = {"constants": "".join(_kind(values, names[place]) for place in places), "version": str(opset)}
            for place, given in enumerate(schema.inputs):
                if not values.get(f"{given.name}_is_none"):
                    features[f"type:{place}"] = values.get(f"{given.type_str}_{operator}")
                    rank = values.get(f"{given.name}_dim")
                    features[f"rank:{place}"] = None if rank is None else str(rank)
            for name in attributes:
                value = values[f"attr_{name}"]
                features[name] = default_of(operator, "", opset, name) if value is None else str(value)
            found.append(
                ({key: value for key, value in features.items() if value}, bool(row["compile_run_success"][0]))
            )
    return found, places


def _kind(values: Mapping[str, Any], name: str) -> str:
    if values.get(f"{name}_is_none"):
        return "."
    return "C" if values.get(f"{name}_is_constant") else "-"


def named(file: Path) -> tuple[str, int]:
    """The operator of the standard, and its version, that a file of the wheel is about."""
    match = re.fullmatch(r"(\w+?)_[A-Z]\w+Provider_\w+?_ai\.onnx_opset(\d+)", file.stem)
    if match is None:
        raise SystemExit(f"{file.name}: is not named as the files of winml-cli 0.4.0")
    return match[1], int(match[2])


def tree_of(cases: Sequence[Case], places: Sequence[int]) -> Any:
    """The tree that :mod:`edgekit.operators.measured` reads."""
    compiled = sum(taken for _, taken in cases)
    leaf = [compiled, len(cases)]
    if not PURE < compiled / len(cases) < 1 - PURE:
        return leaf
    best, gain = None, LEAST_GAIN
    for feature in sorted({key for features, _ in cases for key in features}):
        parts = _parts(cases, feature)
        after = sum(len(part) * _entropy(part) for part in parts.values()) / len(cases)
        if len(parts) > 1 and _entropy(cases) - after > gain:
            best, gain = feature, _entropy(cases) - after
    if best is None:
        return leaf
    split: dict[str, Any] = {"by": best}
    if best == "constants":
        split["inputs"] = list(places)
    return split | {"of": {value: tree_of(part, places) for value, part in sorted(_parts(cases, best).items())}}


def _parts(cases: Sequence[Case], feature: str) -> dict[str, list[Case]]:
    parts: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        parts[case[0].get(feature, "")].append(case)
    return parts


def _entropy(cases: Sequence[Case]) -> float:
    share = sum(taken for _, taken in cases) / len(cases)
    return -sum(part * math.log2(part) for part in (share, 1 - share) if part)


def table(folder: Path, provider: str, measured: str) -> dict[str, Any]:
    """A provider's table, as its file holds it."""
    by_operator: dict[str, list[Path]] = defaultdict(list)
    for file in sorted((folder / RULES / provider).glob("*_ai.onnx_opset*[0-9].parquet")):
        operator, _ = named(file)
        if not operator.endswith("Pattern"):
            by_operator[operator].append(file)
    trees = {operator: tree_of(*cases) for operator, files in by_operator.items() if (cases := cases_of(files))[0]}
    return {
        "source": f"{RULES}/{provider} in the wheel of winml-cli",
        "version": "winml-cli 0.4.0",
        "date": datetime.date.today().isoformat(),
        "measured": measured,
        "operators": trees,
    }


def written(document: Mapping[str, Any]) -> str:
    """The file's text, with one operator per line."""
    head = {key: value for key, value in document.items() if key != "operators"}
    lines = ",\n".join(
        f"    {json.dumps(name)}: {json.dumps(tree, separators=(',', ':'))}"
        for name, tree in document["operators"].items()
    )
    return json.dumps(head, indent=2)[:-2] + ',\n  "operators": {\n' + lines + "\n  }\n}\n"


def calibrated(document: Mapping[str, Any], profile_name: str, models: Path) -> Counter[str]:
    """Counts how often a table's verdict on a node agrees with that of the device's own compiler here."""
    measured = MeasuredTable(**document)
    target, profile = find_profile(profile_name)
    found: Counter[str] = Counter()
    for file in sorted(models.glob("*.onnx")):
        model = infer_shapes(_fixed(file), strict=False)
        for node, verdict in zip(model.graph.all_nodes(), target.check(model, profile), strict=True):
            if verdict.support is Support.UNKNOWN or node.op_type == "Constant":
                continue
            cases = measured.cases_like(node, model.graph_model.opset_imports.get(node.domain, 1))
            if cases is None or cases.is_taken is None:
                found["not told"] += 1
                continue
            runs = verdict.support in (Support.SUPPORTED, Support.DECOMPOSED)
            found[f"{'taken' if cases.is_taken else 'left'}, {'runs' if runs else 'does not'}"] += 1
    return found


def _fixed(file: Path) -> Model:
    """The model at the shapes in the zoo's list, if it is there; else unchanged."""
    entries = json.loads((ROOT / "tests" / "zoo" / "models.json").read_text(encoding="utf-8"))
    shapes = next((entry["shapes"] for entry in entries if entry["name"] == file.stem), {})
    request = ShapeRequest({}, {name: tuple(shape) for name, shape in shapes.items()})
    return FixShapes(request)(Load()(file).model).model


def main() -> int:
    """Write the tables, or calibrate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path, metavar="DIR", help="the unpacked wheel")
    parser.add_argument("--calibrate", type=Path, metavar="MODELS", help="print how often tables err on these instead")
    options = parser.parse_args()
    if options.calibrate is not None:
        for provider, profile in CALIBRATED.items():
            found = calibrated(table(options.wheel, provider, provider), profile, options.calibrate)
            sys.stdout.write(f"{provider} against {profile}: {dict(found)}\n")
        return 0
    for provider, (measured, place) in TABLES.items():
        file = ROOT / "targets" / place
        file.parent.mkdir(exist_ok=True)
        file.write_text(written(table(options.wheel, provider, measured)), encoding="utf-8")
        sys.stdout.write(f"{file}: {file.stat().st_size} bytes\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
