from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.helper import make_node

import edgekit_coreml
from edgekit_mil.core.exactness import compared_inputs, integers_in_floats, iterations_until_settled, placed_boxes
from edgekit_mil.core.mil import Function, Program, ct, mb, types


def names_kept(body, rule=integers_in_floats, **inputs):
    with Function(inputs, ct.target.iOS18) as function:
        function.set_outputs([body(*(function.inputs[name] for name in inputs))])
    program = Program()
    program.add_function("main", function)
    return rule(program)


POSITIONS = {"i": mb.placeholder(shape=(4,), dtype=types.int32)}


def test_positions_that_go_back_to_integers_are_kept():
    def body(i):
        scaled = mb.mul(x=mb.cast(x=i, dtype="fp32"), y=0.5, name="scaled")
        return mb.cast(x=mb.floor(x=scaled, name="whole"), dtype="int32")

    assert names_kept(body, **POSITIONS) == {"scaled", "whole"}


def test_positions_that_are_compared_are_kept():
    def body(i):
        return mb.cast(x=mb.less(x=mb.cast(x=i, dtype="fp32"), y=2500.5, name="before"), dtype="int32")

    assert names_kept(body, **POSITIONS) == {"before"}


def test_what_stays_a_float_or_is_mixed_with_floats_is_not():
    def body(i, x):
        mask = mb.mul(x=mb.cast(x=i, dtype="fp32"), y=-100.0)
        score = mb.add(x=x, y=mask)
        return mb.add(x=score, y=mb.cast(x=mb.cast(x=mb.round(x=score), dtype="int32"), dtype="fp32"))

    assert names_kept(body, **POSITIONS, x=mb.placeholder(shape=(4,))) == frozenset()


def test_inputs_that_are_moved_and_compared_are_kept():
    def body(x):
        picked = mb.gather(x=x, indices=[2, 0], axis=0, name="picked")
        sums = mb.add(x=mb.reshape(x=x, shape=(2, 2)), y=1.0)
        mask = mb.cast(x=mb.greater(x=picked, y=1000.1, name="above"), dtype="fp32")
        return mb.add(x=mask, y=mb.cast(x=mb.less(x=sums, y=[2.0, 3.0]), dtype="fp32"))

    assert names_kept(body, compared_inputs, x=mb.placeholder(shape=(4,))) == {"picked", "above"}


def test_inputs_compared_with_constants_looked_up_are_kept():
    def body(x, i):
        threshold = mb.gather(x=np.array([1000.1, 0.5], np.float32), indices=i, axis=0, name="threshold")
        return mb.cast(x=mb.greater(x=x, y=threshold, name="above"), dtype="fp32")

    assert names_kept(body, compared_inputs, x=mb.placeholder(shape=(4,)), **POSITIONS) == {"threshold", "above"}


def test_what_places_boxes_for_suppression_is_kept():
    """Not the scores, nor what boxes are taken from."""

    def body(x, s):
        decoded = mb.mul(x=x, y=2.0)
        taken = mb.gather(x=decoded, indices=[2, 0, 1], axis=1)
        apart = mb.add(x=taken, y=1000.0, name="apart")
        turned = mb.transpose(x=apart, perm=[0, 2, 1], name="turned")
        rated = mb.mul(x=s, y=0.5)
        *_, found = mb.non_maximum_suppression(
            boxes=turned, scores=rated, iou_threshold=0.5, max_boxes=2, name="suppressed"
        )
        return mb.add(x=mb.cast(x=found, dtype="fp32"), y=1.0)

    boxes, scores = mb.placeholder(shape=(1, 3, 4)), mb.placeholder(shape=(1, 1, 3))
    assert names_kept(body, placed_boxes, x=boxes, s=scores) == {"apart", "turned", "suppressed"}


@pytest.mark.parametrize(
    ("goes_on", "kept"),
    [
        pytest.param(lambda number, x: mb.less(x=x, y=9.0, name="near"), {"near", "half"}, id="floats"),
        pytest.param(lambda number, x: mb.less(x=number, y=5, name="near"), set(), id="counted"),
    ],
)
def test_iterations_that_end_when_floats_settle_are_kept(goes_on, kept):
    def body(x):
        step = {
            "_cond": goes_on,
            "_body": lambda i, x: (mb.add(x=i, y=1, name="next"), mb.mul(x=x, y=0.5, name="half")),
        }
        return mb.add(x=mb.while_loop(loop_vars=(0, x), **step)[1], y=1.0, name="after")

    found = names_kept(body, iterations_until_settled, x=mb.placeholder(shape=(1,)))
    assert {name for name in found if name in {"near", "half", "after"}} == kept


def test_sure_answers_of_a_support_vector_machine_of_three_classes(tmp_path):
    """Probabilities of pairs near 1e-7: their squares are zeros in float16, and the coupling divides by them."""
    model = onnx.helper.make_model(
        onnx.helper.make_graph(
            [
                make_node(
                    "SVMClassifier",
                    ["x"],
                    ["label", "y"],
                    domain="ai.onnx.ml",
                    classlabels_ints=[0, 1, 2],
                    coefficients=[1.0, -1.0, 0.5, -0.5, 1.0, -1.0],
                    kernel_params=[1.0, 0.0, 3.0],
                    kernel_type="LINEAR",
                    prob_a=[-4.0, -4.0, -4.0],
                    prob_b=[0.1, -0.1, 0.2],
                    rho=[0.1, 0.2, -0.1],
                    support_vectors=[1.0, 0.0, -1.0, 0.5, 0.0, -1.0],
                    vectors_per_class=[1, 1, 1],
                )
            ],
            "g",
            [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [4, 2])],
            [
                onnx.helper.make_tensor_value_info("label", onnx.TensorProto.INT64, [4]),
                onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [4, 3]),
            ],
        ),
        opset_imports=[onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("ai.onnx.ml", 3)],
        ir_version=8,
    )
    feeds = {"x": np.array([[0.3, 0.1], [20, 1], [-15, 9], [-40, -30]], np.float32)}
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(["y"], feeds)[0]
    assert (expected.max(1)[1:] > 0.99999).any()
    package = edgekit_coreml.convert(model, tmp_path / "m", precision="float16")
    np.testing.assert_allclose(edgekit_coreml.load(package).run(feeds)["y"], expected, atol=2e-3)


@pytest.mark.parametrize("precision", ["float16", "auto"])
def test_boxes_of_one_class_overlap_however_far_away_the_class_lies(tmp_path, precision):
    """Two boxes of class 79, 10 by 10 pixels, 1 pixel apart, a third 12 pixels away: float16 has steps of 32 there."""
    corners = np.array([[100, 100, 110, 110], [101, 100, 111, 110], [112, 100, 122, 110]], np.float32)
    nodes = [
        make_node("Add", ["boxes", "far"], ["apart"]),
        make_node("NonMaxSuppression", ["apart", "scores", "most", "iou"], ["selected"]),
        make_node("Slice", ["selected", "first", "last", "axis"], ["numbers"]),
        make_node("Cast", ["numbers"], ["y"], to=onnx.TensorProto.INT32),
    ]
    constants = {
        "far": np.float32([79 * 641.0]),
        "most": np.int64([3]),
        "iou": np.float32([0.5]),
        "first": np.int64([2]),
        "last": np.int64([3]),
        "axis": np.int64([1]),
    }
    info = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes,
        "g",
        [info("boxes", 1, (1, 3, 4)), info("scores", 1, (1, 1, 3))],
        [info("y", 6, ("n", 1))],
        [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    package = edgekit_coreml.convert(model, tmp_path / "model", precision=precision)
    scores = np.array([[[0.9, 0.8, 0.7]]], np.float32)
    found = edgekit_coreml.load(package).run({"boxes": corners[None], "scores": scores})["y"]
    assert found.ravel().tolist() == [0, 2]


@pytest.mark.parametrize("precision", ["float16", "auto"])
def test_positions_beyond_what_float16_holds(tmp_path, precision):
    nodes = [
        make_node("Cast", ["i"], ["f"], to=onnx.TensorProto.FLOAT),
        make_node("Mul", ["f", "half"], ["g"]),
        make_node("Floor", ["g"], ["h"]),
        make_node("Cast", ["h"], ["y"], to=onnx.TensorProto.INT64),
    ]
    graph = onnx.helper.make_graph(
        nodes,
        "g",
        [onnx.helper.make_tensor_value_info("i", onnx.TensorProto.INT64, [4])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.INT64, None)],
        [onnx.numpy_helper.from_array(np.float32(0.5), "half")],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    feeds = {"i": np.array([2049, 4097, 70001, 1])}
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)
    package = edgekit_coreml.convert(model, tmp_path / "m", precision=precision)
    np.testing.assert_array_equal(edgekit_coreml.load(package).run(feeds)["y"], expected)
