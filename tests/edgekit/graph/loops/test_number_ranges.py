from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgekit.graph.loops.number_ranges import range_of

INF = np.inf
MODEL = """<ir_version: 9, opset_import: ["": 17]>
g (int32 i, int64 n, float f, bool c, int32[2] pair) => (int32[N] y)
    <int32[1] none = {{0}}, int32[2] some = {{3, 9}}, float[2] far = {{1e9, 8}}, int64 big = {{4294967301}}> {{
    axes = Constant <value_ints = [0]> ()
    {nodes}
}}"""


@pytest.mark.parametrize(
    ("nodes", "wanted"),
    [
        pytest.param("v = Unsqueeze (i, axes)  y = Concat <axis = 0> (none, v)", [(0, 0), (-INF, INF)], id="joined"),
        pytest.param("y = Max (pair, some)", [(3, INF), (9, INF)], id="at least"),
        pytest.param("y = Min (i, some)", [(-INF, 3), (-INF, 9)], id="at most"),
        pytest.param("a = Cast <to = 1> (pair)  y = Max (a, far)", [(1e9, INF), (8, INF)], id="as floats"),
        pytest.param(
            "a = Cast <to = 1> (pair)  b = Max (a, far)  y = Cast <to = 6> (b)", [(1e9, INF), (8, INF)], id="and back"
        ),
        pytest.param("a = Max (n, big)  y = Cast <to = 6> (a)", None, id="digits are lost"),
        pytest.param("a = Cast <to = 10> (far)  y = Min (a, a)", [(INF, INF), (8, 8)], id="beyond half floats"),
        pytest.param("y = Where (c, some, none)", [(0, 3), (0, 9)], id="one of two"),
        pytest.param("a = Less (none, some)  y = Where (a, some, pair)", [(3, 3), (9, 9)], id="the first"),
        pytest.param(
            "a = Greater (none, some)  b = And (a, c)  y = Where (b, pair, some)", [(3, 3), (9, 9)], id="the second"
        ),
        pytest.param("a = Less (pair, some)  b = Not (a)  y = Or (b, c)", [(0, 1), (0, 1)], id="unknown truth values"),
        pytest.param("y = Squeeze (none, axes)", [(0, 0)], id="a scalar"),
        pytest.param("y = Add (pair, some)", [(-INF, INF), (-INF, INF)], id="another operator"),
    ],
)
def test_the_numbers_between_which_elements_lie(nodes, wanted) -> None:
    model = onnx.shape_inference.infer_shapes(onnx.parser.parse_model(MODEL.format(nodes=nodes)))
    found = range_of(ir.from_proto(model).graph.outputs[0])
    pairs = None if found is None else list(zip(found.low.reshape(-1), found.high.reshape(-1), strict=True))
    assert pairs == wanted
