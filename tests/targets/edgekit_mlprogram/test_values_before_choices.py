"""The values by which programs that choose boxes are compared while precisions are tried."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgekit_mlprogram.conversion import convert_graph
from edgekit_mlprogram.values_before_choices import ValuesBeforeChoices, before_choices

BEST = """
    scaled = Mul(x, third)
    raw, logits = Split <axis = 1> (scaled, sizes)
    boxes = Abs(raw)
    scores = Sigmoid(logits)
    flat = Squeeze(scores, one)
    best, places = TopK <axis = 0> (flat, ten)
"""
DETECTOR = (
    """<ir_version: 8, opset_import: ["": 17]>
g (float[40, 5] x) => (float[1, 4] first, float[40, 1] scores)
    <int64[2] sizes = {4, 1}, int64[1] ten = {10}, int64[1] most = {3}, float[1] iou = {0.5}, float[1] third = {0.3},
     int64[1] zero = {0}, int64[1] one = {1}, int64[2] front = {0, 1}, int64[1] last = {2}, int64[1] three = {3}> {"""
    + BEST
    + """    taken = Gather <axis = 0> (boxes, places)
    batch = Unsqueeze(taken, zero)
    rated = Unsqueeze(best, front)
    selected = NonMaxSuppression(batch, rated, most, iou)
    numbers = Slice(selected, last, three, one)
    top = Slice(numbers, zero, one, zero)
    place = Squeeze(top, one)
    first = Gather <axis = 0> (taken, place)
}"""
)
WITHOUT_SUPPRESSION = (
    """<ir_version: 8, opset_import: ["": 17]>
g (float[40, 5] x) => (float[10, 4] first, float[10] best)
    <int64[2] sizes = {4, 1}, int64[1] ten = {10}, float[1] third = {0.3}, int64[1] one = {1}> {"""
    + BEST
    + """    first = Gather <axis = 0> (boxes, places)
}"""
)
"""The end of a detector that needs no suppression, such as YOLOv10."""
TOP_ALONE = """<ir_version: 8, opset_import: ["": 17]>
g (float[40] x) => (float[10] y) <int64[1] ten = {10}> { y, places = TopK(x, ten) }"""


def graph(text: str) -> ir.Graph:
    model = onnx.shape_inference.infer_shapes(onnx.parser.parse_model(text))
    return ir.from_proto(model).graph


def test_the_choice_begins_at_the_largest_scores() -> None:
    assert before_choices(graph(DETECTOR)) == ValuesBeforeChoices(frozenset({"flat", "boxes"}), frozenset({"first"}))


def test_without_suppression_the_choice_is_that_of_the_places() -> None:
    expected = ValuesBeforeChoices(frozenset({"flat", "boxes"}), frozenset({"first", "best"}))
    assert before_choices(graph(WITHOUT_SUPPRESSION)) == expected


def test_a_choice_that_layers_read_is_left_out_beside_one_that_they_do_not_read() -> None:
    """Transformers that detect objects choose their queries by TopK, and the objects by another one."""
    queries = (
        "rated = ReduceMax <axes = [1], keepdims = 0> (x) rates, queries = TopK <axis = 0> (rated, forty) "
        "chosen = Gather <axis = 0> (x, queries) turned = MatMul(chosen, square) scaled = Mul(turned, third)"
    )
    text = WITHOUT_SUPPRESSION.replace("scaled = Mul(x, third)", queries).replace("x) =>", "x, float[5, 5] square) =>")
    text = text.replace("int64[1] ten", "int64[1] forty = {40}, int64[1] ten")
    expected = ValuesBeforeChoices(frozenset({"flat", "boxes"}), frozenset({"first", "best"}))
    assert before_choices(graph(text)) == expected


@pytest.mark.parametrize(
    "text",
    [
        TOP_ALONE,
        WITHOUT_SUPPRESSION.replace("first = Gather", "chosen = Gather")[:-1]
        + "turned = Transpose(chosen) square = MatMul(turned, chosen) first = MatMul(chosen, square) }",
        DETECTOR.replace("first = Gather", "chosen = Gather").replace("}", "}", 1)[:-1]
        + "turned = Transpose(chosen) square = MatMul(chosen, turned) first = Add(chosen, square) }",
    ],
    ids=["values alone", "layers behind the places", "layers behind suppression"],
)
def test_outputs_are_compared_elsewhere(text: str) -> None:
    assert before_choices(graph(text)) is None


@pytest.mark.parametrize("text", [DETECTOR, WITHOUT_SUPPRESSION])
def test_equal_scores_make_no_program_float32(text: str, tmp_path: Path) -> None:
    """Scores that float16 holds as one number leave the choice of the first box to rounding."""
    rng = np.random.default_rng(0)
    examples = []
    for _ in range(2):
        x = rng.uniform(0, 30, (40, 5)).astype(np.float32)
        x[:, 2:4] = x[:, :2] + 6
        x[:, 4] = 3.0 + rng.permutation(40) * 1e-5
        examples.append({"x": x})
    conversion = convert_graph(
        ir.from_proto(onnx.shape_inference.infer_shapes(onnx.parser.parse_model(text))),
        tmp_path / "model",
        deployment_target_name="iOS18",
        precision="auto",
        examples=examples,
    )
    assert (conversion.precision, conversion.kept_float32) == ("float16", ())
