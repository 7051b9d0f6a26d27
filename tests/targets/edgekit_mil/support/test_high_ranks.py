from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import parser
from onnx.helper import make_node

import edgekit_coreml
from edgekit.errors import UnsupportedOpsError


def tensor(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


@pytest.mark.parametrize("perm", [[0, 3, 1, 4, 2, 5], [5, 4, 3, 2, 1, 0], [0, 1, 3, 2, 4, 5], [2, 0, 1, 5, 3, 4]])
def test_transpose_of_rank_six_agrees(agrees, perm):
    agrees("Transpose", [tensor(2, 3, 2, 3, 2, 3)], perm=perm)


def test_blocks_are_moved_between_reshapes(graph_agrees):
    nodes = [
        make_node("Reshape", ["x", "apart"], ["a"]),
        make_node("Transpose", ["a"], ["b"], perm=[0, 1, 3, 2, 4, 5]),
        make_node("Relu", ["b"], ["c"]),
        make_node("Reshape", ["c", "together"], ["y"]),
    ]
    constants = {"apart": np.array([1, 2, 2, 3, 2, 4]), "together": np.array([-1, 4, 4])}
    graph_agrees(nodes, {"x": tensor(1, 4, 6, 4)}, {"y": "float32"}, constants)


@pytest.mark.parametrize("shape", [(2, 1, 3, 2, 2, 2), (3, 1, 1, 2), (), (1, 2, 1, 1, 2, 2)])
def test_broadcasting_of_rank_six_agrees(agrees, shape):
    agrees("Add", [tensor(2, 2, 3, 2, 2, 2), tensor(*shape)], fed=[0, 1])


def test_broadcasting_every_second_dimension_is_refused(lower):
    a, b = tensor(2, 1, 2, 1, 2, 1), tensor(1, 2, 1, 2, 1, 2)
    with pytest.raises(UnsupportedOpsError, match="broadcasts 6 dimensions apart"):
        lower("Add", [a, b], fed=[0, 1])


@pytest.mark.parametrize("keepdims", [0, 1])
def test_reduction_of_rank_seven_agrees(agrees, keepdims):
    agrees("ReduceMax", [tensor(2, 1, 3, 2, 1, 2, 2), np.array([2, 3, 5])], opset=18, keepdims=keepdims)


@pytest.mark.parametrize("axes", [[0, 2, 4], [1, 3, 5]])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("reduce", ["ReduceSum", "ReduceMean", "ReduceMin", "ReduceL2", "ReduceLogSumExp"])
def test_reduction_of_every_second_dimension_agrees(agrees, reduce, keepdims, axes):
    agrees(reduce, [tensor(2, 3, 2, 2, 2, 2) / 50, np.array(axes)], opset=18, keepdims=keepdims)


def test_other_movements_of_rank_six_agree(agrees):
    x = tensor(2, 2, 3, 2, 2, 2)
    agrees("Gather", [x, np.array([2, 0])], axis=2)
    agrees("GatherND", [x, np.array([[[0, 1], [1, -1]]])])
    agrees("GatherND", [x[0], np.ones((3, 2, 1, 2, 2, 1), np.int64)], fed=[0, 1])
    agrees("GatherND", [x, np.array([[[1], [0]], [[-1], [0]]])], batch_dims=1)
    agrees("GatherND", [x, np.zeros((2, 2, 3, 2), np.int64)], batch_dims=2)
    agrees("GatherElements", [x, np.zeros((2, 2, 1, 2, 2, 2), np.int64)], axis=2)
    agrees("Slice", [x, np.array([1, -1]), np.array([3, -3]), np.array([2, 5]), np.array([1, -1])])
    agrees("Concat", [x, x], fed=[0, 1], axis=2)
    agrees("Expand", [x[:, :1], np.array([2, 2, 3, 2, 2, 2])])
    agrees("Unsqueeze", [x, np.array([3])])
    agrees("Squeeze", [x[:, :1], np.array([1])])


def test_operator_that_needs_five_dimensions_says_so(lower):
    with pytest.raises(UnsupportedOpsError, match="rank 6, Core ML has 5 dimensions at most"):
        lower("ReverseSequence", [tensor(2, 2, 2, 2, 2, 2), np.array([1, 2])])


WIDE = (2, 3, 1, 2, 2, 4)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (WIDE, (4, 5)),
        (WIDE, (4,)),
        (WIDE, (1, 1, 4, 5)),
        (WIDE, (2, 3, 1, 2, 4, 5)),
        (WIDE, (3, 1, 1, 4, 5)),
        ((3, 4), (2, 1, 2, 2, 4, 3)),
        ((4,), (2, 1, 2, 2, 4, 3)),
        ((1, 1, 1, 1, 3, 4), (4, 5)),
        ((2, 4), (1, 1, 1, 1, 4, 5)),
    ],
)
def test_products_of_rank_six_agree(agrees, left, right):
    agrees("MatMul", [tensor(*left) / 10, tensor(*right) / 10], fed=[0, 1])
    agrees("MatMul", [tensor(*left) / 10, tensor(*right) / 10])


def test_a_product_of_four_dimensions_of_matrices_apart_is_refused(lower):
    left, right = tensor(2, 1, 2, 1, 2, 3), tensor(1, 2, 1, 2, 3, 2)
    with pytest.raises(UnsupportedOpsError, match="broadcasts 4 dimensions of matrices, Core ML has 3 at most"):
        lower("MatMul", [left, right], fed=[0, 1])


@pytest.mark.parametrize("axis", [0, 2, 3, -1])
def test_what_goes_along_one_axis_of_rank_six_agrees(agrees, axis):
    x = np.random.default_rng(axis + 1).permutation(96).reshape(WIDE).astype(np.float32)
    whole = ["float32", "int64"]
    for keepdims in (0, 1):
        agrees("ArgMax", [x], outputs=["int64"], axis=axis, keepdims=keepdims)
        agrees("ArgMin", [x // 8], outputs=["int64"], axis=axis, keepdims=keepdims, select_last_index=1)
    agrees("TopK", [x, np.array([1])], outputs=whole, axis=axis)
    agrees("TopK", [x, np.array([x.shape[axis]])], outputs=whole, axis=axis, largest=0)
    agrees("CumSum", [x, np.array(axis)], exclusive=1)
    agrees("CumSum", [x, np.array(axis)], reverse=1)
    agrees("LpNormalization", [x], axis=axis, p=2)
    agrees("Hardmax", [x], axis=axis, opset=13)
    agrees("Softmax", [x / 96], axis=axis, opset=13)
    agrees("LogSoftmax", [x / 96], axis=axis, opset=13)


@pytest.mark.parametrize(
    ("equation", "left", "right"),
    [
        ("abcdef,fg->abcdeg", WIDE, (4, 5)),
        ("abcdef,abcdgf->abcdeg", WIDE, (2, 3, 1, 2, 5, 4)),
        ("bhwsid,bhwsjd->bwhsij", (1, 2, 3, 2, 2, 4), (1, 2, 3, 2, 5, 4)),
        ("abcdef,cdfg->gabe", WIDE, (1, 2, 4, 3)),
        ("abc,def->abcdef", (2, 1, 3), (2, 2, 2)),
        ("...ef,...gf->...eg", WIDE, (2, 3, 1, 2, 3, 4)),
        ("abcdef,abcdef->ace", WIDE, WIDE),
    ],
)
def test_sums_of_products_of_rank_six_agree(agrees, equation, left, right):
    agrees("Einsum", [tensor(*left) / 10, tensor(*right) / 10], fed=[0, 1], equation=equation)


def test_a_sum_over_rank_six_agrees(agrees):
    agrees("Einsum", [tensor(*WIDE)], equation="abcdef->fba")
    agrees("Einsum", [tensor(*WIDE)], equation="abcdef->fbd")


def test_parts_of_rank_six_agree(agrees):
    x = tensor(*WIDE)
    agrees("Split", [x, np.array([1, 2])], outputs=["float32"] * 2, axis=1)
    agrees("Split", [x, np.array([3, 1])], outputs=["float32"] * 2, axis=-1)
    agrees("Split", [x, np.array([1])], axis=2)


def test_margins_and_repetitions_of_rank_six_agree(agrees):
    x = tensor(*WIDE)
    agrees("Tile", [x, np.array([2, 1, 3, 1, 1, 2])])
    agrees("Pad", [x, np.array([0, 1, 0, 0, -1, 2, 1, 0, 0, 0, 0, 1]), np.array(0.5, np.float32)])
    agrees("Pad", [x, np.array([0, 1, 0, 1, 0, 2, 1, 0, 0, 0, 0, 1])], mode="reflect")
    agrees("Pad", [x, np.array([1, 2]), None, np.array([3])], mode="edge", opset=18)


def test_normalization_of_channels_of_rank_six_agrees(agrees):
    x = tensor(*WIDE)
    scale, shift, spread = (np.array(numbers, np.float32) for numbers in ([1, 2, 3], [0, -1, 4], [1, 9, 4]))
    agrees("BatchNormalization", [x, scale, shift, shift, spread])
    agrees("InstanceNormalization", [x, scale, shift], atol=1e-4)


def test_operator_goes_by_its_definition_where_that_takes_any_rank(agrees):
    agrees("Softmax", [tensor(2, 2, 2, 2, 2, 2)], axis=3)


@pytest.mark.parametrize(
    ("scale", "zero_point", "axis"),
    [
        (np.float32(0.5), np.uint8(9), 1),
        (np.array([0.5, 2, 1], np.float32), np.array([0, 3, 9], np.uint8), 2),
        (np.array([0.5, 2], np.float32), np.array([0, 3], np.uint8), -1),
    ],
)
def test_quantization_of_rank_six_agrees(graph_agrees, scale, zero_point, axis):
    nodes = [
        make_node("Reshape", ["x", "apart"], ["a"]),
        make_node("QuantizeLinear", ["a", "scale", "zero_point"], ["q"], axis=axis),
        make_node("DequantizeLinear", ["q", "scale", "zero_point"], ["d"], axis=axis),
        make_node("Transpose", ["d"], ["t"], perm=[0, 1, 3, 2, 4, 5]),
        make_node("Reshape", ["t", "together"], ["y"]),
    ]
    constants = {"apart": np.array([1, 2, 3, 2, 2, 2]), "together": np.array([-1]), "scale": np.array(scale)}
    graph_agrees(nodes, {"x": tensor(4, 12) * 0.9}, {"y": "float32"}, {**constants, "zero_point": np.array(zero_point)})


@pytest.mark.parametrize("index", [0, -1])
def test_one_place_of_rank_six_agrees(agrees, index):
    agrees("Gather", [tensor(2, 2, 3, 2, 2, 2), np.array(index)], axis=2)


def test_a_place_that_a_run_tells_of_rank_six_agrees(agrees):
    agrees("Gather", [tensor(2, 2, 3, 2, 2, 2), np.array(1)], axis=2, fed=[0, 1])


def deformable_attention():
    """Where Deformable DETR samples: offsets from reference points, by heads, levels and points."""
    return parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[batch, queries, 48] offsets, float[batch, queries, 4] references)
            => (float[a, b, c, 2] y, float[d, e, 48] flat, int64[6] sizes, float[i, j, k, l, m] swapped)
        <int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] most = {9223372036854775807},
         int64[1] coordinate = {5}, int64[3] single = {2, 3, 4}, int64 level = {1}, int64[4] apart = {3, 4, 2, 2},
         int64[4] by_head = {0, -1, 2, 2}, int64[3] kept = {0, 0, 48}, float eighth = {0.125}>
        {
            shape = Shape (offsets)
            outer = Slice (shape, zero, two)
            by_level = Concat <axis = 0> (outer, apart)
            shifts = Reshape (offsets, by_level)
            boxes_of_levels = Unsqueeze (references, single)
            centers = Slice (boxes_of_levels, zero, two, coordinate)
            extents = Slice (boxes_of_levels, two, most, coordinate)
            small = Mul (shifts, eighth)
            scaled = Mul (small, extents)
            locations = Add (centers, scaled)
            flat = Reshape (locations, kept)
            sizes = Shape (locations)
            of_level = Gather <axis = 3> (locations, level)
            turned = Transpose <perm = [0, 2, 1, 3, 4]> (of_level)
            y = Reshape (turned, by_head)
            blocks = Transpose <perm = [3, 0, 1, 2, 4, 5]> (shifts)
            swapped = ReduceMax <axes = [5], keepdims = 0> (blocks)
        }
    """)


@pytest.mark.parametrize("is_open", [{"batch"}, {"batch", "queries"}])
def test_open_sizes_of_rank_six_agree(tmp_path, is_open):
    model = deformable_attention()
    sizes = {"batch": 2, "queries": 5}
    for value in model.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param in sizes.keys() - is_open:
                dim.dim_value = sizes[dim.dim_param]
    dimensions = {name: range(1, size + 1) for name, size in sizes.items() if name in is_open}
    package = edgekit_coreml.convert(model, tmp_path / "m", precision="float32", dimensions=dimensions)
    runner = edgekit_coreml.load(package)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for least in (False, True):
        batch, queries = (1 if least and name in is_open else size for name, size in sizes.items())
        feeds = {"offsets": tensor(batch, queries, 48), "references": tensor(batch, queries, 4)[..., ::-1] / 7}
        found = runner.run(feeds)
        for name, expected in zip(found, session.run(list(found), feeds), strict=True):
            np.testing.assert_allclose(found[name], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("axis", [0, 3, 5])
def test_the_largest_none_of_rank_six_are_tensors_without_elements(agrees, axis):
    outputs = ["float32", "int64"]
    agrees("TopK", [tensor(2, 1, 2, 1, 2, 5), np.array([0])], outputs=outputs, opset=11, axis=axis)


CACHES = "float[3, 2, 1, 2, past, 4] caches, float[1, 2, 1, 4] new"
"""Keys and values of three layers in one input, as exporters of language models stack them."""


@pytest.mark.parametrize(
    "body",
    [
        "of_layer = Gather <axis = 0> (caches, one) keys = Gather <axis = 0> (of_layer, zero)",
        "axes = Constant <value_ints = [0, 1]> () keys = ReduceSum <keepdims = 0> (caches, axes)",
        "places = ArgMax <axis = 1, keepdims = 0> (caches) ints = Gather <axis = 0> (places, one)"
        " keys = Cast <to = 1> (ints)",
    ],
)
def test_inputs_of_rank_six_with_an_open_size_agree(tmp_path, body):
    model = parser.parse_model(f"""
        <ir_version: 9, opset_import: ["" : 18]>
        g ({CACHES}) => (float[1, 2, total, 4] y) <int64 zero = {{0}}, int64 one = {{1}}> {{
            {body}
            y = Concat <axis = 2> (keys, new)
        }}
    """)
    package = edgekit_coreml.convert(model, tmp_path / "m", precision="float32", dimensions={"past": range(1, 9)})
    runner = edgekit_coreml.load(package)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for past in (2, 5):
        feeds = {"caches": tensor(3, 2, 1, 2, past, 4), "new": tensor(1, 2, 1, 4)}
        np.testing.assert_allclose(runner.run(feeds)["y"], session.run(["y"], feeds)[0], rtol=1e-6, atol=1e-6)


SIZES_OF_PICTURE = """
    shape = Shape (x)
    b = Gather (shape, place_0)
    c = Gather (shape, place_1)
    h = Gather (shape, place_2)
    w = Gather (shape, place_3)
"""
SHUFFLE = """
    apart = Concat <axis = 0> (b, two, two, two, h, w)
    blocks = Reshape (x, apart)
    moved = Transpose <perm = [0, 1, 4, 2, 5, 3]> (blocks)
    tall = Mul (h, two)
    wide = Mul (w, two)
    together = Concat <axis = 0> (b, two, tall, wide)
    y = Reshape (moved, together)
"""
WINDOWS = """
    rows = Div (h, two)
    columns = Div (w, two)
    apart = Concat <axis = 0> (b, c, rows, two, columns, two)
    blocks = Reshape (x, apart)
    moved = Transpose <perm = [0, 2, 4, 3, 5, 1]> (blocks)
    together = Concat <axis = 0> (rest, two, two, c)
    y = Reshape (moved, together)
"""
ZEROS_BETWEEN = """
    apart = Concat <axis = 0> (b, c, h, one, w, one)
    blocks = Reshape (x, apart)
    padded = Pad (blocks, margins)
    tall = Mul (h, two)
    wide = Mul (w, two)
    together = Concat <axis = 0> (b, c, tall, wide)
    y = Reshape (padded, together)
"""


@pytest.mark.parametrize("steps", [SHUFFLE, WINDOWS, ZEROS_BETWEEN], ids=["shuffle", "windows", "zeros between"])
def test_three_open_sizes_with_fixed_ones_between_them_agree(tmp_path, steps):
    model = parser.parse_model(f"""
        <ir_version: 8, opset_import: ["" : 17]> g (float[batch, 8, height, width] x) => (float[i, j, k, l] y)
        <int64[1] place_0 = {{0}}, int64[1] place_1 = {{1}}, int64[1] place_2 = {{2}}, int64[1] place_3 = {{3}},
         int64[1] one = {{1}}, int64[1] two = {{2}}, int64[1] rest = {{-1}},
         int64[12] margins = {{0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1}}>
        {{ {SIZES_OF_PICTURE} {steps} }}
    """)
    dimensions = {"batch": range(1, 4), "height": range(2, 9), "width": range(2, 9)}
    package = edgekit_coreml.convert(model, tmp_path / "m", precision="float32", dimensions=dimensions)
    runner = edgekit_coreml.load(package)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for sizes in ((1, 8, 4, 6), (3, 8, 8, 2), (2, 8, 2, 8)):
        np.testing.assert_array_equal(
            runner.run({"x": tensor(*sizes)})["y"], session.run(["y"], {"x": tensor(*sizes)})[0]
        )


@pytest.mark.parametrize("asked_for", ["b, c, h, two, w, two", "one, one, one, two, one, two"])
@pytest.mark.parametrize("repeated", ["Unsqueeze (x, behind)", "Identity (number)"])
def test_repetitions_of_rank_six_to_open_sizes_agree(tmp_path, repeated, asked_for):
    asked_for = "b, c, h, two, w, two" if "number" in repeated else asked_for
    model = parser.parse_model(f"""
        <ir_version: 8, opset_import: ["" : 17]> g (float[batch, 8, height, width] x) => (float[i, j, k, l] y)
        <int64[1] place_0 = {{0}}, int64[1] place_1 = {{1}}, int64[1] place_2 = {{2}}, int64[1] place_3 = {{3}},
         int64[1] one = {{1}}, int64[1] two = {{2}}, int64[2] behind = {{3, 5}}, float number = {{1.5}}>
        {{
            {SIZES_OF_PICTURE}
            apart = {repeated}
            sizes = Concat <axis = 0> ({asked_for})
            repeated = Expand (apart, sizes)
            tall = Mul (h, two)
            wide = Mul (w, two)
            together = Concat <axis = 0> (b, c, tall, wide)
            y = Reshape (repeated, together)
        }}
    """)
    dimensions = {"batch": range(1, 4), "height": range(2, 9), "width": range(2, 9)}
    package = edgekit_coreml.convert(model, tmp_path / "m", precision="float32", dimensions=dimensions)
    runner = edgekit_coreml.load(package)
    for sizes in ((1, 8, 4, 6), (3, 8, 8, 2)):
        x = tensor(*sizes)
        expected = np.full_like(x, 1.5) if "number" in repeated else x
        found = runner.run({"x": x})["y"]
        np.testing.assert_array_equal(found, expected.repeat(2, axis=2).repeat(2, axis=3))
