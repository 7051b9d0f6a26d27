from __future__ import annotations

import numpy as np
import onnx.parser
import onnx_ir as ir
import onnxruntime
import pytest

from edgekit.graph.reading import negative_axes
from edgekit.graph.reading.negative_axes import with_positive_axes
from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.model import Model

X = np.random.default_rng(0).standard_normal((2, 3, 1)).astype(np.float32)


def _model(body: str, opset: int) -> Model:
    text = f'<ir_version: 8, opset_import: ["" : {opset}]> g (float[2, 3, 1] x) => (float y) {{ {body} }}'
    proto = onnx.parser.parse_model(text)
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    return Model(ir.from_proto(proto))


def _run(model: Model) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.proto().SerializeToString(), options)
    return np.asarray(session.run(None, {"x": X})[0])


@pytest.mark.parametrize("opset", [9, 10])
@pytest.mark.parametrize(
    "body",
    [
        "y = Concat <axis = -1> (x, x)",
        "y = Squeeze <axes = [-1]> (x)",
        "y = Unsqueeze <axes = [-1, 0]> (x)",
        "y = ReduceMean <axes = [-2], keepdims = 0> (x)",
        "y = Softmax <axis = -2> (x)",
        "y, z = Split <axis = -2, split = [1, 2]> (x)",
        "a = Squeeze <axes = [-1]> (x) b = Unsqueeze <axes = [-1]> (a) c = Concat <axis = -1> (b, x) "
        "d = ReduceMean <axes = [-3]> (c) e = Squeeze <axes = [-3]> (d) y = Concat <axis = -1> (e, e)",
    ],
)
def test_the_shape_is_what_onnx_runtime_makes(body: str, opset: int) -> None:
    model = _model(body, opset)
    changed = with_positive_axes(model)
    of_given, of_changed = _run(model), _run(changed)
    np.testing.assert_array_equal(of_changed, of_given)
    output = infer_shapes(changed).graph.outputs[0]
    assert output.shape is not None
    assert tuple(output.shape) == of_given.shape


@pytest.mark.parametrize(
    ("squeeze", "rounds"),
    [("", 3), ("s = Squeeze (x)", 5)],
)
def test_axes_that_leave_the_rank_as_it_is_count_from_the_start_at_once(
    squeeze: str, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 0

    def counted(model: Model, **options: bool) -> Model:
        nonlocal count
        count += 1
        return infer_shapes(model, **options)

    monkeypatch.setattr(negative_axes, "infer_shapes", counted)
    body = f"{squeeze} a = Softmax <axis = -1> (x) b = ReduceMax <axes = [-2]> (a) c = Concat <axis = -2> (b, x) "
    model = _model(body + "y = Split <axis = -1> (c)", 10)
    changed = with_positive_axes(model)
    assert not any(axes is not None and min(axes) < 0 for axes in map(_axes_of, changed.graph))
    np.testing.assert_array_equal(_run(changed), _run(model))
    assert count == rounds


def _axes_of(node: ir.Node) -> list[int] | None:
    axes, axis = node.attributes.get("axes"), node.attributes.get("axis")
    return list(axes.as_ints()) if axes is not None else [axis.as_int()] if axis is not None else None


def test_what_has_no_known_rank_stays() -> None:
    text = '<ir_version: 8, opset_import: ["" : 9]> g (float[2] x, int64[N] q) => (float y) '
    body = "{ a = Reshape(x, q) y = Concat <axis = -1> (a, a) }"
    changed = with_positive_axes(Model(ir.from_proto(onnx.parser.parse_model(text + body))))
    assert [node.attributes.get_int("axis", 0) for node in changed.graph] == [0, -1]


def test_newer_operator_sets_are_left_alone() -> None:
    model = _model("y = Concat <axis = -1> (x, x)", 11)
    assert with_positive_axes(model) is model
