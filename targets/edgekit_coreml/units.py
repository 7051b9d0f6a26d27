"""Which unit of an Apple device runs a node: a rule of thumb, since Core ML decides when it loads a program.

The rules and their sources are in ``units.json``. Nodes that no rule names are assumed to run on the Neural Engine.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import onnx_ir as ir

NEURAL_ENGINE = "Neural Engine"
ELSEWHERE = "GPU or CPU"

_FLOATS = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.DOUBLE, ir.DataType.BFLOAT16)
_CONVOLUTIONS = ("Conv", "ConvTranspose")
_QUANTIZERS = ("QuantizeLinear", "DynamicQuantizeLinear")
"""Their results are integers, but the program turns these into floats again, or computes with them in 8 bits."""
_OPEN = ("ConvInteger", "MatMulInteger", "QLinearConv", "QLinearMatMul", "If", "Loop", "Scan")
"""No unit is named for these: that of an integer product depends on the precision it is converted in, and the body of
a control-flow operator has many operations."""


@dataclass(frozen=True)
class Placement:
    """The unit where a node probably runs, and the reason if it is not the Neural Engine."""

    unit: str
    """Name of the unit; empty if no rule names one."""
    because: str = ""


def placement(node: ir.Node) -> Placement:
    """Returns the probable unit of a node whose types were inferred."""
    rules = _rules()
    if node.domain == "" and node.op_type in rules["elsewhere"]:
        return _elsewhere(rules["elsewhere"][node.op_type])
    if node.domain == "" and node.op_type in _CONVOLUTIONS and max(node.attributes.get_ints("dilations", [1])) > 1:
        return _elsewhere(rules["dilated_convolutions"])
    if node.domain == "" and node.op_type in _OPEN:
        return Placement("")
    types = [value.dtype for value in node.outputs if value.dtype is not None]
    if types and not any(dtype in _FLOATS for dtype in types) and node.op_type not in _QUANTIZERS:
        return _elsewhere(rules["no_floats"])
    return Placement(NEURAL_ENGINE)


def _elsewhere(rule: dict[str, str]) -> Placement:
    return Placement(ELSEWHERE, f"{rule['because']} ({_rules()['sources'][rule['source']]['source']})")


@cache
def _rules() -> dict[str, Any]:
    rules: dict[str, Any] = json.loads(Path(__file__).with_name("units.json").read_text(encoding="utf-8"))
    return rules
