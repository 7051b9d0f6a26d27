from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from edgekit.graph.simplification.known_optionals import unwrap_known_optionals
from edgekit.model import Arrays

X = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
PRIOR = np.array([0.5, 0.25, 4], np.float32)
MODELS = {
    "a tensor that a branch takes out of an optional value": (
        "(float[n, 3] x, float[3] prior, bool wanted) => (float[n, 3] y) {"
        " maybe = Optional (prior)"
        " there = OptionalHasElement (maybe)"
        " taken = And (there, wanted)"
        " y = If (taken) <then_branch = yes () => (float[n, 3] a) { v = OptionalGetElement (maybe) a = Mul (x, v) },"
        " else_branch = no () => (float[n, 3] b) { b = Neg (x) }> }",
        [{"x": X, "prior": PRIOR, "wanted": np.array(wanted)} for wanted in (True, False)],
    ),
    "an output that is the element": (
        "(float[n, 3] x) => (float[n, 3] y, bool there) {"
        " maybe = Optional (x) y = OptionalGetElement (maybe) there = OptionalHasElement (maybe) }",
        [{"x": X}],
    ),
    "a tensor without a wrapper": (
        "(float[n, 3] x) => (float[n, 3] y, bool there) { y = OptionalGetElement (x) there = OptionalHasElement (x) }",
        [{"x": X}],
    ),
    "an input that is left out": ("(float[n, 3] x) => (bool there) { there = OptionalHasElement () }", [{"x": X}]),
    "a sequence": (
        "(float[n, 3] x) => (float[n, 3] y, bool there) {"
        " several = SequenceConstruct (x, x) maybe = Optional (several) there = OptionalHasElement (maybe)"
        " items = OptionalGetElement (maybe) place = Constant <value_int = 1> () y = SequenceAt (items, place) }",
        [{"x": X}],
    ),
}


def inferred(body: str) -> onnx.ModelProto:
    parsed = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 18]> g {body}')
    return onnx.shape_inference.infer_shapes(parsed)


def run(model: onnx.ModelProto, feeds: Arrays) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, dict(feeds))


@pytest.mark.parametrize(("body", "samples"), MODELS.values(), ids=MODELS)
def test_what_is_known_of_optional_values_is_answered(body: str, samples: list[Arrays]) -> None:
    before = inferred(body)
    model = ir.from_proto(before)
    unwrap_known_optionals(model)
    assert not [node for node in model.graph.all_nodes() if node.op_type.startswith("OptionalHas")]
    assert not [node for node in model.graph.all_nodes() if node.op_type.startswith("OptionalGet")]
    for feeds in samples:
        for found, expected in zip(run(ir.to_proto(model), feeds), run(before, feeds), strict=True):
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected)


def test_what_a_run_tells_stays() -> None:
    body = "(optional(float[3]) x) => (bool there) { there = OptionalHasElement (x) }"
    model = ir.from_proto(inferred(body))
    unwrap_known_optionals(model)
    assert [node.op_type for node in model.graph] == ["OptionalHasElement"]


def test_an_element_that_is_not_there_is_not_made_up() -> None:
    body = (
        "(float[n, 3] x) => (float[n, 3] y) {"
        " maybe = Optional <type: type_proto = float[3]> () there = OptionalHasElement (maybe)"
        " y = If (there) <then_branch = yes () => (float[n, 3] a) { v = OptionalGetElement (maybe) a = Mul (x, v) },"
        " else_branch = no () => (float[n, 3] b) { b = Neg (x) }> }"
    )
    before = inferred(body)
    model = ir.from_proto(before)
    unwrap_known_optionals(model)
    left = [node.op_type for node in model.graph.all_nodes() if node.op_type.startswith("Optional")]
    assert left == ["Optional", "OptionalGetElement"]
    np.testing.assert_array_equal(run(ir.to_proto(model), {"x": X})[0], run(before, {"x": X})[0])
