"""Every kernel with tensors of every rank, without elements or with one, and in every memory layout.

What a kernel computes is tested elsewhere, with contiguous tensors. Here the same values come as other tensors: of
another shape, where the kernel goes element by element, and from other places in memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from edgekit_mlruntime import kernels, registry

assert kernels  # imported so that every kernel is registered

SHAPES = [
    (), (0,), (1,), (5,), (1, 1), (0, 3), (3, 0), (2, 3), (1, 1, 1), (2, 0, 3), (2, 3, 4), (1, 1, 1, 1), (2, 3, 1, 2),
    (0, 1, 2, 3), (1, 2, 3, 1, 2), (2, 1, 0, 1, 2), (1, 1, 1, 1, 1), (2, 1, 2, 1, 2, 2), (1, 1, 1, 1, 1, 1),
    (1, 2, 0, 2, 1, 1),
]  # fmt: skip

PLAIN = [
    "abs", "acos", "asin", "atan", "atanh", "ceil", "cos", "cosh", "erf", "exp", "exp2", "floor", "gelu", "identity",
    "inverse", "log", "relu", "relu6", "round", "rsqrt", "sigmoid", "sign", "silu", "sin", "sinh", "softplus",
    "softsign", "sqrt", "square", "tan", "tanh",
]  # fmt: skip
UNARY: dict[str, dict[str, Any]] = {
    **{name: {} for name in PLAIN},
    "clamped_relu": {"alpha": 0.3, "beta": 0.5},
    "clip": {"alpha": -0.5, "beta": 0.5},
    "elu": {"alpha": 0.7},
    "fill_like": {"value": 2.0, "ios": 16},
    "leaky_relu": {"alpha": 0.3},
    "linear_activation": {"alpha": 2.0, "beta": -1.0},
    "scaled_tanh": {"alpha": 1.7, "beta": 0.6},
    "sigmoid_hard": {"alpha": 0.2, "beta": 0.5},
    "threshold": {"alpha": 0.2},
    "thresholded_relu": {"alpha": 0.4},
}
"""Kernels of one tensor that go element by element, with their parameters."""
GELU_MODES = ["EXACT", "TANH_APPROXIMATION", "SIGMOID_APPROXIMATION"]
TYPED_UNARY: dict[str, dict[str, Any]] = {
    "cast": {"dtype": "int32", "dtypes": ["int32"]},
    "quantize": {"scale": np.float32(0.1), "output_dtype": "int8", "dtypes": ["int8"], "ios": 17},
}
BINARY = ["add", "floor_div", "maximum", "minimum", "mod", "mul", "pow", "real_div", "sub"]
COMPARISONS = ["equal", "greater", "greater_equal", "less", "less_equal", "not_equal"]
LOGIC = ["logical_and", "logical_or", "logical_xor"]
REDUCTIONS: dict[str, Callable[..., Any]] = {
    "reduce_l1_norm": lambda x, **options: np.abs(x).sum(**options),
    "reduce_l2_norm": lambda x, **options: np.sqrt((x * x).sum(**options)),
    "reduce_log_sum": lambda x, **options: np.log(x.sum(**options)),
    "reduce_log_sum_exp": lambda x, **options: np.log(np.exp(x).sum(**options)),
    "reduce_max": lambda x, **options: x.max(**options),
    "reduce_mean": lambda x, **options: x.mean(**options),
    "reduce_min": lambda x, **options: x.min(**options),
    "reduce_prod": lambda x, **options: x.prod(**options),
    "reduce_sum": lambda x, **options: x.sum(**options),
    "reduce_sum_square": lambda x, **options: (x * x).sum(**options),
}


def values(shape, seed=3):
    """Numbers within the domain of every function here."""
    return np.random.default_rng(seed).uniform(0.05, 0.95, shape).astype(np.float32)


def strided(array: np.ndarray) -> dict[str, np.ndarray]:
    """The same values in other places: columns first, with gaps, backwards, and as a part of something larger."""
    array = np.asarray(array)
    gaps = np.empty([2 * size for size in array.shape], array.dtype)[tuple(slice(None, None, 2) for _ in array.shape)]
    gaps[...] = array
    flipped = tuple(slice(None, None, -1) for _ in array.shape)
    backwards = np.ascontiguousarray(array[flipped])[flipped]
    part = np.empty([size + 2 for size in array.shape], array.dtype)[tuple(slice(1, -1) for _ in array.shape)]
    part[...] = array
    found = {"columns first": np.asfortranarray(array), "gaps": gaps, "backwards": backwards, "part": part}
    for layout in found.values():
        np.testing.assert_array_equal(layout, array)
    return found


def assert_same(actual, expected):
    if isinstance(expected, list):
        for pair in zip(actual, expected, strict=True):
            assert_same(*pair)
        return
    assert isinstance(actual, np.ndarray)
    assert actual.shape == expected.shape
    assert actual.dtype == expected.dtype
    np.testing.assert_allclose(actual, expected, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", [*UNARY, *TYPED_UNARY])
def test_functions_of_one_tensor_take_every_shape(run_op, name, shape):
    parameters = {**UNARY, **TYPED_UNARY}[name]
    fed = "ref_tensor" if name == "fill_like" else "input" if name == "quantize" else "x"
    x = values(shape)
    expected = run_op(name, fed=[fed], **{fed: x.reshape(-1)}, **parameters).reshape(shape)
    assert_same(run_op(name, fed=[fed], **{fed: x}, **parameters), expected)
    if shape and 0 not in shape:
        for layout in strided(x).values():
            assert_same(run_op(name, fed=[fed], **{fed: layout}, **parameters), expected)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("mode", GELU_MODES)
def test_gelu_takes_every_shape_in_every_mode(run_op, mode, shape):
    x = values(shape)
    assert_same(run_op("gelu", x=x, mode=mode), run_op("gelu", x=x.reshape(-1), mode=mode).reshape(shape))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_float16_results_of_every_shape_are_rounded(run_op, name, shape):
    if name == "fill_like":
        pytest.skip("makes its values in the declared type")
    x = values(shape).astype(np.float16)
    result = run_op(name, x=x, dtypes=["float16"], **UNARY[name])
    assert result.shape == shape
    np.testing.assert_array_equal(result, result.astype(np.float16))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", [*BINARY, *COMPARISONS, *LOGIC])
def test_functions_of_two_tensors_take_every_shape(run_op, name, shape):
    dtype = "float32" if name in BINARY else "bool"
    x, y = values(shape), values(shape, 4)
    if name in LOGIC:
        x, y = x > 0.5, y > 0.5
    options = {"fed": ["x", "y"], "dtypes": [dtype]}
    expected = run_op(name, x=x.reshape(-1), y=y.reshape(-1), **options).reshape(shape)
    assert_same(run_op(name, x=x, y=y, **options), expected)
    if shape and 0 not in shape:
        for one, other in zip(strided(x).values(), reversed(strided(y).values()), strict=True):
            assert_same(run_op(name, x=one, y=other, **options), expected)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", [*BINARY, *COMPARISONS])
def test_a_scalar_broadcasts_from_either_side(run_op, name, shape):
    options = {"fed": ["x", "y"], "dtypes": ["float32" if name in BINARY else "bool"]}
    x, y = values(shape), values(())
    assert_same(run_op(name, x=x, y=y, **options), run_op(name, x=x, y=np.full(shape, y), **options))
    assert_same(run_op(name, x=y, y=x, **options), run_op(name, x=np.full(shape, y), y=x, **options))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_not_and_select_take_every_shape(run_op, shape):
    cond, a, b = values(shape) > 0.5, values(shape, 4), values(shape, 5)
    assert_same(run_op("logical_not", x=cond, dtypes=["bool"]), ~cond.reshape(shape))
    for layout in [cond, *(strided(cond).values() if shape and 0 not in shape else ())]:
        chosen = run_op("select", fed=["cond", "a", "b"], cond=layout, a=a, b=b)
        assert_same(chosen, np.where(cond, a, b).reshape(shape))


@pytest.mark.parametrize("keep_dims", [True, False])
@pytest.mark.parametrize("shape", [shape for shape in SHAPES if 0 not in shape], ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_take_every_shape(run_op, name, shape, keep_dims):
    x = values(shape)
    choices: list[tuple[int, ...] | None] = [None, *((axis,) for axis in range(-len(shape), len(shape)))]
    for axes in choices:
        expected = REDUCTIONS[name](x.astype(np.float64), axis=axes, keepdims=keep_dims)
        given = {} if axes is None else {"axes": np.int32(axes)}
        for layout in (x, *(strided(x).values() if shape else ())):
            result = run_op(name, x=layout, keep_dims=keep_dims, **given)
            assert result.shape == np.shape(expected)
            np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("sum", 0), ("prod", 1), ("l1_norm", 0), ("l2_norm", 0), ("sum_square", 0), ("log_sum", -np.inf)],
)
def test_reductions_of_nothing_give_the_neutral_element(run_op, name, expected):
    for shape in [shape for shape in SHAPES if 0 in shape]:
        assert run_op(f"reduce_{name}", x=np.zeros(shape, np.float32)) == np.float32(expected)


ALONG_AN_AXIS: dict[str, dict[str, Any]] = {
    "argsort": {"dtypes": ["int32"]},
    "cumsum": {},
    "reduce_argmax": {"keep_dims": True, "dtypes": ["int32"]},
    "reduce_argmin": {"keep_dims": True, "dtypes": ["int32"]},
    "softmax": {},
    "topk": {"k": 1, "ascending": True, "dtypes": ["float32", "int32"]},
}


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape], ids=str)
@pytest.mark.parametrize("name", ALONG_AN_AXIS)
def test_what_goes_along_an_axis_takes_every_shape(run_op, name, shape):
    if 0 in shape and name in ("reduce_argmax", "reduce_argmin", "topk"):
        pytest.skip("nothing has no extremes")
    x = values(shape)
    for axis in range(-len(shape), len(shape)):
        rows = np.moveaxis(x, axis, -1)
        expected = run_op(
            name,
            x=np.ascontiguousarray(rows).reshape(math.prod(rows.shape[:-1]), -1 if x.size else shape[axis]),
            axis=-1,
            **ALONG_AN_AXIS[name],
        )
        actual = run_op(name, x=x, axis=axis, **ALONG_AN_AXIS[name])
        for one, other in zip(
            *([item] if isinstance(item, np.ndarray) else item for item in (actual, expected)), strict=True
        ):
            assert_same(one, np.moveaxis(other.reshape(*rows.shape[:-1], other.shape[-1]), -1, axis))


def example_weights(*shape):
    return values(shape, 9) - 0.5


LSTM = {
    "x": values((4, 2, 3)), "initial_h": values((2, 5)), "initial_c": values((2, 5)),
    "weight_ih": example_weights(20, 3), "weight_hh": example_weights(20, 5), "bias": values(20),
    "output_sequence": True, "dtypes": ["float32"] * 3,
}  # fmt: skip
BACKWARD = {
    "weight_ih_back": example_weights(20, 3), "weight_hh_back": example_weights(20, 5), "bias_back": values(20),
    "initial_h": values((2, 10)), "initial_c": values((2, 10)), "direction": "bidirectional",
}  # fmt: skip
GRU = {
    "x": values((4, 2, 3)), "initial_h": values((2, 5)), "weight_ih": example_weights(15, 3),
    "weight_hh": example_weights(15, 5), "bias": values(15), "output_sequence": True, "dtypes": ["float32"] * 2,
}  # fmt: skip
IMAGE = values((2, 3, 6, 7))
SAMPLING = {
    "sampling_mode": "bilinear", "padding_mode": "constant", "padding_value": 0.0,
    "coordinates_mode": "normalized_minus_one_to_one", "align_corners": True,
}  # fmt: skip
NONE = np.zeros((2, 2), np.int32)
INDICES = np.array([[2, 0, 1], [1, 1, 0]], np.int32)
EXAMPLES: list[tuple[str, Mapping[str, Any]]] = [
    ("affine", {"x": IMAGE, "transform_matrix": values((2, 6)), "output_height": 4, "output_width": 5, **SAMPLING}),
    ("argsort", {"x": IMAGE, "axis": 1, "dtypes": ["int32"]}),
    ("avg_pool", {"x": IMAGE, "kernel_sizes": np.int32([2, 3]), "pad_type": "same"}),
    ("avg_pool", {"x": IMAGE, "kernel_sizes": np.int32([2, 2]), "pad_type": "custom", "pad": np.int32([2, 2, 2, 2])}),
    ("band_part", {"x": IMAGE, "lower": 1, "upper": 2}),
    ("batch_norm", {"x": IMAGE, "mean": values(3), "variance": values(3, 4), "gamma": values(3, 5)}),
    ("batch_to_space", {"x": values((4, 3, 2, 3)), "block_shape": np.int32([2, 2]), "crops": NONE}),
    ("concat", {"values": (IMAGE, IMAGE + 1), "axis": -2}),
    ("concat", {"values": (IMAGE, IMAGE + 1), "axis": 1, "interleave": True}),
    ("conv", {"x": IMAGE, "weight": example_weights(4, 3, 3, 2), "bias": values(4)}),
    ("conv", {"x": values((2, 4, 5)), "weight": example_weights(6, 2, 3), "groups": 2, "pad_type": "same"}),
    ("conv_quantized", {
        "x": IMAGE, "weight": np.arange(24, dtype=np.uint8).reshape(2, 3, 2, 2), "quantization_type": "linear",
        "quant_scale": np.float32([0.1, 0.2]), "quant_bias": np.float32([-1, 1]),
    }),
    ("conv_transpose", {
        "x": IMAGE, "weight": example_weights(3, 4, 3, 2), "bias": values(4), "strides": np.int32([2, 1]),
    }),
    ("crop", {"x": IMAGE, "crop_height": np.int32([1, 2]), "crop_width": np.int32([0, 3])}),
    ("crop_resize", {
        "x": IMAGE, "roi": np.float32([0, 1, 1, 4, 5, 1, 0, 0, 3, 3]).reshape(2, 1, 5, 1, 1), "target_height": 3,
        "target_width": 4,
    }),
    ("crop_resize", {
        "x": IMAGE, "boxes": np.float32([[1, 1, 4, 5], [0, 0, 3, 3]]), "box_indices": np.int32([0, 1]),
        "target_height": 3, "target_width": 4, "ios": 17,
    }),
    ("cumsum", {"x": IMAGE, "axis": 2, "exclusive": True, "reverse": True}),
    ("depth_to_space", {"x": values((2, 8, 2, 3)), "block_size": 2}),
    ("dequantize", {
        "input": np.arange(-12, 12, dtype=np.int8).reshape(2, 3, 4), "scale": values(3), "axis": 1,
        "zero_point": np.int8([1, -2, 3]), "ios": 17,
    }),
    ("einsum", {"values": (values((2, 3, 4)), values((2, 4, 5), 4)), "equation": "bij,bjk->bik"}),
    ("einsum", {"values": (values((2, 3, 4, 2)), values((2, 2, 4, 5), 4)), "equation": "abcd,adce->abce"}),
    ("expand_dims", {"x": values((2, 3, 4)), "axes": np.int32([1, -1])}),
    ("flatten2d", {"x": IMAGE}),
    ("gather", {"x": IMAGE, "indices": np.int32([[2, 0], [1, 1]]), "axis": 1}),
    ("gather", {"x": IMAGE, "indices": INDICES, "axis": 2, "batch_dims": 1, "ios": 17}),
    ("gather_along_axis", {"x": values((3, 3)), "indices": INDICES, "axis": 0}),
    ("gather_nd", {"x": IMAGE, "indices": np.int32([[1, 2, 3], [0, 1, 5]])}),
    ("gru", GRU),
    ("gru", {**GRU, "reset_after": True, "input_bias": values(15, 4), "direction": "reverse", "ios": 18}),
    ("instance_norm", {"x": IMAGE, "gamma": values(3), "beta": values(3, 4)}),
    ("l2_norm", {"x": IMAGE}),
    ("l2_pool", {"x": IMAGE, "kernel_sizes": np.int32([2, 3]), "pad_type": "valid"}),
    ("layer_norm", {"x": IMAGE, "axes": np.int32([1, 3]), "gamma": values((3, 7)), "beta": values((3, 7), 4)}),
    ("linear", {"x": values((2, 4, 3)), "weight": example_weights(5, 3), "bias": values(5)}),
    ("linear", {"x": values((2, 40, 30)), "weight": example_weights(50, 30), "bias": values(50)}),
    ("local_response_norm", {"x": IMAGE, "size": 2}),
    ("lstm", LSTM),
    ("lstm", {**LSTM, "direction": "reverse", "peephole": values(15, 4), "clip": 0.4}),
    ("lstm", {**LSTM, **BACKWARD}),
    ("matmul", {"x": values((2, 1, 4, 3)), "y": values((5, 6, 3), 4), "transpose_y": True}),
    ("matmul", {"x": values((2, 1, 40, 30)), "y": values((5, 60, 30), 4), "transpose_y": True}),
    ("matmul", {"x": values((4, 3)), "y": values((4, 5), 4), "transpose_x": True}),
    ("matmul", {"x": values(3), "y": values((3, 5), 4)}),
    ("max_pool", {"x": IMAGE, "kernel_sizes": np.int32([2, 3]), "pad_type": "same_lower", "strides": np.int32([2, 1])}),
    ("non_maximum_suppression", {
        "boxes": values((2, 6, 4)), "scores": values((2, 6, 3), 4), "iou_threshold": 0.4, "score_threshold": 0.3,
        "max_boxes": 4, "dtypes": ["float32", "float32", "int32", "int32"],
    }),
    ("non_maximum_suppression", {
        "boxes": values((2, 4, 6)), "scores": values((2, 3, 6), 4), "iou_threshold": 0.4, "max_boxes": 4,
        "dtypes": ["float32", "float32", "int32"], "ios": 17,
    }),
    ("non_zero", {"x": (values((2, 3, 4)) > 0.5).astype(np.float32), "dtypes": ["int32"]}),
    ("one_hot", {"indices": INDICES, "one_hot_vector_size": 3, "axis": 1}),
    ("pad", {"x": IMAGE, "pad": np.int32([1, 2, 0, 3]), "constant_val": 0.5}),
    ("pad", {"x": IMAGE, "pad": np.int32([1, 2, 0, 3]), "mode": "reflect"}),
    ("pad", {"x": IMAGE, "pad": np.int32([1, 2, 0, 3]), "mode": "replicate"}),
    ("pixel_shuffle", {"x": values((2, 8, 2, 3)), "upscale_factor": 2}),
    ("pixel_unshuffle", {"x": values((2, 3, 4, 6)), "downscale_factor": 2}),
    ("prelu", {"x": IMAGE - 0.5, "alpha": np.float32([0.1, -0.5, 2])}),
    ("reduce_argmax", {"x": IMAGE, "axis": 2, "dtypes": ["int32"]}),
    ("reduce_argmin", {"x": IMAGE, "axis": 1, "keep_dims": True, "dtypes": ["int32"]}),
    ("resample", {"x": IMAGE, "coordinates": 3 * values((2, 4, 5, 2)) - 1.5, **SAMPLING}),
    ("resample", {
        "x": IMAGE, "coordinates": 3 * values((2, 4, 5, 2)) - 1.5, **SAMPLING, "padding_mode": "reflection",
        "sampling_mode": "nearest",
    }),
    ("reshape", {"x": IMAGE, "shape": np.int32([3, 6, -1])}),
    ("reshape", {"x": IMAGE, "shape": np.int32([0, 7, -1]), "ios": 17}),
    ("reshape_like", {
        "x": IMAGE, "ref_tensors": (values((6, 6, 7)),), "begins": (np.int32(0),), "ends": (np.int32(3),),
        "end_masks": (np.bool_(False),),
    }),
    ("resize", {"x": IMAGE, "shape": np.int32([4, 5]), "resized_dims": 2, "ios": 17}),
    ("resize_bilinear", {"x": IMAGE, "target_size_height": 4, "target_size_width": 9}),
    ("resize_nearest_neighbor", {"x": IMAGE, "target_size_height": 4, "target_size_width": 9}),
    ("reverse", {"x": IMAGE, "axes": np.int32([0, -1])}),
    ("reverse_sequence", {"x": IMAGE, "lengths": np.int32([4, 7]), "seq_axis": 3, "batch_axis": 0}),
    ("rnn", {
        "x": values((4, 2, 3)), "initial_h": values((2, 5)), "weight_ih": example_weights(5, 3),
        "weight_hh": example_weights(5, 5), "bias": values(5), "output_sequence": True, "dtypes": ["float32"] * 2,
    }),
    ("scaled_dot_product_attention", {
        "query": values((2, 3, 4, 5)), "key": values((2, 3, 6, 5), 4), "value": values((2, 3, 6, 2), 5),
        "attn_mask": values((4, 6)), "ios": 18,
    }),
    ("scatter", {"data": IMAGE, "indices": np.int32([2, 0]), "updates": values((2, 2, 6, 7)), "axis": 1}),
    ("scatter", {
        "data": IMAGE, "indices": np.int32([2, 0]), "updates": values((2, 2, 6, 7)), "axis": 1, "mode": "update",
    }),
    ("scatter_along_axis", {"data": values((3, 3)), "indices": INDICES, "updates": values((2, 3), 4), "axis": 0}),
    ("scatter_nd", {
        "data": values((3, 4)), "indices": np.int32([[2], [0]]), "updates": values((2, 4), 4), "mode": "max",
    }),
    ("shape", {"x": IMAGE, "dtypes": ["int32"]}),
    ("slice_by_index", {"x": IMAGE, "begin": np.int32([0, 2, 1, 6]), "end": np.int32([2, 0, 5, 0]),
                        "stride": np.int32([1, -1, 2, -2])}),
    ("slice_by_size", {"x": IMAGE, "begin": np.int32([0, 1, -3, 2]), "size": np.int32([1, 2, 2, -1])}),
    ("slice_update", {"x": IMAGE, "update": values((1, 2, 6, 7)), "begin": np.int32([1, 1, 0, 0]),
                      "end": np.int32([2, 3, 6, 7]), "ios": 18}),
    ("sliding_windows", {"x": IMAGE, "axis": 2, "size": 3, "stride": 2}),
    ("softmax", {"x": IMAGE, "axis": 1}),
    ("softplus_parametric", {"x": IMAGE, "alpha": values(3), "beta": values(3, 4)}),
    ("space_to_batch", {"x": values((2, 3, 4, 6)), "block_shape": np.int32([2, 2]), "paddings": NONE}),
    ("space_to_depth", {"x": values((2, 3, 4, 6)), "block_size": 2}),
    ("split", {"x": IMAGE, "axis": 2, "split_sizes": np.int32([1, 5]), "dtypes": ["float32"] * 2}),
    ("split", {"x": IMAGE, "axis": 2, "num_splits": 2, "dtypes": ["float32"] * 2}),
    ("squeeze", {"x": values((2, 1, 3, 1)), "axes": np.int32([1, -1])}),
    ("stack", {"values": (IMAGE, IMAGE + 1), "axis": 1}),
    ("tile", {"x": IMAGE, "reps": np.int32([1, 2, 1, 3])}),
    ("topk", {"x": IMAGE, "k": 2, "axis": 1, "dtypes": ["float32", "int32"]}),
    ("transpose", {"x": IMAGE, "perm": np.int32([2, 0, 3, 1])}),
    ("upsample_bilinear", {"x": IMAGE, "scale_factor_height": 2.0, "scale_factor_width": 3.0}),
    ("upsample_nearest_neighbor", {"x": IMAGE, "scale_factor_height": 2.0, "scale_factor_width": 3.0}),
    ("constexpr_affine_dequantize", {
        "quantized_data": np.arange(24, dtype=np.uint8).reshape(2, 3, 4), "zero_point": np.uint8([1, 2, 3]),
        "scale": values(3), "axis": 1, "ios": 16,
    }),
    ("constexpr_blockwise_shift_scale", {
        "data": np.arange(-12, 12, dtype=np.int8).reshape(4, 6), "scale": values((4, 2)),
        "offset": np.arange(8, dtype=np.int8).reshape(4, 2), "ios": 18,
    }),
    ("constexpr_cast", {"source_val": values((2, 3)).astype(np.float16), "output_dtype": "fp32", "ios": 16}),
    ("constexpr_lut_to_dense", {
        "indices": np.arange(4, dtype=np.uint8).reshape(2, 2), "lut": values((1, 1, 4, 1)), "ios": 18,
    }),
]  # fmt: skip
"""Operations on tensors whose dimensions have a meaning; all tensors but the parameters of plans are strided."""
ELSEWHERE = {
    "shapes, numbers and texts in": "fill range_1d random_bernoulli random_categorical random_normal random_uniform",
    "whole packages (test_states, test_control_flow, test_border)": (
        "classify cond while_loop read_state write_state coreml_update_state"
    ),
    "lists (test_control_flow)": "list_gather list_length list_read list_scatter list_write make_list",
    "weights as the weight file holds them, always contiguous": (
        "constexpr_lut_to_sparse constexpr_sparse_blockwise_shift_scale constexpr_sparse_to_dense"
    ),
}
"""Kernels that are not called here, by the reason."""


def test_every_kernel_is_called_here():
    called = {*UNARY, *TYPED_UNARY, *BINARY, *COMPARISONS, *LOGIC, *REDUCTIONS, "logical_not", "select"}
    called |= {name for name, _ in EXAMPLES} | {name for names in ELSEWHERE.values() for name in names.split()}
    assert called == set(registry._KERNELS)


def tensors(parameters):
    """The names of the tensors among an operation's parameters."""
    return [
        name
        for name, value in parameters.items()
        if isinstance(value, np.ndarray) and value.ndim and (value.dtype.kind in "fb" or name in ("indices", "input"))
    ]


@pytest.mark.parametrize("layout", ["columns first", "gaps", "backwards", "part"])
@pytest.mark.parametrize("case", range(len(EXAMPLES)), ids=lambda case: EXAMPLES[case][0])
def test_operations_take_tensors_in_any_memory_layout(run_op, case, layout):
    name, parameters = EXAMPLES[case]
    constant = name.startswith("constexpr_")
    fed = [] if constant else tensors(parameters)
    changed = {key: strided(parameters[key])[layout] for key in tensors(parameters)}
    if isinstance(parameters.get("values"), tuple):
        changed["values"] = tuple(strided(value)[layout] for value in parameters["values"])
    assert changed
    assert_same(run_op(name, **{**parameters, "fed": fed, **changed}), run_op(name, **{**parameters, "fed": fed}))


@pytest.mark.parametrize("case", range(len(EXAMPLES)), ids=lambda case: EXAMPLES[case][0])
def test_operations_do_not_change_what_they_are_given(run_op, case):
    name, parameters = EXAMPLES[case]
    fed = [] if name.startswith("constexpr_") else tensors(parameters)
    before = {key: parameters[key].copy() for key in tensors(parameters)}
    run_op(name, **{**parameters, "fed": fed})
    for key, value in before.items():
        np.testing.assert_array_equal(parameters[key], value)


PER_SAMPLE = [
    "argsort", "avg_pool", "band_part", "batch_norm", "conv", "conv_quantized", "conv_transpose", "crop", "cumsum",
    "depth_to_space", "dequantize", "flatten2d", "instance_norm", "l2_norm", "l2_pool", "layer_norm", "linear",
    "local_response_norm", "max_pool", "one_hot", "pad", "pixel_shuffle", "pixel_unshuffle", "prelu", "reduce_argmax",
    "reduce_argmin", "resize", "resize_bilinear", "resize_nearest_neighbor", "sliding_windows", "softmax",
    "softplus_parametric", "space_to_depth", "split", "squeeze", "topk", "upsample_bilinear",
    "upsample_nearest_neighbor",
]  # fmt: skip


@pytest.mark.parametrize("batch", [0, 1])
@pytest.mark.parametrize(
    "case", [case for case, (name, _) in enumerate(EXAMPLES) if name in PER_SAMPLE], ids=lambda case: EXAMPLES[case][0]
)
def test_batches_of_one_sample_or_none_are_computed_alike(run_op, case, batch):
    name, parameters = EXAMPLES[case]
    fed = next(key for key in ("x", "input", "indices") if key in parameters)
    whole = run_op(name, **{**parameters, "fed": [fed]})
    part = run_op(name, **{**parameters, "fed": [fed], fed: parameters[fed][:batch]})
    if isinstance(whole, list):
        assert_same(part, [result[:batch] for result in whole])
    else:
        assert_same(part, whole[:batch])
