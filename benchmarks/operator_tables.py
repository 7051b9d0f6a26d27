"""Writes device files from the operator tables in packages: the installed onnxruntime, and onnxruntime-web.

    python benchmarks/operator_tables.py [--web DIR] [--out DIR]

ONNX Runtime's wheel contains the tables of the NNAPI and Core ML providers. The npm package onnxruntime-web contains
the table of its WebGPU provider; `npm pack onnxruntime-web` downloads it, and --web names the folder that it was
unpacked into. Without --web, the WebGPU device's file stays unchanged.

By PHRASES, the tables' sentences about shapes, constants and attributes are turned into conditions that `edgekit check`
can test; other sentences stay as a note.
"""

import argparse
import datetime
import importlib.metadata
import importlib.resources
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DEVICES = Path(__file__).parents[1] / "targets" / "edgekit_onnxruntime" / "devices"

PHRASES: dict[str, dict[str, Any]] = {
    "Only 2D Pool is supported": {"ranks": [4]},
    "Only 2D Conv is supported": {"ranks": [4]},
    "Only 2D Resize is supported": {"ranks": [4]},
    "Only 1D/2D Conv is supported": {"ranks": [3, 4]},
    "4D input": {"ranks": [4]},
    "Weights and bias should be constant": {"constant": [1, 2]},
    "Weight and bias must be constant": {"constant": [1, 2]},
    "Bias if provided must be constant": {"constant": [2]},
    "Input B must be constant": {"constant": [1]},
    "Input axes should be constant": {"constant": [1]},
    "Input pads and constant_value should be constant": {"constant": [1, 2]},
    "Only constant mode Pad is supported": {"attributes": {"mode": "constant"}},
    "Only DCR mode DepthToSpace is supported": {"attributes": {"mode": "DCR"}},
    "batch_dims must be 0": {"attributes": {"batch_dims": 0}},
    "starts/ends/axes/steps must be constant initializers": {"constant": [1, 2, 3, 4]},
    "If provided, `splits` must be constant": {"constant": [1]},
    "conv3d is not supported": {"ranks": [3, 4]},
    "ConvTranspose3d is not supported": {"ranks": [3, 4]},
}
"""Sentences of the tables, each with its conditions. Those of scales and zero points depend on the operator: below."""

SCALES = "All quantization scales and zero points should be constant"
SCALE_INPUTS = {
    "QuantizeLinear": [1, 2],
    "DequantizeLinear": [1, 2],
    "QLinearConv": [1, 2, 4, 5, 6, 7],
    "QLinearMatMul": [1, 2, 4, 5, 6, 7],
    "QLinearAdd": [1, 2, 4, 5, 6, 7],
    "QLinearAveragePool": [1, 2, 3, 4],
    "QLinearSigmoid": [1, 2, 3, 4],
}
WITHOUT_MEANING = ("need perf optimization", "need implementing activation")
"""Remarks in the tables that do not restrict models."""

MOBILE = {
    "android-nnapi": {
        "table": "nnapi_supported_ops.md",
        "profile": {
            "name": "android-nnapi",
            "description": "ONNX Runtime on Android (arm64), NNAPI provider (deprecated by Android 15)",
        },
        "provider": "NnapiExecutionProvider",
        "unit": "NNAPI",
        "fallback": "CPU",
        "architecture": "arm64",
    },
    "coreml-ep": {
        "table": "coreml_supported_mlprogram_ops.md",
        "profile": {
            "name": "coreml-ep",
            "description": "ONNX Runtime on iPhone, iPad and Mac, Core ML provider (ML Program)",
        },
        "provider": "CoreMLExecutionProvider",
        "unit": "Core ML",
        "fallback": "CPU",
        "architecture": "arm64",
    },
}
WEBGPU = {
    "profile": {
        "name": "web-webgpu",
        "description": "onnxruntime-web in a browser, WebGPU",
        "aliases": ["webgpu"],
    },
    "provider": "webgpu",
    "open_dimensions": True,
    "unit": "GPU",
    "fallback": "CPU",
}
STANDARD = "ai.onnx"
MOBILE_ROW = re.compile(r"^\|(?P<domain>[\w.]+?)[:.](?P<operator>\w+)\|(?P<note>.*)\|$", re.MULTILINE)
WEB_ROW = re.compile(r"^\| (?P<operator>\w+) \| (?P<opsets>[^|]*) \| (?P<note>[^|]*) \|$", re.MULTILINE)
WEB_OPSETS = re.compile(r"(?P<domain>[\w.]+)\((?P<ranges>[^)]*)\)")


def full_name(domain: str, operator: str) -> str:
    """The operator's name, with its domain in front unless that is the standard one."""
    return operator if domain == STANDARD else f"{domain}.{operator}"


def conditions(operator: str, sentences: Iterator[str]) -> dict[str, Any]:
    """The conditions in the sentences of a table's note, as far as they can be tested; other sentences as a note."""
    found: dict[str, Any] = {}
    rest = []
    for sentence in sentences:
        phrase = next((phrase for phrase in PHRASES if sentence.startswith(phrase)), None)
        if phrase is not None:
            for kind, condition in PHRASES[phrase].items():
                if kind == "attributes":
                    found[kind] = {**found.get(kind, {}), **condition}
                else:
                    found[kind] = sorted({*found.get(kind, []), *condition})
        elif sentence.startswith(SCALES) and operator in SCALE_INPUTS:
            found["constant"] = sorted({*found.get("constant", []), *SCALE_INPUTS[operator]})
        elif sentence and sentence not in WITHOUT_MEANING:
            rest.append(sentence.rstrip("."))
    return {**found, **({"note": "; ".join(rest)} if rest else {})}


def mobile_table(text: str) -> dict[str, Any]:
    """The operators of a table in ``onnxruntime.tools.mobile_helpers``."""
    return {
        full_name(row["domain"], row["operator"]): conditions(
            row["operator"], (sentence.strip() for sentence in row["note"].split("<br/>"))
        )
        for row in MOBILE_ROW.finditer(text)
    }


def web_table(text: str) -> dict[str, Any]:
    """The operators of onnxruntime-web's ``docs/webgpu-operators.md``."""
    found: dict[str, Any] = {}
    for row in WEB_ROW.finditer(text):
        asked = conditions(row["operator"], (sentence.strip() for sentence in row["note"].split(";")))
        for opsets in WEB_OPSETS.finditer(row["opsets"]):
            if not opsets["domain"].endswith("internal.nhwc"):  # the same kernels, for tensors in another layout
                name = full_name(opsets["domain"], row["operator"])
                found[name] = {"opsets": [span(text) for text in opsets["ranges"].split(",")], **asked}
    return found


def span(text: str) -> list[int | None]:
    """First and last version of ``7-12``, ``13`` or ``14+``; the last is None for an open end."""
    first, dash, last = text.strip().rstrip("+").partition("-")
    if text.strip().endswith("+"):
        return [int(first), None]
    return [int(first), int(last) if dash else int(first)]


def kept(name: str) -> dict[str, Any]:
    """The part of a device file that is not from a table: the options of its sessions."""
    file = DEVICES / f"{name}.json"
    device = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return {key: device[key] for key in ("open_dimensions", "session") if key in device}


def write(folder: Path, name: str, device: dict[str, Any]) -> None:
    """Writes a device file, with one operator per line."""
    path = folder / f"{name}.json"
    operators = ",\n".join(
        f"    {json.dumps(operator)}: {json.dumps(entry)}" for operator, entry in sorted(device["operators"].items())
    )
    head = json.dumps({key: value for key, value in device.items() if key != "operators"}, indent=2)
    path.write_text(f'{head[:-2]},\n  "operators": {{\n{operators}\n  }}\n}}\n', encoding="utf-8")
    sys.stdout.write(f"{path}: {len(device['operators'])} operators\n")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--web", type=Path, help="the unpacked npm package onnxruntime-web")
    parser.add_argument("--out", type=Path, default=DEVICES, help="default: %(default)s")
    options = parser.parse_args()
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    helpers = importlib.resources.files("onnxruntime.tools.mobile_helpers")
    for name, device in MOBILE.items():
        table = str(device["table"])
        rest = {key: value for key, value in device.items() if key != "table"}
        origin = {
            "source": f"onnxruntime/tools/mobile_helpers/{table} in the wheel of onnxruntime",
            "version": f"onnxruntime {importlib.metadata.version('onnxruntime')}",
            "date": today,
            "fixed_shapes": True,
        }
        operators = mobile_table(helpers.joinpath(table).read_text(encoding="utf-8"))
        write(options.out, name, {**rest, **kept(name), **origin, "operators": operators})
    if options.web is not None:
        version = json.loads((options.web / "package.json").read_text(encoding="utf-8"))["version"]
        origin = {
            "source": "docs/webgpu-operators.md in the npm package onnxruntime-web",
            "version": f"onnxruntime-web {version}",
            "date": today,
        }
        text = (options.web / "docs" / "webgpu-operators.md").read_text(encoding="utf-8")
        write(options.out, "web-webgpu", {**WEBGPU, **kept("web-webgpu"), **origin, "operators": web_table(text)})


if __name__ == "__main__":
    main()
