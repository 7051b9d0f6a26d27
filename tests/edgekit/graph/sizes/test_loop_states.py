"""Lists that grow in a loop."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from edgekit.execution.reference import Reference
from edgekit.graph.sizes.shape_request import ShapeRequest
from edgekit.stages.fix_shapes import FixShapes
from edgekit.stages.load import Load

# TorchScript's exporter writes float[0] for the list inside of the loop, which is empty at first.
GROWING = """g (float[1] x, float[2] h) => (float[n] y, float[2] z) {
    yes = Constant <value = bool {1}> ()
    count = Constant <value = int64 {3}> ()
    none = Constant <value = float[0] {}> ()
    y, z = Loop (count, yes, none, h)
        <body = b (int64 i, bool k, float[0] list, float[2] s) => (bool more, float[m] longer, float[2] t) {
        more = Identity (k)
        longer = Concat <axis = 0> (list, x)
        t = Add (s, s)
    }>
}"""


def test_a_list_that_is_empty_at_first_may_grow(onnx_file: Callable[..., Path]) -> None:
    loaded = Load()(onnx_file(GROWING)).model
    (loop,) = (node for node in loaded.graph if node.op_type == "Loop")
    entries = loop.attributes["body"].as_graph().inputs
    assert [str(value.shape) for value in entries[2:]] == ["[None]", "[2]"]
    result = FixShapes(ShapeRequest())(loaded)
    assert not result.warnings
    found = Reference(result.model).run({"x": np.array([4.0], np.float32), "h": np.array([1.0, 2.0], np.float32)})
    np.testing.assert_array_equal(found["y"], [4.0, 4.0, 4.0])
    np.testing.assert_array_equal(found["z"], [8.0, 16.0])
