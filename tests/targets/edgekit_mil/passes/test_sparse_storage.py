"""Weights that are mostly zeros: stored as a mask and the numbers that are not zero, without loss."""

from __future__ import annotations

from pathlib import Path

import coremltools
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


def test_zeros_with_a_sign_as_a_mask_leaves_them_are_zeros_of_a_product(tmp_path: Path) -> None:
    bank = _filter_bank(0.1) - 0.5
    pruned = bank * (np.abs(bank) != 0.5)  # -0.0 where it was -0.5
    assert np.signbit(pruned[pruned == 0]).all()
    heads_and_padding = 4 * 64 + 64
    assert abs(_bytes(_converted(pruned, tmp_path, "iOS18")) - 0.525 * ELEMENTS) < heads_and_padding


def test_zeros_with_a_sign_stay_where_elements_are_handed_out(tmp_path: Path) -> None:
    table = np.where(_filter_bank(0.1) == 0, np.float32(-0.0), 1)
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]> g (int64[2] i) => (float[2, {COLUMNS}] y) {{ y = Gather(w, i) }}"""
    )
    model.graph.initializer.append(onnx.numpy_helper.from_array(table, "w"))
    package = edgekit_coreml.convert(model, tmp_path / "m", precision="float32")
    found = edgekit_coreml.load(package).run({"i": np.array([0, 5])})["y"]
    np.testing.assert_array_equal(np.signbit(found), np.signbit(table[[0, 5]]))


def _quantized(levels: np.ndarray, scale: np.ndarray) -> onnx.ModelProto:
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]> g (float[1, {ROWS}] x) => (float[1, {COLUMNS}] y)
        {{ w = DequantizeLinear <axis = 1> (levels, scale) y = MatMul(x, w) }}"""
    )
    weights = {"levels": levels, "scale": scale}
    model.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in weights.items())
    return model


@pytest.mark.parametrize(
    ("system", "values", "share", "bytes_each"),
    [
        ("iOS18", 255, 0.1, 1 / 8 + 0.1),
        ("iOS17", 255, 0.1, 1.0),  # has no scale for sparse integers
        ("iOS18", 255, 0.6, 1.0),
        ("iOS18", 3, 0.3, 2 / 8),  # indices into a palette take less
        ("iOS18", 3, 0.02, 1 / 8 + 0.02),
    ],
)
def test_integers_that_are_mostly_zeros(
    system: str, values: int, share: float, bytes_each: float, tmp_path: Path
) -> None:
    rng = np.random.default_rng(3)
    levels = np.where(_filter_bank(share) != 0, rng.integers(1, (values - 1) // 2, (ROWS, COLUMNS), endpoint=True), 0)
    levels = (levels * rng.choice([-1, 1], levels.shape)).astype(np.int8)
    scale = rng.uniform(0.01, 0.02, COLUMNS).astype(np.float32)
    package = edgekit_coreml.convert(
        _quantized(levels, scale), tmp_path / "m", deployment_target=system, precision="float32"
    )
    heads_padding_and_scales = 5 * 64 + 64 + 4 * COLUMNS
    assert abs(_bytes(package) - bytes_each * ELEMENTS) < heads_padding_and_scales
    x = rng.standard_normal((1, ROWS)).astype(np.float32)
    expected = x @ (levels * scale)
    np.testing.assert_allclose(edgekit_coreml.load(package).run({"x": x})["y"], expected, rtol=1e-4, atol=1e-4)
    told = coremltools.models.MLModel(str(package), skip_model_load=True)
    plain = coremltools.optimize.coreml.decompress_weights(told)._mil_program.functions["main"]
    (product,) = plain.find_ops(op_type="matmul")
    np.testing.assert_allclose(product.y.val, levels * scale, rtol=1e-6)
