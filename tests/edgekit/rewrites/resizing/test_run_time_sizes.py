"""Resizing to sizes that a run tells, against ONNX Runtime's own kernel."""

from __future__ import annotations

import itertools

import numpy as np
import onnx.parser
import pytest
from onnx.reference import ReferenceEvaluator

from edgekit.rewrites.resizing.run_time_sizes import GatheredResize

RNG = np.random.default_rng(7)
NAME = "resize by gathers"
TRANSFORMATIONS = ["half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"]
ROUNDINGS = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]
KNOWN, OPEN = "1,2,9,11", "N,2,H,W"
SHAPES = {KNOWN: [(1, 2, 9, 11)], OPEN: [(1, 2, 9, 11), (3, 2, 6, 30), (1, 2, 1, 8)]}
WANTED = [(4, 5), (1, 5), (1, 1), (20, 30), (9, 11), (13, 2)]
FACTORS = [(0.45, 0.37), (2.6, 1.3), (1.0, 2.0), (3.0, 0.5), (1.0, 0.13)]
WHOLE_FACTORS = [(2.0, 3.0), (1.0, 2.0), (4.0, 1.0)]


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def to_sizes(shape, mode="linear", transformation="half_pixel", rounding="round_prefer_floor", opset=16):
    """To the height and width of another input, as torch writes ``interpolate(x, like.shape)``."""
    return onnx.parser.parse_model(f"""
        <ir_version: 9, opset_import: ["": {opset}]>
        to_sizes (float[{shape}] x, float[P, Q] like) => (float[n, c, h, w] y)
        <float[0] none = {{}}, int64[1] first = {{0}}, int64[1] second = {{2}}>
        {{
            shape = Shape(x)
            kept = Slice(shape, first, second)
            sides = Shape(like)
            wanted = Abs(sides)
            sizes = Concat<axis = 0>(kept, wanted)
            y = Resize<mode = "{mode}", coordinate_transformation_mode = "{transformation}",
                       nearest_mode = "{rounding}">(x, none, none, sizes)
        }}
    """)


def by_scales(shape, mode="linear", transformation="half_pixel", rounding="round_prefer_floor", opset=16):
    """By factors that are fed."""
    return onnx.parser.parse_model(f"""
        <ir_version: 9, opset_import: ["": {opset}]>
        by_scales (float[{shape}] x, float[2] factors) => (float[n, c, h, w] y)
        <float[0] none = {{}}, float[2] ones = {{1, 1}}>
        {{
            scales = Concat<axis = 0>(ones, factors)
            y = Resize<mode = "{mode}", coordinate_transformation_mode = "{transformation}",
                       nearest_mode = "{rounding}">(x, none, scales)
        }}
    """)


def size_feeds(shape, transformation="half_pixel"):
    del transformation
    pairs = itertools.product(SHAPES[shape], WANTED)
    return [{"x": floats(*each), "like": floats(*wanted)} for each, wanted in pairs]


def scale_feeds(shape, transformation="half_pixel"):
    """ONNX Runtime aligns corners by the rounded size: there it is the standard's for whole sizes alone."""
    pairs = itertools.product(SHAPES[shape], WHOLE_FACTORS if transformation == "align_corners" else FACTORS)
    return [
        {"x": floats(*each), "factors": np.array(factors, np.float32)}
        for each, factors in pairs
        if all(int(size * factor) > 0 for size, factor in zip(each[2:], factors, strict=True))
    ]


MADE = {"sizes": (to_sizes, size_feeds), "scales": (by_scales, scale_feeds)}


@pytest.mark.parametrize("transformation", TRANSFORMATIONS)
@pytest.mark.parametrize("shape", [KNOWN, OPEN])
@pytest.mark.parametrize("given", MADE)
def test_linear(assert_rewritten, given, shape, transformation):
    made, feeds = MADE[given]
    proto = made(shape, "linear", transformation)
    result = assert_rewritten(proto, *feeds(shape, transformation), refused=("Resize",))
    assert [each.rewrite for each in result.applied] == [NAME]


@pytest.mark.parametrize("transformation", TRANSFORMATIONS)
@pytest.mark.parametrize("shape", [KNOWN, OPEN])
@pytest.mark.parametrize("given", MADE)
def test_cubic(assert_rewritten, given, shape, transformation):
    """Tables of positions that a picture of any size gets, as DINOv2 has them."""
    made, feeds = MADE[given]
    proto = made(shape, "cubic", transformation)
    result = assert_rewritten(proto, *feeds(shape, transformation), refused=("Resize",), atol=1e-5)
    assert [each.rewrite for each in result.applied] == [NAME]


@pytest.mark.parametrize("excludes", [0, 1])
@pytest.mark.parametrize("a", [-0.75, -0.5])
def test_cubic_with_a_coefficient_and_without_what_is_outside(assert_rewritten, a, excludes):
    proto = to_sizes(OPEN, "cubic", opset=18)
    added = [
        onnx.helper.make_attribute("cubic_coeff_a", a),
        onnx.helper.make_attribute("exclude_outside", excludes),
    ]
    proto.graph.node[-1].attribute.extend(added)
    assert_rewritten(proto, *size_feeds(OPEN), refused=("Resize",), atol=1e-5)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("transformation", TRANSFORMATIONS)
@pytest.mark.parametrize("given", MADE)
def test_nearest(assert_rewritten, given, transformation, rounding):
    made, feeds = MADE[given]
    proto = made(OPEN, "nearest", transformation, rounding)
    result = assert_rewritten(proto, *feeds(OPEN, transformation), refused=("Resize",))
    assert [each.rewrite for each in result.applied] == [NAME]


@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_corners_are_aligned_by_the_scale(assert_rewritten, mode):
    """As the standard has it, whose reference implementation is asked: by a size that need not be whole."""
    proto = by_scales(OPEN, mode, "align_corners", "floor")
    changed = assert_rewritten(proto, refused=("Resize",)).model.proto()
    reference, rewritten = ReferenceEvaluator(proto), ReferenceEvaluator(changed)
    for shape, factors in itertools.product(SHAPES[OPEN], [(2.6, 1.17), (0.45, 0.37)]):
        if min(int(size * factor) for size, factor in zip(shape[2:], factors, strict=True)) == 0:
            continue
        feeds = {"x": floats(*shape), "factors": np.array(factors, np.float32)}
        (expected,), (found,) = reference.run(None, feeds), rewritten.run(None, feeds)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_halfway_but_for_rounding(assert_rewritten, rounding):
    """Coordinates that lie halfway between two elements, where single precision has a neighbouring number."""
    cases = [((1, 2, 20, 13), (6, 2)), ((1, 2, 50, 30), (15, 39)), ((1, 2, 28, 14), (2, 69))]
    feeds = [{"x": floats(*shape), "like": floats(*wanted)} for shape, wanted in cases]
    for transformation in TRANSFORMATIONS:
        assert_rewritten(to_sizes(OPEN, "nearest", transformation, rounding), *feeds, refused=("Resize",))


@pytest.mark.parametrize("opset", [11, 13, 19, 23])
def test_operator_sets(assert_rewritten, opset):
    assert_rewritten(to_sizes(OPEN, opset=opset), *size_feeds(OPEN), refused=("Resize",))
    assert_rewritten(by_scales(OPEN, opset=opset), *scale_feeds(OPEN), refused=("Resize",))


@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_rank_three(assert_rewritten, mode):
    proto = onnx.parser.parse_model(f"""
        <ir_version: 9, opset_import: ["": 18]>
        some (float[C, H, W] x, float[P, Q] like) => (float[c, h, w] y)
        <float[0] none = {{}}>
        {{
            sizes = Shape(like)
            y = Resize<mode = "{mode}", axes = [-1, 1]>(x, none, none, sizes)
        }}
    """)
    feeds = [{"x": floats(2, 7, 9), "like": floats(*sizes)} for sizes in ((3, 12), (1, 1), (20, 4))]
    result = assert_rewritten(proto, *feeds, refused=("Resize",))
    gathers = [node for node in result.model.graph if node.op_type == "Gather"]
    assert {node.attributes["axis"].as_int() for node in gathers} == {1, 2}


def test_only_the_axes_that_change_are_touched(assert_rewritten):
    result = assert_rewritten(to_sizes(OPEN), *size_feeds(OPEN), refused=("Resize",))
    gathers = [node for node in result.model.graph if node.op_type == "Gather"]
    assert {node.attributes["axis"].as_int() for node in gathers} == {2, 3}


@pytest.mark.parametrize("transformation", TRANSFORMATIONS)
@pytest.mark.parametrize(("wanted", "made"), [("4, 1", [4, 1]), ("17, 5", [17, 5])])
def test_constant_sizes_of_an_open_input(assert_rewritten, wanted, made, transformation):
    proto = to_sizes(OPEN, transformation=transformation)
    del proto.graph.input[1], proto.graph.node[2:4]
    numbers = np.array([int(size) for size in wanted.split(",")], np.int64)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(numbers, "wanted"))
    result = assert_rewritten(proto, *({"x": floats(*shape)} for shape in SHAPES[OPEN]), refused=("Resize",))
    assert list(result.model.graph.outputs[0].shape)[2:] == made


@pytest.mark.parametrize("dtype", ["int32", "uint8"])
def test_other_types(assert_rewritten, dtype):
    proto = onnx.parser.parse_model(f"""
        <ir_version: 9, opset_import: ["": 16]>
        typed ({dtype}[1, 1, H, W] x, float[1, 1, P, Q] like) => ({dtype}[n, c, h, w] y)
        <float[0] none = {{}}>
        {{
            sizes = Shape(like)
            y = Resize(x, none, none, sizes)
        }}
    """)
    kind = onnx.helper.tensor_dtype_to_np_dtype(proto.graph.input[0].type.tensor_type.elem_type)
    feeds = {"x": (10 * floats(1, 1, 7, 9)).astype(np.int8).astype(kind), "like": floats(1, 1, 12, 4)}
    assert_rewritten(proto, feeds, refused=("Resize",))


DETECTOR = """
    <ir_version: 9, opset_import: ["": 16]>
    scaled (float[3, H, W] image) => (float[n, c, h, w] y)
    <int64[1] zero = {0}, int64[1] one = {1}, int64[1] three = {3}, float shorter = {20}, float longer = {37},
     float[2] ones = {1, 1}, float[0] none = {}>
    {
        shape = Shape(image)
        sides = Slice(shape, one, three)
        lengths = Cast<to = 1>(sides)
        least = ReduceMin<keepdims = 0>(lengths)
        greatest = ReduceMax<keepdims = 0>(lengths)
        up = Div(shorter, least)
        down = Div(longer, greatest)
        scale = Min(up, down)
        each = Unsqueeze(scale, zero)
        scales = Concat<axis = 0>(ones, each, each)
        picture = Unsqueeze(image, zero)
        y = Resize<mode = "linear", coordinate_transformation_mode = "pytorch_half_pixel">(picture, none, scales)
    }
"""


def test_a_scale_that_is_computed_of_the_sizes(assert_rewritten):
    """As torchvision's detectors resize a picture."""
    feeds = [{"image": floats(3, *sides)} for sides in ((16, 16), (11, 40), (50, 31), (20, 20))]
    assert_rewritten(onnx.parser.parse_model(DETECTOR), *feeds, refused=("Resize",))


def test_tables_come_first(model_of):
    """At sizes that are known it is not even tried."""
    proto = to_sizes(KNOWN)
    del proto.graph.input[1], proto.graph.node[:-1]
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array([1, 2, 4, 5], np.int64), "sizes"))
    (node,) = (node for node in model_of(proto).graph if node.op_type == "Resize")
    assert not GatheredResize().matches(node)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"antialias": 1}, "antialias"),
        ({"exclude_outside": 1}, "exclude_outside"),
        ({"keep_aspect_ratio_policy": "not_larger"}, "aspect ratio"),
    ],
)
def test_what_is_left_alone(assert_left_alone, changes, why):
    assert_left_alone(to_sizes(OPEN, opset=19), "Resize", changes, why)
