from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import edgekit_coreml
from edgekit.errors import UnsupportedOpsError


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize(("op_type", "opset"), [("CumSum", 14), ("CumProd", 26)])
def test_agrees(agrees, op_type, opset, dtype, axis, reverse, exclusive):
    x = np.array([[1, 2, 3, -1, 2], [4, 5, 1, 1, -2]], dtype)
    attributes = {"reverse": reverse, "exclusive": exclusive}
    agrees(op_type, [x, np.array(axis)], outputs=[dtype], opset=opset, against="reference", **attributes)


@pytest.mark.parametrize(
    ("exclusive", "reverse", "sums"),
    [(0, 0, [1, 2, 3, 4]), (1, 0, [0, 1, 2, 3]), (0, 1, [4, 3, 2, 1]), (1, 1, [3, 2, 1, 0])],
)
@pytest.mark.parametrize("dtype", ["int64", "float"])
def test_sums_of_ones_as_many_as_sizes_beside_an_open_one_tell(
    dtype: str, exclusive: int, reverse: int, sums: list[int], tmp_path: Path
) -> None:
    one = "1" if dtype == "int64" else "1.0"
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["": 18]> g (float[N, 4] x) => (float[N, 4] y)
        <{dtype} one = {{{one}}}, int64 axis = {{0}}, int64[1] first = {{1}}, int64[1] end = {{2}}> {{
            shape = Shape (x)
            count = Slice (shape, first, end)
            ones = Expand (one, count)
            sums = CumSum <exclusive = {exclusive}, reverse = {reverse}> (ones, axis)
            numbers = Cast <to = 1> (sums)
            y = Add (x, numbers)
        }}"""
    )
    converted = edgekit_coreml.convert(model, tmp_path / "model", precision="float32", dimensions={"N": range(1, 5)})
    found = edgekit_coreml.load(converted).run({"x": np.zeros((3, 4), np.float32)})["y"]
    np.testing.assert_array_equal(found, [sums] * 3)


@pytest.mark.parametrize("time_axis", [0, 1])
@pytest.mark.parametrize("fed", [[0], [0, 1]])
def test_reversed_sequences_agree(agrees, time_axis, fed):
    x = np.arange(32, dtype=np.float32).reshape(4, 4, 2)
    lengths = np.array([1, 4, 2, 3])
    agrees("ReverseSequence", [x, lengths], fed=fed, time_axis=time_axis, batch_axis=1 - time_axis)


@pytest.mark.parametrize(("mode", "places"), [("linear", [1, 2]), ("circular", [3, 0]), ("linear", None)])
def test_cache_is_written(agrees, rng, mode, places):
    cache = rng.standard_normal((2, 3, 4, 5)).astype(np.float32)
    update = rng.standard_normal((2, 3, 2, 5)).astype(np.float32)
    inputs = [cache, update] if places is None else [cache, update, np.array(places)]
    agrees("TensorScatter", inputs, fed=range(len(inputs)), opset=24, against="reference", mode=mode)


def test_one_axis_for_batches_and_times_is_refused(lower):
    with pytest.raises(UnsupportedOpsError, match="the same axis for batches and times: 1"):
        lower("ReverseSequence", [np.ones((4, 4), np.float32), np.ones(4, np.int64)], time_axis=1)
