"""Crops of regions that are computed, against ONNX Runtime's own kernel."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from onnx.reference import ReferenceEvaluator

from edgekit.model import node_name
from edgekit.registry import installed_rewrites
from edgekit.rewrites.application import rewritten

RNG = np.random.default_rng(7)
NAME = "crop and resize by gathers"
REGIONS = {
    "inside": [0.1, 0.2, 0.8, 0.9],
    "all": [0.0, 0.0, 1.0, 1.0],
    "partly outside": [-0.3, 0.2, 0.8, 1.4],
    "outside": [1.1, 0.0, 1.6, 1.0],
    "flipped": [0.9, 0.8, 0.1, -0.2],
    "a point": [0.3, 0.7, 0.3, 0.7],
}
KNOWN, OPEN = "1,2,9,11", "N,2,H,W"
CONSTANT = "kept, wanted"
HALVED = "kept, halves"
"""Sizes that are half of the input's last two sizes, at run time."""


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def cropping(shape, wanted=(4, 5), sizes=CONSTANT, mode="linear", rounding="round_prefer_floor", opset=16):
    """A Resize of the last two axes, as tf2onnx writes it: the region comes from a box of four numbers."""
    return onnx.parser.parse_model(f"""
        <ir_version: 9, opset_import: ["": {opset}]>
        cropping (float[{shape}] x, float[4] box) => (float[n, c, h, w] y)
        <float[2] zeros = {{0, 0}}, float[2] ones = {{1, 1}}, float[0] none = {{}},
         int64[2] wanted = {{{wanted[0]}, {wanted[1]}}},
         int64[1] first = {{0}}, int64[1] second = {{2}}, int64[1] third = {{4}}, int64[1] half = {{2}}>
        {{
            begins = Slice(box, first, second)
            ends = Slice(box, second, third)
            roi = Concat<axis = 0>(zeros, begins, ones, ends)
            shape = Shape(x)
            kept = Slice(shape, first, second)
            rest = Slice(shape, second, third)
            halves = Div(rest, half)
            sizes = Concat<axis = 0>({sizes})
            y = Resize<coordinate_transformation_mode = "tf_crop_and_resize", extrapolation_value = 7.0,
                       mode = "{mode}", nearest_mode = "{rounding}">(x, roi, none, sizes)
        }}
    """)


def boxes():
    return [np.array(region, np.float32) for region in REGIONS.values()]


@pytest.mark.parametrize("wanted", [(4, 5), (1, 5), (1, 1), (20, 3)])
@pytest.mark.parametrize("shape", [KNOWN, OPEN])
def test_regions(assert_rewritten, shape, wanted):
    sizes = [(1, 2, 9, 11)] if shape == KNOWN else [(1, 2, 9, 11), (3, 2, 6, 30), (1, 2, 2, 8)]
    feeds = [{"x": floats(*each), "box": box} for each in sizes for box in boxes()]
    result = assert_rewritten(cropping(shape, wanted), *feeds, refused=("Resize",))
    assert [each.rewrite for each in result.applied] == [NAME]
    assert list(result.model.graph.outputs[0].shape)[2:] == list(wanted)


def test_output_sizes_that_are_computed(assert_rewritten):
    shapes = [(1, 2, 9, 11), (2, 2, 3, 30), (1, 2, 2, 3)]  # halves: a single row, then a single element as well
    feeds = [{"x": floats(*shape), "box": box} for shape in shapes for box in boxes()]
    assert_rewritten(cropping(OPEN, sizes=HALVED), *feeds, refused=("Resize",))


@pytest.mark.parametrize("rounding", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
def test_nearest(assert_rewritten, rounding):
    feeds = [{"x": floats(2, 2, 9, 13), "box": box} for box in boxes()]
    assert_rewritten(cropping(OPEN, mode="nearest", rounding=rounding), *feeds, refused=("Resize",))


@pytest.mark.parametrize("opset", [11, 13, 23])
def test_operator_sets(assert_rewritten, opset):
    feeds = [{"x": floats(2, 2, 9, 13), "box": box} for box in boxes()]
    assert_rewritten(cropping(OPEN, sizes=HALVED, opset=opset), *feeds, refused=("Resize",))


def test_a_constant_region_of_open_sizes(assert_rewritten):
    proto = cropping(OPEN)
    del proto.graph.input[1]
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array([0.1, -0.2, 1.2, 0.7], np.float32), "box"))
    assert_rewritten(proto, {"x": floats(2, 2, 7, 12)}, refused=("Resize",))


def test_only_the_axes_that_change_are_touched(assert_rewritten):
    result = assert_rewritten(cropping(OPEN), {"x": floats(2, 2, 7, 12), "box": boxes()[0]}, refused=("Resize",))
    gathers = [node for node in result.model.graph if node.op_type == "Gather"]
    assert {node.attributes["axis"].as_int() for node in gathers} == {2, 3}


def test_some_axes(assert_rewritten):
    proto = onnx.parser.parse_model("""
        <ir_version: 9, opset_import: ["": 19]>
        some (float[H, 3, W] x, float[4] roi) => (float[h, c, w] y)
        <float[0] none = {}, int64[2] sizes = {4, 5}>
        {
            y = Resize<coordinate_transformation_mode = "tf_crop_and_resize", mode = "nearest", axes = [0, -1]>
                (x, roi, none, sizes)
        }
    """)
    assert_rewritten(proto, *({"x": floats(8, 3, 7), "roi": box} for box in boxes()))


def test_where_the_size_stays_the_standard_crops_all_the_same(model_of, run):
    proto, x, box = cropping("1,2,4,5"), floats(1, 2, 4, 5), boxes()[0]
    expected = ReferenceEvaluator(proto).run(None, {"x": x, "box": box})[0]
    np.testing.assert_array_equal(run(proto, {"x": x, "box": box})[0], x)  # ONNX Runtime does not look at the region
    result = rewritten(model_of(proto), resizes, installed_rewrites())
    assert not result.dropped, result.dropped
    np.testing.assert_allclose(run(result.model.proto(), {"x": x, "box": box})[0], expected, rtol=1e-5, atol=1e-5)


def resizes(model):
    return {node_name(node) for node in model.graph.all_nodes() if node.op_type == "Resize"}


LOOP = """
    <ir_version: 9, opset_import: ["": 16]>
    crops (float[N, H, W, 3] image, float[B, 4] boxes, int32[B] numbers) => (float[B, 4, 5, 3] y)
    <bool yes = {1}>
    {
        count = Size(numbers)
        y = Loop(count, yes) <body = turn (int64[1] i, bool going) => (bool on, float[h, w, c] crop)
            <int64[1] one = {1}, int64[1] zero = {0}, int64[1] two = {2}, int64[1] four = {4}, int32[1] single = {1},
             int32[1] first = {0}, float[2] zeros = {0, 0}, float[2] ones = {1, 1}, float[0] none = {},
             int64[2] wanted = {4, 5}>
            {
                on = Identity(going)
                next = Add(i, one)
                row = Slice(boxes, i, next, zero)
                box = Reshape(row, four)
                begins = Slice(box, zero, two)
                ends = Slice(box, two, four)
                before = Concat<axis = 0>(zeros, begins)
                behind = Concat<axis = 0>(ones, ends)
                roi = Concat<axis = 0>(before, behind)
                number = Slice(numbers, i, next)
                after = Add(number, single)
                picture = Slice(image, number, after, first)
                x = Transpose<perm = [0, 3, 1, 2]>(picture)
                shape = Shape(x)
                kept = Slice(shape, zero, two)
                sizes = Concat<axis = 0>(kept, wanted)
                resized = Resize<coordinate_transformation_mode = "tf_crop_and_resize", mode = "linear">
                    (x, roi, none, sizes)
                last = Transpose<perm = [0, 2, 3, 1]>(resized)
                crop = Squeeze(last, zero)
            }>
    }
"""


def test_in_a_loop_over_boxes(model_of, run):
    """As tf2onnx writes ``tf.image.crop_and_resize``."""
    proto = onnx.parser.parse_model(LOOP)
    result = rewritten(model_of(proto), resizes, installed_rewrites())
    assert not result.dropped, result.dropped
    assert [each.rewrite for each in result.applied] == [NAME]
    rows = np.stack(boxes())
    for count, shape in ((6, (2, 9, 11, 3)), (1, (2, 30, 8, 3))):
        numbers = np.arange(count, dtype=np.int32) % 2
        feeds = {"image": floats(*shape), "boxes": rows[:count], "numbers": numbers}
        expected, found = (run(each, feeds)[0] for each in (proto, result.model.proto()))
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"mode": "cubic"}, "mode 'cubic'"),
        ({"antialias": 1}, "not smoothed"),
        ({"antialias": 2}, "not smoothed"),
        ({"keep_aspect_ratio_policy": "not_larger"}, "aspect ratio"),
    ],
)
def test_what_is_left_alone(assert_left_alone, changes, why):
    assert_left_alone(cropping(OPEN, opset=19), "Resize", changes, why)
