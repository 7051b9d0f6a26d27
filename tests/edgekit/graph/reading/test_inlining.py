"""Functions are inlined in time that grows with the nodes that come of them, and compute what they computed."""

from __future__ import annotations

import time

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import helper, parser

from edgekit.graph.reading.inlining import inline_functions


def run(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"x": x})[0])


def inlined(model: onnx.ModelProto) -> onnx.ModelProto:
    graph_model = ir.from_proto(model)
    inline_functions(graph_model)
    assert not graph_model.functions
    return ir.to_proto(graph_model)


def doubling(depth: int) -> onnx.ModelProto:
    """Functions that each call the one before twice; the first adds one: 2 to the power of ``depth`` is added."""
    texts = [
        f"""<domain: "own", opset_import: ["" : 17, "own" : 1]>
        f{level} (p) => (q) {{ v = own.f{level - 1} (p) q = own.f{level - 1} (v) }}"""
        for level in range(1, depth + 1)
    ]
    first = """<domain: "own", opset_import: ["" : 17]>
        f0 (p) => (q) { one = Constant <value = float {1}> () q = Add (p, one) }"""
    main = f"""<ir_version: 8, opset_import: ["" : 17, "own" : 1]>
        g (float[2] x) => (float[2] y) {{ y = own.f{depth} (x) }}"""
    return parser.parse_model("\n".join([main, *texts[::-1], first]))


def test_calls_that_double_take_time_in_proportion_to_their_nodes() -> None:
    model = doubling(12)
    start = time.process_time()
    done = inlined(model)
    assert time.process_time() - start < 5  # a name that counts up from the first took 18 s
    assert len(done.graph.node) == 2 * 2**12
    names = [name for node in done.graph.node for name in node.output]
    assert len(set(names)) == len(names)
    np.testing.assert_array_equal(run(done, np.zeros(2, np.float32)), [2**12, 2**12])


def test_attributes_and_bodies_of_functions_stay_right() -> None:
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17, "own" : 1]>
        g (float[2] x) => (float[2] y) { a = own.outer <k = 0> (x) y = own.outer <k = 1> (a) }
        <domain: "own", opset_import: ["" : 17, "own" : 1]>
        outer <k> (p) => (q) {
            s = own.inner (p)
            c = Constant <value_int: int = @k> ()
            go = Cast <to = 9> (c)
            q = If (go) <then_branch = yes () => (t) { t = Mul (s, s) }, else_branch = no () => (e) { e = Add (s, p) }>
        }
        <domain: "own", opset_import: ["" : 17]>
        inner (p) => (q) { q = Neg (p) }"""
    )
    x = np.float32([3, -2])
    expected = run(model, x)
    np.testing.assert_array_equal(expected, [0, 0])  # -x + x, then its square
    np.testing.assert_array_equal(run(inlined(model), x), expected)


def test_a_function_of_another_opset_is_told() -> None:
    model = doubling(2)
    model.functions[-1].opset_import[0].CopyFrom(helper.make_opsetid("", 12))
    with pytest.raises(Exception, match=r"(?i)opset mismatch"):
        inlined(model)


VERSIONS = """<ir_version: 8, opset_import: ["" : {model}, "own" : 1]>
g (float[2, 4] x) => (float[2, 4] y) {{ a = own.outer (x) y = Identity (a) }}
<domain: "own", opset_import: ["" : {outer}, "own" : 1]>
outer (p) => (q) {{ s = own.inner (p) q = Neg (s) }}
<domain: "own", opset_import: ["" : {inner}]>
inner (p) => (q) {{ t = Cast <to = 1> (p) q = Mul (t, t) }}"""


@pytest.mark.parametrize(("model", "outer", "inner"), [(18, 16, 14), (16, 18, 14), (17, 17, 18)])
def test_functions_of_other_operator_sets_with_the_same_operators(model: int, outer: int, inner: int) -> None:
    """skl2onnx writes each function of an imputer in the operator set that it was made for."""
    proto = parser.parse_model(VERSIONS.format(model=model, outer=outer, inner=inner))
    done = inlined(proto)
    assert [each.version for each in done.opset_import if not each.domain] == [model]
    x = np.float32([[1, -2, 3, 0.5], [-4, 1, 0, 2]])
    np.testing.assert_array_equal(run(done, x), run(proto, x))
