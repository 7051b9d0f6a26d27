"""Equations that OpenVINO does not load."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import onnx
import onnx_ir as ir
import openvino
import pytest

import edgekit_openvino
from edgekit.errors import UnsupportedOpsError
from edgekit.model import Model
from edgekit_openvino.frontend import convert_model

RANDOM = np.random.default_rng(0)
EQUATIONS = {
    "...ne,...n->...ne": [(1, 2, 5, 4), (1, 2, 5)],
    "...i,...j->...ij": [(2, 2, 3), (2, 2, 4)],
    "...de,...nd,...n->...ne": [(1, 2, 3, 4), (1, 2, 5, 3), (1, 2, 5)],
}
TAKEN = {
    "...id,...jd->...ij": [(1, 2, 3, 4), (1, 2, 5, 4)],
    "...ij,...i->...j": [(1, 2, 3, 4), (1, 2, 3)],
}


def built(equation: str) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    feeds = {
        name: RANDOM.standard_normal(shape).astype(np.float32)
        for name, shape in zip("abc", (EQUATIONS | TAKEN)[equation], strict=False)
    }
    inputs = ", ".join(f"float[{', '.join(map(str, array.shape))}] {name}" for name, array in feeds.items())
    rank = len(np.einsum(equation, *feeds.values()).shape)
    output = ", ".join(f"D{axis}" for axis in range(rank))
    text = f'({inputs}) => (float[{output}] y) {{ y = Einsum <equation = "{equation}"> ({", ".join(feeds)}) }}'
    return onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 17]>\ng {text}'), feeds


@pytest.mark.parametrize("equation", EQUATIONS)
def test_an_ellipsis_of_several_axes_in_products_of_elements(tmp_path, equation):
    """Performers and other linear attention divide by sums along the last axis this way."""
    model, feeds = built(equation)
    with pytest.raises(RuntimeError, match="inconsistent"):  # else OpenVINO has learned it: drop the entry
        openvino.compile_model(openvino.Core().read_model(model.SerializeToString()), "CPU")
    with pytest.raises(UnsupportedOpsError, match="cannot load an ellipsis of several axes"):
        convert_model(Model(ir.from_proto(model)))
    got = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model")).run(feeds)["y"]
    np.testing.assert_allclose(got, np.einsum(equation, *feeds.values()), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("equation", TAKEN)
def test_sums_along_an_axis_are_taken(tmp_path, equation):
    model, feeds = built(equation)
    convert_model(Model(ir.from_proto(model)))
    got = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model")).run(feeds)["y"]
    np.testing.assert_allclose(got, np.einsum(equation, *feeds.values()), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("equation", "shapes", "result"),
    [
        ("ii", [(4, 4)], ""),
        ("jii", [(2, 3, 3)], "j"),
        ("ii,j", [(3, 3), (2,)], "j"),
        ("bii,bj", [(2, 3, 3), (2, 4)], "j"),
        ("...iij,j", [(2, 3, 3, 4), (4,)], "..."),
        ("iij,j,k", [(3, 3, 2), (2,), (5,)], "k"),
    ],
)
def test_a_trace_without_a_named_result(tmp_path, equation, shapes, result):
    """NumPy, PyTorch and ONNX add up along an axis that such an equation names twice."""
    feeds = {name: RANDOM.standard_normal(shape).astype(np.float32) for name, shape in zip("abc", shapes, strict=False)}
    expected = np.einsum(f"{equation}->{result}", *feeds.values())
    inputs = ", ".join(f"float[{', '.join(map(str, array.shape))}] {name}" for name, array in feeds.items())
    output = ", ".join(map(str, expected.shape))
    model = onnx.parser.parse_model(
        f"""<ir_version: 9, opset_import: ["" : 17]>
        g ({inputs}) => (float[{output}] y) {{ y = Einsum <equation = "{equation}"> ({", ".join(feeds)}) }}"""
    )
    with pytest.raises(UnsupportedOpsError, match="names twice"):
        convert_model(Model(ir.from_proto(model)))
    got = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model")).run(feeds)["y"]
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


SEVERAL = "bclhn,bcshn,bhcls,bcshp->bclhp"
"""What a chunk of Mamba 2 computes."""


def test_products_of_several_tensors_of_open_sizes(tmp_path):
    sizes = {"b": 2, "c": 3, "l": 4, "s": 5, "h": 2, "n": 6, "p": 7}
    operands = SEVERAL.partition("->")[0].split(",")
    feeds = {
        name: RANDOM.standard_normal([sizes[letter] for letter in letters]).astype(np.float32)
        for name, letters in zip("wxyz", operands, strict=True)
    }
    given = [
        f"float[{', '.join('batch' if letter == 'b' else str(sizes[letter]) for letter in letters)}] {name}"
        for name, letters in zip("wxyz", operands, strict=True)
    ]
    model = onnx.parser.parse_model(
        f"""<ir_version: 9, opset_import: ["" : 17]> g ({", ".join(given)}) => (float[A, C, L, H, P] r)
            {{ r = Einsum <equation = "{SEVERAL}"> (w, x, y, z) }}"""
    )
    expected = np.einsum(SEVERAL, *feeds.values())
    with pytest.raises(UnsupportedOpsError, match="computes such a product of several tensors of open sizes wrong"):
        convert_model(Model(ir.from_proto(model)))  # what OpenVINO gives alone is another number each time, or NaN

    got = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model")).run(feeds)["r"]

    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


EMPTY = {"...ii->...i": [(0, 5, 5)], "ij,jk->ik": [(2, 0), (0, 3)], "bij,bjk->bik": [(0, 2, 5), (0, 5, 3)]}
COMPILE = "import sys, openvino; openvino.compile_model(sys.argv[1], 'CPU')"


@pytest.mark.parametrize("equation", EMPTY)
def test_tensors_without_elements(tmp_path, equation):
    feeds = {name: np.zeros(shape, np.float32) for name, shape in zip("ab", EMPTY[equation], strict=False)}
    expected = np.einsum(equation, *feeds.values())
    inputs = ", ".join(f"float[{', '.join(map(str, array.shape))}] {name}" for name, array in feeds.items())
    output = ", ".join(map(str, expected.shape))
    text = f'({inputs}) => (float[{output}] y) {{ y = Einsum <equation = "{equation}"> ({", ".join(feeds)}) }}'
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 17]>\ng {text}')
    onnx.save(model, tmp_path / "model.onnx")
    ended = subprocess.run([sys.executable, "-c", COMPILE, tmp_path / "model.onnx"], capture_output=True, check=False)
    assert ended.returncode  # 1 or below zero; else OpenVINO has learned it: drop the entry
    got = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model")).run(feeds)["y"]
    np.testing.assert_array_equal(got, expected)


def test_8_bits_are_refused(tmp_path):
    """OpenVINO's products stop at the greatest integer, where ONNX's wrap around."""
    text = '(uint8[2, 3] a, uint8[3, 2] b) => (uint8[2, 2] y) { y = Einsum <equation = "ij,jk->ik"> (a, b) }'
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 17]>\ng {text}')
    feeds = [np.full((2, 3), 20, np.uint8), np.full((3, 2), 20, np.uint8)]
    compiled = openvino.compile_model(openvino.Core().read_model(model.SerializeToString()), "CPU")
    assert compiled(feeds)[0].tolist() != np.einsum("ij,jk->ik", *feeds).tolist()
    with pytest.raises(UnsupportedOpsError, match="8-bit integers saturate instead of wrapping around"):
        edgekit_openvino.convert(model, tmp_path / "model")
