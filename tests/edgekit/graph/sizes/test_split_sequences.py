from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from edgekit.graph.sizes.shapes import fold_shapes, infer_shapes
from edgekit.stages.load import Load

WriteOnnx = Callable[..., Path]
X = np.random.default_rng(5).standard_normal((2, 6)).astype(np.float32)


def run(model: Path | onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    serialized = str(model) if isinstance(model, Path) else model.SerializeToString()
    return onnxruntime.InferenceSession(serialized, providers=["CPUExecutionProvider"]).run(None, feeds)


@pytest.mark.parametrize("opset", [12, 13, 17, 18, 20])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize(
    ("lengths", "keepdims_of_runtime"),
    [
        ("size", [1]),  # ONNX Runtime refuses parts of several numbers without an axis
        ("l = Constant <value = int64 {2}> ()", [1]),
        ("l = Constant <value = int64[2] {1, 5}> ()", [0, 1]),
        ("sizes", [0, 1]),
    ],
)
def test_splits_into_sequences_stay_what_they_are(
    onnx_file: WriteOnnx, opset: int, keepdims: int, lengths: str, keepdims_of_runtime: list[int]
) -> None:
    if keepdims not in keepdims_of_runtime:
        pytest.skip("ONNX Runtime does not execute it")
    made, read = (lengths, "l") if "Constant" in lengths else ("", lengths)
    path = onnx_file(
        f"""g (float[2, 6] x, int64 size, int64[2] sizes) => (float[2, m] y, int64 n) {{
        {made} s = SplitToSequence <axis = 1, keepdims = {keepdims}> (x, {read})
        one = Constant <value = int64 {{1}}> () y = SequenceAt (s, one) n = SequenceLength (s) }}"""
    )
    proto = onnx.load(path)
    proto.opset_import[0].version = opset
    onnx.save(proto, path)
    feeds = {"x": X, "size": np.array(2), "sizes": np.array([2, 4])}
    expected = run(path, feeds)
    folded = fold_shapes(infer_shapes(Load()(path).model, strict=False))
    assert {node.domain for node in folded.graph} == {""}
    for found, array in zip(run(folded.proto(), feeds), expected, strict=True):
        np.testing.assert_array_equal(found, array)
