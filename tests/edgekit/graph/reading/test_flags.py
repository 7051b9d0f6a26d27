"""Numbers but 0 and 1 where only these are allowed, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnxruntime import InferenceSession

from edgekit.execution.reference import Reference
from edgekit.stages.load import Load

RNG = np.random.default_rng(5)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


POOL = "kernel_shape = [2, 2], strides = [2, 2], "
PADDED = "kernel_shape = [3, 3], pads = [1, 1, 1, 1], "
CASES = {
    "pool": ("MaxPool", POOL + "ceil_mode", "a, b, c, d", {"x": floats(1, 1, 5, 5)}),
    "average": ("AveragePool", POOL + "ceil_mode", "a, b, c, d", {"x": floats(1, 1, 5, 5)}),
    "padding": ("AveragePool", PADDED + "count_include_pad", "a, b, c, d", {"x": floats(1, 1, 4, 4)}),
    "reduction": ("ReduceMean", "keepdims", "", {"x": floats(2, 3)}),
    "place of the greatest": ("ArgMax", "axis = 1, keepdims = 0, select_last_index", "a", {"x": np.ones((2, 3), "f4")}),
    "least": ("TopK", "largest", "a", {"x": floats(5), "i": np.array([2])}),
    "product": ("Gemm", "transA", "a, b", {"x": floats(3, 3), "z": floats(3, 3)}),
    "triangle": ("Trilu", "upper", "a, b", {"x": floats(3, 3)}),
    "transform": ("DFT", "axis = 1, onesided", "a, b, c", {"x": floats(1, 6, 1)}),
    "inverse transform": ("DFT", "axis = 1, inverse", "a, b, c", {"x": floats(1, 6, 2)}),
    "grid": ("GridSample", "align_corners", "a, b, c, d", {"x": floats(1, 1, 4, 4), "z": floats(1, 3, 3, 2)}),
}


@pytest.mark.parametrize("number", [-1, 2])
@pytest.mark.parametrize("case", CASES)
def test_they_count_as_in_onnx_runtime(tmp_path, case: str, number: int) -> None:
    op_type, attributes, sizes, feeds = CASES[case]
    inputs = ", ".join(
        f"{'int64' if array.dtype == np.int64 else 'float'}[{', '.join(map(str, array.shape))}] {name}"
        for name, array in feeds.items()
    )
    kind = "int64" if op_type == "ArgMax" else "float"
    output = f"{kind}[{sizes}] y" if sizes else f"{kind} y"
    results = "y, places" if op_type == "TopK" else "y"
    proto = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 18]> g ({inputs}) => ({output})'
        f" {{ {results} = {op_type} <{attributes} = {number}> ({', '.join(feeds)}) }}"
    )
    expected = InferenceSession(proto.SerializeToString()).run(["y"], feeds)[0]
    (written,) = (each for each in proto.graph.node[0].attribute if each.i == number)
    onnx.save(proto, tmp_path / "m.onnx")
    loaded = Load()(tmp_path / "m.onnx")
    (told,) = loaded.warnings
    assert f"{op_type} 'y' has {number} for {written.name}, which is 0 or 1: it counts as " in told
    counts_as = loaded.model.graph[-1].attributes.get_int(written.name)
    assert counts_as in (0, 1)
    for other in (0, 1):
        written.i = other
        found = InferenceSession(proto.SerializeToString()).run(["y"], feeds)[0]
        assert np.array_equal(found, expected) == (other == counts_as)
    np.testing.assert_allclose(Reference(loaded.model).run(feeds)["y"], expected, rtol=1e-4, atol=1e-5)
