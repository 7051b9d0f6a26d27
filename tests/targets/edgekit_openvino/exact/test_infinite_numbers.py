"""Infinite numbers of models with open sizes: OpenVINO finds none behind arithmetic, converted models find them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import openvino
import pytest

import edgekit_openvino
from tests.targets.edgekit_openvino.exact.three_ways import as_read, converted, expected

X = np.array([[0, -0.0, 1, 3e38, -3e38], [np.inf, -np.inf, np.nan, 100, -100]], np.float32)


def model(body: str, rows: int | str) -> onnx.ModelProto:
    return onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]>\ng (float[{rows}, 5] x) => (bool[{rows}, 5] y) '
        f"<float one = {{1}}> {{ {body} }}"
    )


@pytest.mark.parametrize(
    "body",
    [
        "d = Div (one, x)  y = IsInf (d)",
        "d = Exp (x)  y = IsInf <detect_negative = 0> (d)",
        "d = Mul (x, x)  y = IsInf (d)",
        "d = Div (one, x)  y = IsInf <detect_positive = 0> (d)",
    ],
)
def test_behind_arithmetic(body: str, tmp_path: Path) -> None:
    right = expected(model(body, "N"), {"x": X})
    assert right.any()
    assert (as_read(model(body, "N"), {"x": X}, tmp_path) != right).any()  # OpenVINO is still wrong
    for rows in ("N", 2):
        np.testing.assert_array_equal(converted(model(body, rows), {"x": X}, tmp_path), right)


@pytest.mark.parametrize("asked", ["", "<detect_negative = 0>", "<detect_negative = 0, detect_positive = 0>"])
def test_of_an_input(asked: str, tmp_path: Path) -> None:
    proto = model(f"y = IsInf {asked} (x)", "N")
    np.testing.assert_array_equal(converted(proto, {"x": X}, tmp_path), expected(proto, {"x": X}))


def test_half_precision_is_left_to_the_plugin(tmp_path: Path) -> None:
    proto = model("h = Cast <to = 10> (x)  y = IsInf (h)", "N")
    path = edgekit_openvino.convert(proto, tmp_path / "model")
    kinds = [operation.get_type_name() for operation in openvino.Core().read_model(path).get_ordered_ops()]
    assert "IsInf" in kinds
