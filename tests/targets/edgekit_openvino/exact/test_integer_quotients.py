"""Quotients and remainders of large integers, which OpenVINO divides in float32, against ONNX Runtime's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import edgekit_openvino

LEAST, GREATEST = -(2**31), 2**31 - 1
RANDOM = np.random.default_rng(0)
DIVIDENDS = [*RANDOM.integers(LEAST, GREATEST, 500), GREATEST, LEAST, GREATEST, LEAST, LEAST, 7, -7, GREATEST, LEAST]
DIVISORS = [*(RANDOM.integers(2**30, GREATEST, 500) >> np.arange(500) % 30), 2, 2, LEAST, LEAST, GREATEST, -2, 2, 1, 1]


@pytest.mark.parametrize("operator", ["Div", "Mod", "Mod <fmod = 1>"])
@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_large_integers(tmp_path: Path, kind: str, operator: str) -> None:
    name, _, options = operator.partition(" ")
    proto = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 18]> g ({kind}[n] a, {kind}[n] b) => ({kind}[n] y) '
        f"{{ y = {name} {options} (a, b) }}"
    )
    feeds = {"a": np.array(DIVIDENDS, kind), "b": np.array(DIVISORS, kind)}
    (expected,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, feeds)
    found = edgekit_openvino.load(edgekit_openvino.convert(proto, tmp_path / "model")).run(feeds)["y"]
    np.testing.assert_array_equal(found, expected)
