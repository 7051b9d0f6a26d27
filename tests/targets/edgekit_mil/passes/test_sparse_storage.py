"""Weights that are mostly zeros: stored as a mask and the numbers that are not zero, without loss."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import edgekit_coreml

ROWS, COLUMNS = 64, 80
ELEMENTS = ROWS * COLUMNS


def _filter_bank(share: float) -> np.ndarray:
    """float32 ``[ROWS, COLUMNS]``, of which a share is not zero."""
    rng = np.random.default_rng(1)
    bank = np.zeros(ELEMENTS, np.float32)
    bank[rng.choice(ELEMENTS, round(share * ELEMENTS), replace=False)] = rng.uniform(0.1, 1, round(share * ELEMENTS))
    return bank.reshape(ROWS, COLUMNS)


def _model(bank: np.ndarray) -> onnx.ModelProto:
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[1, {ROWS}] x) => (float[1, {COLUMNS}] y) {{ y = MatMul(x, w) }}"""
    )
    model.graph.initializer.append(onnx.numpy_helper.from_array(bank, "w"))
    return model


def _converted(bank: np.ndarray, folder: Path, system: str, precision: str = "float32") -> Path:
    package = edgekit_coreml.convert(_model(bank), folder / "m", deployment_target=system, precision=precision)
    x = np.random.default_rng(2).standard_normal((1, ROWS)).astype(np.float32)
    (expected,) = onnxruntime.InferenceSession(_model(bank).SerializeToString()).run(None, {"x": x})
    close = 1e-5 if precision == "float32" else 1e-2
    np.testing.assert_allclose(edgekit_coreml.load(package).run({"x": x})["y"], expected, rtol=close, atol=close)
    return package


def _bytes(package: Path) -> int:
    return sum(file.stat().st_size for file in package.rglob("weight.bin"))


@pytest.mark.parametrize("system", ["iOS16", "iOS17", "iOS18"])
@pytest.mark.parametrize(("precision", "width"), [("float32", 4), ("float16", 2)])
def test_a_tenth_of_the_numbers_and_a_bit_for_each_element(
    system: str, precision: str, width: int, tmp_path: Path
) -> None:
    package = _converted(_filter_bank(0.1), tmp_path, system, precision)
    heads_and_padding = 4 * 64 + 64
    assert abs(_bytes(package) - (ELEMENTS / 8 + 0.1 * ELEMENTS * width)) < heads_and_padding


@pytest.mark.parametrize("share", [0.6, 0.0])
def test_dense_stay_those_that_gain_little_and_those_without_a_number(share: float, tmp_path: Path) -> None:
    assert _bytes(_converted(_filter_bank(share), tmp_path, "iOS18")) >= 4 * ELEMENTS
