from __future__ import annotations

import numpy as np
import onnx
import pytest

from edgekit.errors import UnsupportedOpsError

FLOATS = np.array([-2.7, -0.4, 0.0, 0.6, 3.9], np.float32)


def element_type(name):
    return int(onnx.helper.np_dtype_to_tensor_dtype(np.dtype(name)))


@pytest.mark.parametrize("target", ["float16", "float64", "int8", "int32", "int64", "bool"])
def test_floats_are_converted(agrees, target):
    agrees("Cast", [FLOATS], outputs=[target], to=element_type(target))


@pytest.mark.parametrize("target", ["float32", "int8", "uint8", "int16", "uint16", "int64", "bool"])
def test_integers_are_converted(agrees, target):
    agrees("Cast", [np.array([-300, -1, 0, 7, 70000], np.int32)], outputs=[target], to=element_type(target))


@pytest.mark.parametrize("target", ["float32", "int32", "uint8"])
def test_truth_values_are_converted(agrees, target):
    agrees("Cast", [np.array([True, False])], outputs=[target], to=element_type(target))


@pytest.mark.parametrize(("wide", "narrow"), [("uint8", "int8"), ("int8", "uint8"), ("uint16", "int16")])
def test_signs_change_before_they_are_read(convert_graph, wide, narrow):
    nodes = [
        onnx.helper.make_node("Cast", ["x"], ["n"], to=element_type(narrow)),
        onnx.helper.make_node("Cast", ["n"], ["y"], to=onnx.TensorProto.FLOAT),
    ]
    x = np.array([np.iinfo(wide).max, 5, np.iinfo(wide).min], wide)
    found = convert_graph(nodes, {"x": x}, {"y": "float32"}).run({"x": x})["y"]
    np.testing.assert_array_equal(found, x.view(narrow).astype(np.float32))


def test_half_rounds(lower):
    (half,) = lower("Cast", [np.array([1.0001, 2049.0], np.float32)], outputs=["float16"], to=element_type("float16"))
    np.testing.assert_array_equal(half, np.array([1.0, 2048.0], np.float16))


def test_type_of_another_tensor_is_taken(agrees):
    agrees("CastLike", [FLOATS, np.zeros(1, np.int64)], outputs=["int64"], fed=[0, 1], against="reference")


def test_bits_of_integers_are_reinterpreted(agrees):
    x = np.array([0, 127, 128, 255], np.uint8)
    agrees("BitCast", [x], outputs=["int8"], opset=26, against="reference", to=element_type("int8"))


def test_bits_of_floats_are_refused(lower):
    with pytest.raises(UnsupportedOpsError, match="bits of a number"):
        lower("BitCast", [FLOATS], outputs=["int32"], opset=26, to=element_type("int32"))
