"""QONNX's operators against the formulas of its specification, in numpy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgekit.stages.load import Load

X = np.array([[-9, -2.5, -1.5, -0.75, -0.5, -0.25], [0, 0.25, 0.5, 1.25, 1.5, 9]], np.float32)
ROUNDINGS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "ROUND": np.round,
    "HALF_EVEN": np.round,
    "CEIL": np.ceil,
    "FLOOR": np.floor,
    "UP": lambda x: np.sign(x) * np.ceil(np.abs(x)),
    "DOWN": np.trunc,
    "HALF_UP": lambda x: np.sign(x) * np.floor(np.abs(x) + 0.5),
    "HALF_DOWN": lambda x: np.sign(x) * np.ceil(np.abs(x) - 0.5),
}


def specified(x: np.ndarray, scale: Any, zero: float, ends: tuple[int, int], rounding: str = "ROUND") -> np.ndarray:
    return (ROUNDINGS[rounding](np.clip(x / scale + zero, *ends)) - zero) * scale


def model(path: Path, operator: str, *constants: Any, domain: str = "qonnx.custom_op.general", **given: Any) -> Path:
    names = ["scale", "zero", "bits"][: len(constants)]
    tensors = [
        numpy_helper.from_array(np.array(value, np.float32), name) for value, name in zip(constants, names, strict=True)
    ]
    graph = helper.make_graph(
        [
            helper.make_node(operator, ["x", *names], ["q"], "quant", domain=domain, **given),
            helper.make_node("Neg", ["q"], ["y"]),
        ],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, X.shape)],
        tensors,
    )
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid(domain, 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def run(path: Path) -> tuple[np.ndarray, set[str]]:
    proto = Load()(path).model.proto()
    found = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": X})[0]
    return -found, {node.op_type for node in proto.graph.node}


@pytest.mark.parametrize(
    ("bits", "signed", "narrow", "ends"),
    [
        (8, 1, 0, (-128, 127)),
        (8, 1, 1, (-127, 127)),
        (8, 0, 0, (0, 255)),
        (4, 1, 1, (-7, 7)),
        (4, 0, 1, (0, 14)),
        (2, 1, 0, (-2, 1)),
        (1, 0, 0, (0, 1)),
    ],
)
@pytest.mark.parametrize("scale", [0.25, [[0.25], [0.5]], [0.25, 0.5, 1, 2, 4, 8]])
def test_a_few_bits_are_a_pair(
    tmp_path: Path, bits: int, signed: int, narrow: int, ends: tuple[int, int], scale: Any
) -> None:
    found, operators = run(model(tmp_path / "m.onnx", "Quant", scale, 0, bits, signed=signed, narrow=narrow))
    np.testing.assert_array_equal(found, specified(X, np.array(scale, np.float32), 0, ends))
    assert {"QuantizeLinear", "DequantizeLinear"} <= operators


def test_a_zero_point_moves_the_range(tmp_path: Path) -> None:
    found, operators = run(model(tmp_path / "m.onnx", "Quant", 0.25, 6, 4, signed=0, narrow=0))
    np.testing.assert_array_equal(found, specified(X, 0.25, 6, (0, 15)))
    assert "QuantizeLinear" in operators


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize(("bits", "zero", "ends"), [(3, 0.5, (-4, 3)), (12, 1, (-2048, 2047))])
def test_other_grids_are_computed_in_floats(
    tmp_path: Path, rounding: str, bits: int, zero: float, ends: tuple[int, int]
) -> None:
    path = model(tmp_path / "m.onnx", "Quant", 0.5, zero, bits, signed=1, narrow=0, rounding_mode=rounding)
    found, operators = run(path)
    np.testing.assert_array_equal(found, specified(X, np.float32(0.5), zero, ends, rounding))
    assert "QuantizeLinear" not in operators


def test_one_bit_with_a_sign_is_minus_or_plus_one(tmp_path: Path) -> None:
    found, _ = run(model(tmp_path / "m.onnx", "IntQuant", 0.5, 0, 1, signed=1, narrow=0))
    np.testing.assert_array_equal(found, np.where(X >= 0, 0.5, -0.5))


@pytest.mark.parametrize("domain", ["qonnx.custom_op.general", "onnx.brevitas"])
@pytest.mark.parametrize("scale", [[0.5], [[0.5], [2]]])
def test_bipolar(tmp_path: Path, scale: Any, domain: str) -> None:
    found, _ = run(model(tmp_path / "m.onnx", "BipolarQuant", scale, domain=domain))
    np.testing.assert_array_equal(found, np.where(X >= 0, np.array(scale), -np.array(scale)))


def test_it_is_told(tmp_path: Path) -> None:
    warnings = Load()(model(tmp_path / "m.onnx", "Quant", 0.25, 0, 8, signed=1, narrow=0)).record["warnings"]
    assert any("Quant is an operator of QONNX" in warning and "1 node is" in warning for warning in warnings)
