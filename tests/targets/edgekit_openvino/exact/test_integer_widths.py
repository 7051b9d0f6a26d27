"""Casts that drop bits, against NumPy's, which drop them as the ONNX standard says."""

from pathlib import Path

import numpy as np
import onnx
import pytest

import edgekit_openvino
from edgekit_openvino.exact import integer_widths

RANDOM = np.random.default_rng(0)
ENDS = [
    0,
    1,
    -1,
    -300,
    -129,
    127,
    128,
    255,
    256,
    -32768,
    32767,
    32768,
    40000,
    65535,
    70000,
    -70000,
    2**31 - 1,
    -(2**31),
]
X = np.concatenate([np.array(ENDS, np.int64), RANDOM.integers(-(2**31), 2**31, 500)])
WIDER = [("int16", "uint16"), ("uint16", "int16"), ("int8", "uint16")]


def computed(folder: Path, source: str, result: str, body: str, x: np.ndarray) -> np.ndarray:
    text = f'<ir_version: 9, opset_import: ["" : 18]> g ({source}[n] x) => ({result}[n] y) {{ {body} }}'
    runner = edgekit_openvino.load(edgekit_openvino.convert(onnx.parser.parse_model(text), folder / "model"))
    return np.asarray(runner.run({"x": x})["y"])


def element_type(name: str) -> int:
    return onnx.helper.np_dtype_to_tensor_dtype(np.dtype(name))


@pytest.mark.parametrize(
    ("source", "narrow"), [*((s, n) for s in ("int64", "int32", "uint32") for n in ("int16", "uint16")), *WIDER]
)
def test_integers_of_sixteen_bits_wrap(tmp_path: Path, source: str, narrow: str) -> None:
    body = f"c = Cast <to = {element_type(narrow)}> (x) y = Cast <to = 1> (c)"
    x = X.astype(source)
    np.testing.assert_array_equal(computed(tmp_path, source, "float", body, x), x.astype(narrow).astype(np.float32))


@pytest.mark.parametrize("source", ["int64", "int32", "int16", "int8"])
def test_unsigned_integers_of_signed_ones_as_floats(tmp_path: Path, source: str) -> None:
    body = f"c = Cast <to = {element_type('uint32')}> (x) y = Cast <to = 1> (c)"
    x = X.astype(source)
    np.testing.assert_array_equal(computed(tmp_path, source, "float", body, x), x.astype(np.uint32).astype(np.float32))


def test_wrapped_integers_are_numbers_that_are_computed_with(tmp_path: Path) -> None:
    body = f"c = Cast <to = {element_type('uint16')}> (x) d = Cast <to = {element_type('int32')}> (c) y = Add (d, d)"
    x = X.astype(np.int32)
    np.testing.assert_array_equal(
        computed(tmp_path, "int32", "int32", body, x), x.astype(np.uint16).astype(np.int32) * 2
    )


def test_what_enters_is_not_looked_for_where_all_integers_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model with weights in 8 bits has a conversion for each: a walk to the inputs for every one takes seconds."""
    from openvino import opset13

    def walked(operation: object) -> bool:
        raise AssertionError("the graph was walked")

    monkeypatch.setattr(integer_widths, "may_be_large", walked)
    stored = opset13.parameter([1, 4], np.int8)
    assert not integer_widths.keep_width(opset13.convert(stored, "f32"))
    assert not integer_widths.keep_width(opset13.convert(stored, "i16"))
    with pytest.raises(AssertionError, match="walked"):
        integer_widths.keep_width(opset13.convert(opset13.parameter([1, 4], np.int32), "i16"))
