"""Ranges whose borders are computed, against ONNX Runtime: a step away from the limit gives no numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgekit.model import Model
from edgekit_openvino.frontend import convert_model
from tests.targets.edgekit_openvino.exact.three_ways import as_read, converted, expected

AWAY = {"up": (2, 0, 1), "down": (-1, 3, -1), "from a number to itself": (2, 2, 1)}
TOWARDS = {"up": (0, 5, 2), "down": (5, 0, -2), "one number": (0, 1, 2)}


def range_of(kind: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 17]> g ({kind} start, {kind} limit, {kind} step) => ({kind}[N] y)'
        " { y = Range (start, limit, step) }"
    )


@pytest.mark.parametrize("kind", ["float", "int32", "int64"])
@pytest.mark.parametrize("borders", [*AWAY.values(), *TOWARDS.values()], ids=str)
def test_it_is_as_in_onnx_runtime(borders: tuple[int, int, int], kind: str, tmp_path: Path) -> None:
    model = range_of(kind)
    dtype = np.dtype(kind.replace("float", "float32"))
    feeds = dict(zip(("start", "limit", "step"), (np.array(number, dtype) for number in borders), strict=True))
    np.testing.assert_array_equal(converted(model, feeds, tmp_path), expected(model, feeds))


def test_openvino_still_counts_the_distance(tmp_path: Path) -> None:
    feeds = {name: np.array(number) for name, number in zip(("start", "limit", "step"), AWAY["up"], strict=True)}
    np.testing.assert_array_equal(as_read(range_of("int64"), feeds, tmp_path), [2, 3])


@pytest.mark.parametrize(
    ("limit", "is_left"), [("Size (x)", True), ("Mul (size, size)", True), ("Sub (size, three)", False)]
)
def test_a_range_from_0_to_a_size_is_left_unchanged(limit: str, is_left: bool, tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17]> g (float[N] x) => (int64[M] y)'
        " <int64 zero = {0}, int64 one = {1}, int64 three = {3}>"
        f" {{ size = Size (x) limit = {limit} y = Range (zero, limit, one) }}"
    )
    feeds = {"x": np.zeros(2, np.float32)}
    np.testing.assert_array_equal(converted(model, feeds, tmp_path), expected(model, feeds))
    network = convert_model(Model(ir.from_proto(model))).network
    assert ("Select" not in {node.get_type_name() for node in network.get_ops()}) is is_left


def test_a_window_whose_size_is_computed_counts_floats_up_to_an_integer(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17]> g (int64 size) => (float[N] y) { y = BlackmanWindow (size) }'
    )
    feeds = {"size": np.array(6)}
    np.testing.assert_allclose(converted(model, feeds, tmp_path), expected(model, feeds), atol=1e-6)
