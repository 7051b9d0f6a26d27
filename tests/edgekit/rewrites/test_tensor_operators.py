"""Rewrites of operators that move, sample, transform and count, against ONNX Runtime's own kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from edgekit.graph.building import NodeBuilder
from edgekit.model import node_name
from edgekit.processes import supervision
from edgekit.registry import installed_rewrites
from edgekit.rewrite import InapplicableError, Rewrite
from edgekit.rewrites.application import rewritten

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
RNG = np.random.default_rng(11)


def single(op_type, inputs, constants=None, opset=19, outputs=1, order=None, kind=FLOAT, **attributes):
    """A model of one node: inputs by name, then constants, or in an order of names ("" left out)."""
    constants = constants or {}
    names = order or [*inputs, *constants]
    results = [f"y{number}" for number in range(outputs)]
    node = helper.make_node(op_type, names, results, **attributes)
    graph = helper.make_graph(
        [node],
        "single",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in inputs.items()
        ],
        [helper.make_tensor_value_info(name, INT64 if number else kind, None) for number, name in enumerate(results)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


RESIZES = {
    "nearest, half pixels": ({"scales": np.array([1, 1, 1.7, 0.6], np.float32)}, {"mode": "nearest"}),
    "nearest, asymmetric, floor": (
        {"scales": np.array([1, 1, 2, 3], np.float32)},
        {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
    ),
    "linear, aligned corners": (
        {"sizes": np.array([1, 2, 7, 3])},
        {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
    ),
    "linear, PyTorch": (
        {"sizes": np.array([1, 2, 1, 9])},
        {"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"},
    ),
    "linear, antialias": ({"scales": np.array([1, 1, 0.4, 0.7], np.float32)}, {"mode": "linear", "antialias": 1}),
    "cubic, nothing from outside": (
        {"scales": np.array([1, 1, 1.5, 0.8], np.float32)},
        {"mode": "cubic", "exclude_outside": 1, "cubic_coeff_a": -0.5},
    ),
    "cubic, nothing from outside, by another number": (
        {"scales": np.array([1, 1, 1.5, 0.8], np.float32)},
        {"mode": "cubic", "exclude_outside": 2},
    ),
    "cubic, antialias": ({"sizes": np.array([1, 2, 3, 4])}, {"mode": "cubic", "antialias": 1}),
    "not larger": (
        {"sizes": np.array([7, 8])},
        {"mode": "nearest", "axes": [2, 3], "keep_aspect_ratio_policy": "not_larger"},
    ),
    "linear along two axes": ({"scales": np.array([1, 1.5, 2, 1], np.float32)}, {"mode": "linear"}),
}


@pytest.mark.parametrize("case", RESIZES)
def test_resize(assert_rewritten, case):
    constants, attributes = RESIZES[case]
    x = {"x": floats(1, 2, 5, 6)}
    order = ["x", "", "scales"] if "scales" in constants else ["x", "", "", "sizes"]
    result = assert_rewritten(single("Resize", x, constants, order=order, **attributes), x, atol=1e-5)
    assert [each.rewrite for each in result.applied] == ["resize by tables"]


def test_resize_cropped(assert_rewritten):
    x = {"x": floats(1, 1, 5, 6)}
    constants = {"roi": np.array([0, 0, 0.4, -0.2, 1, 1, 1.3, 0.7], np.float32), "sizes": np.array([1, 1, 4, 3])}
    proto = single(
        "Resize",
        x,
        constants,
        order=["x", "roi", "", "sizes"],
        mode="linear",
        coordinate_transformation_mode="tf_crop_and_resize",
        extrapolation_value=7.0,
    )
    assert_rewritten(proto, x, atol=1e-5)


def rewritten_alone(model_of, proto):
    """What the rewrites make of a model all of whose nodes are refused in the first round."""
    model = model_of(proto)
    first = {node_name(node) for node in model.graph.all_nodes()}
    result = rewritten(model, lambda candidate: first if candidate is model else set(), installed_rewrites())
    assert not result.dropped, result.dropped
    return result.model.proto()


def test_the_standard_decides_where_a_kernel_of_onnx_runtime_departs_from_it(model_of, run):
    x = {"x": floats(1, 1, 4, 4)}
    proto = single(
        "Resize",
        x,
        {"scales": np.array([1, 1, 0.6, 0.6], np.float32)},
        order=["x", "", "scales"],
        mode="linear",
        coordinate_transformation_mode="align_corners",
    )
    expected = ReferenceEvaluator(proto).run(None, x)[0]
    assert np.abs(run(proto, x)[0] - expected).max() > 0.01  # ONNX Runtime goes by the rounded sizes
    np.testing.assert_allclose(run(rewritten_alone(model_of, proto), x)[0], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("aligned", [0, 1])
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
def test_grid(assert_rewritten, mode, aligned, padding):
    feeds = {"x": floats(2, 3, 5, 6), "grid": (1.4 * floats(2, 4, 3, 2)).astype(np.float32)}
    proto = single("GridSample", feeds, opset=20, mode=mode, align_corners=aligned, padding_mode=padding)
    assert_rewritten(proto, feeds, atol=1e-5)


@pytest.mark.parametrize("batch", [1, 3])
def test_grid_of_an_open_batch(assert_rewritten, batch):
    feeds = {"x": floats(batch, 3, 5, 6), "grid": (1.4 * floats(batch, 4, 3, 2)).astype(np.float32)}
    proto = single("GridSample", feeds, opset=16, mode="bicubic", padding_mode="border")
    for value in proto.graph.input:
        value.type.tensor_type.shape.dim[0].dim_param = "n"
    assert_rewritten(proto, feeds, atol=1e-5)


def test_grid_of_three_dimensions(assert_rewritten):
    feeds = {"x": floats(1, 2, 3, 4, 5), "grid": (0.8 * floats(1, 2, 2, 2, 3)).astype(np.float32)}
    assert_rewritten(single("GridSample", feeds, opset=20), feeds, atol=1e-5)


@pytest.mark.parametrize("transformation", ["half_pixel", "output_half_pixel"])
def test_regions(assert_rewritten, transformation):
    rois = np.array([[0, 0, 9, 9], [1.5, 2.5, 4, 3], [-6, 5, 20, 30], [3, 3, 3, 3]], np.float32)
    feeds = {"x": floats(2, 3, 8, 7), "rois": rois, "batches": np.array([0, 1, 1, 0])}
    attributes = {"output_height": 3, "output_width": 2, "sampling_ratio": 2, "spatial_scale": 0.5}
    proto = single("RoiAlign", feeds, opset=16, coordinate_transformation_mode=transformation, **attributes)
    assert_rewritten(proto, feeds, atol=1e-5)


def test_greatest_of_regions_as_the_standard_has_it(model_of, run):
    rois = np.array([[0, 0, 7, 7], [1.5, 2.5, 4, 3]], np.float32)
    feeds = {"x": floats(1, 1, 8, 8), "rois": rois, "batches": np.array([0, 0])}
    attributes = {"output_height": 2, "output_width": 2, "sampling_ratio": 2, "mode": "max"}
    proto = single("RoiAlign", feeds, opset=22, **attributes)
    expected = ReferenceEvaluator(proto).run(None, feeds)[0]
    np.testing.assert_allclose(run(rewritten_alone(model_of, proto), feeds)[0], expected, rtol=1e-5, atol=1e-6)


def test_wrapping_pad(assert_rewritten):
    x = {"x": floats(3, 4)}
    assert_rewritten(single("Pad", x, {"pads": np.array([2, 1, 5, 0])}, mode="wrap"), x)
    assert_rewritten(
        single(
            "Pad", x, {"pads": np.array([3, 2]), "axes": np.array([1])}, order=["x", "pads", "", "axes"], mode="wrap"
        ),
        x,
    )


@pytest.mark.parametrize(
    ("size", "attributes"),
    [
        (7, {"kernel_shape": [3, 3], "strides": [2, 2]}),
        (6, {"kernel_shape": [2, 3], "strides": [3, 2], "pads": [0, 1, 0, 1]}),
        (5, {"kernel_shape": [2, 2], "strides": [3, 3], "dilations": [2, 1]}),
        (2, {"kernel_shape": [1, 1], "strides": [2, 2]}),
        (8, {"kernel_shape": [1, 3], "strides": [2, 2], "auto_pad": "VALID"}),
    ],
)
def test_pooling_with_sizes_rounded_up(model_of, run, size, attributes):
    x = {"x": floats(1, 2, size, size)}
    proto = single("MaxPool", x, opset=12, outputs=2, ceil_mode=1, **attributes)
    changed = rewritten_alone(model_of, proto)
    assert all(attribute.i == 0 for attribute in changed.graph.node[0].attribute if attribute.name == "ceil_mode")
    for expected, found in zip(run(proto, x), run(changed, x), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("op_type", "attributes", "kernel"),
    [
        ("AveragePool", {"kernel_shape": [8, 8], "strides": [8, 8], "count_include_pad": 1}, [5, 6]),
        (
            "AveragePool",
            {"kernel_shape": [9, 2], "strides": [2, 1], "pads": [1, 0, 2, 0], "count_include_pad": 1},
            [8, 2],
        ),
        ("AveragePool", {"kernel_shape": [3, 9], "strides": [2, 9], "pads": [0, 1, 0, 1]}, [3, 8]),
        ("MaxPool", {"kernel_shape": [8, 2], "strides": [8, 2], "pads": [0, 1, 1, 0]}, [6, 2]),
        ("LpPool", {"kernel_shape": [8, 8], "strides": [5, 5]}, [5, 6]),
    ],
)
def test_pooling_with_a_window_larger_than_the_image(model_of, run, op_type, attributes, kernel):
    x = {"x": floats(1, 2, 5, 6)}
    proto = single(op_type, x, opset=19, ceil_mode=1, **attributes)
    changed = rewritten_alone(model_of, proto)
    widths = [list(a.ints) for node in changed.graph.node for a in node.attribute if a.name == "kernel_shape"]
    assert widths == [kernel]
    np.testing.assert_allclose(run(changed, x)[0], run(proto, x)[0], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("opset", [9, 10, 19])
@pytest.mark.parametrize("shape", [(2, 5, 3, 4), (1, 16, 7), (1, 33, 2, 3, 2)])
def test_average_of_whole_vectors(model_of, run, shape, opset):
    x = {"x": floats(*shape)}
    proto = single("GlobalAveragePool", x, opset=opset)
    changed = rewritten_alone(model_of, proto)
    assert [node.op_type for node in changed.graph.node] == ["Pad", "GlobalAveragePool", "Slice"]
    np.testing.assert_allclose(run(changed, x)[0], run(proto, x)[0], rtol=1e-6, atol=1e-6)


def test_unpooling(assert_rewritten):
    feeds = {"x": np.array([[[[5, 6], [7, 8]]]], np.float32), "places": np.array([[[[5, 7], [13, 15]]]])}
    assert_rewritten(single("MaxUnpool", feeds, kernel_shape=[2, 2], strides=[2, 2]), feeds)


@pytest.mark.parametrize(
    "attributes", [{}, {"strides": [2, 1], "pads": [1, 0, 1, 2]}, {"dilations": [1, 2]}, {"strides": [3, 3]}]
)
def test_columns(assert_rewritten, attributes):
    image, block = (6, 7), (2, 3)
    strides, dilations = attributes.get("strides", [1, 1]), attributes.get("dilations", [1, 1])
    pads = attributes.get("pads", [0] * 4)
    counts = [
        (image[n] + pads[n] + pads[n + 2] - (block[n] - 1) * dilations[n] - 1) // strides[n] + 1 for n in range(2)
    ]
    x = {"x": floats(2, 3 * 6, counts[0] * counts[1])}
    constants = {"image": np.array(image), "block": np.array(block)}
    assert_rewritten(single("Col2Im", x, constants, opset=18, **attributes), x)


@pytest.mark.parametrize("mode", ["linear", "circular"])
def test_cache_update(assert_rewritten, mode):
    begins = np.array([1, 3 if mode == "circular" else 2])
    feeds = {"cache": floats(2, 3, 4, 5), "update": floats(2, 3, 2, 5), "begins": begins}
    assert_rewritten(single("TensorScatter", feeds, opset=24, mode=mode), feeds)


@pytest.mark.parametrize(
    ("shape", "axis", "length", "attributes"),
    [
        ((2, 8, 1), 1, None, {}),
        ((2, 8, 2), 1, None, {"inverse": 1}),
        ((2, 6, 3, 1), 2, None, {"onesided": 1}),
        ((2, 6, 3, 2), 1, 10, {}),
        ((2, 9, 1), -2, 5, {"onesided": 1}),
        ((2, 64, 1), 1, None, {}),
    ],
)
def test_fourier_transform(assert_rewritten, shape, axis, length, attributes):
    x = {"x": floats(*shape)}
    constants = {"axis": np.array(axis)} | ({} if length is None else {"length": np.array(length)})
    order = ["x", "" if length is None else "length", "axis"]
    assert_rewritten(single("DFT", x, constants, opset=20, order=order, **attributes), x, atol=1e-5)


@pytest.mark.parametrize(
    ("shape", "window", "length", "attributes"),
    [
        ((2, 37), True, None, {}),
        ((2, 40, 1), True, 8, {"onesided": 1}),
        ((1, 41), False, 7, {}),
        ((2, 40, 1), True, None, {"onesided": 0}),
        ((2, 40, 2), True, None, {"onesided": 0}),
    ],
)
def test_short_time_fourier_transform(assert_rewritten, shape, window, length, attributes):
    x = {"x": floats(*shape)}
    constants = {"step": np.array(3)}
    constants |= {"window": np.hamming(8).astype(np.float32)} if window else {}
    constants |= {} if length is None else {"length": np.array(length)}
    order = ["x", "step", "window" if window else "", *([] if length is None else ["length"])]
    assert_rewritten(single("STFT", x, constants, opset=17, order=order, **attributes), x, atol=1e-5)


@pytest.mark.parametrize("shape", [("batch", "samples"), ("batch", "samples", 1), (2, "samples", 2)])
def test_short_time_fourier_transform_of_any_length(assert_rewritten, shape):
    constants = {"step": np.array(3), "window": np.hamming(8).astype(np.float32)}
    x = {"x": floats(2, 37, *shape[2:])}
    proto = single("STFT", x, constants, opset=17, order=["x", "step", "window"], onesided=int(shape[2:] != (2,)))
    proto.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", FLOAT, shape))
    assert_rewritten(proto, x, {"x": floats(2, 8, *shape[2:])}, atol=1e-5)


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize("skips", [0, 5])
@pytest.mark.parametrize("columns", [[0, 1, 2, 3, 4, 5, 6], [3, 0, 6, 2, 1, 5, 4], [1, 1, 0, 7, 4, 5, 6]])
def test_ngrams(assert_rewritten, mode, skips, columns):
    attributes = {
        "mode": mode,
        "min_gram_length": 1,
        "max_gram_length": 2,
        "max_skip_count": skips,
        "ngram_counts": [0, 4],
        "ngram_indexes": columns,
        "pool_int64s": [2, 3, 5, 4, 5, 6, 7, 8, 6, 7],
        "weights": [1.0, 2.0, 0.5, 1.5, 3.0, 0.25, 4.0],
    }
    x = {"x": np.array([[1, 1, 3, 3, 3, 7], [8, 6, 7, 5, 6, 8]], np.int64)}
    assert_rewritten(single("TfIdfVectorizer", x, opset=9, **attributes), x)
    one = {"x": x["x"][1]}
    assert_rewritten(single("TfIdfVectorizer", one, opset=9, **attributes), one)
    several = single("TfIdfVectorizer", x, opset=9, **attributes)
    several.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", INT64, ["texts", 6]))
    assert_rewritten(several, x, {"x": x["x"][:1]})


def test_words_that_have_a_column_each_need_no_table_of_columns(model_of):
    pool = {"ngram_counts": [0], "ngram_indexes": [2, 0, 1], "pool_int64s": [7, 8, 9]}
    attributes = {"mode": "TF", "min_gram_length": 1, "max_gram_length": 1, "max_skip_count": 0, **pool}
    model = model_of(single("TfIdfVectorizer", {"x": np.array([[9, 7, 7]])}, opset=9, **attributes))
    result = rewritten(model, lambda candidate: {node_name(candidate.graph[0])}, installed_rewrites())
    assert "ReduceSum" in {node.op_type for node in result.model.graph}
    assert "MatMul" not in {node.op_type for node in result.model.graph}


def test_a_resize_to_computed_sizes_with_antialias_is_left_alone(model_of):
    feeds = {"x": floats(1, 1, 4, 4), "sizes": np.array([1, 1, 6, 6])}
    model = model_of(single("Resize", feeds, order=["x", "", "", "sizes"], mode="cubic", antialias=1))
    result = rewritten(model, lambda candidate: {node_name(candidate.graph[0])}, installed_rewrites())
    assert list(result.dropped.values()) == [
        "the rewrite 'resize by gathers' was dropped: antialias at sizes that only a run tells"
    ]


class _OfAnotherPackage(Rewrite):
    name = "resize of theirs"
    op_types = ("Resize",)

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        raise InapplicableError("not here")


def test_a_rewrite_of_another_package_keeps_its_reason(model_of):
    """It is tried first; of the host's own the last reason stands behind it."""
    feeds = {"x": floats(1, 1, 4, 4), "sizes": np.array([1, 1, 6, 6])}
    model = model_of(single("Resize", feeds, order=["x", "", "", "sizes"], mode="cubic", antialias=1))
    rewrites = [_OfAnotherPackage(), *installed_rewrites()]
    result = rewritten(model, lambda candidate: {node_name(candidate.graph[0])}, rewrites)
    assert list(result.dropped.values()) == [
        "the rewrite 'resize of theirs' was dropped: not here; "
        "the rewrite 'resize by gathers' was dropped: antialias at sizes that only a run tells"
    ]


def test_each_rewrite_that_is_tried_alone_is_a_sign_of_progress(model_of, monkeypatch):
    """A model of hundreds of rewrites takes minutes; the process that watches it has to hear of each."""
    heard = []
    monkeypatch.setattr(supervision, "tell_step", lambda: heard.append(1))
    feeds = {"x": floats(1, 1, 4, 4), "sizes": np.array([1, 1, 6, 6])}
    model = model_of(single("Resize", feeds, order=["x", "", "", "sizes"], mode="cubic", antialias=1))
    rewritten(model, lambda candidate: {node_name(candidate.graph[0])}, installed_rewrites())
    assert len(heard) == 2  # by tables, by gathers


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
def test_shifts_of_signed_integers(model_of, run, direction, dtype):
    """No constant needs more than 32 bits: OpenVINO has no others."""
    limits, bits = np.iinfo(dtype), np.dtype(dtype).itemsize * 8
    x = np.array([[0], [1], [-1], [77], [-1234567], [limits.max], [limits.min + 1]], dtype)
    places = np.arange(bits, dtype=dtype)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    proto = single("BitShift", {"x": x, "by": places}, opset=18, kind=kind, direction=direction)
    changed = rewritten_alone(model_of, proto)
    assert all((abs(numpy_helper.to_array(each)) < 2**31).all() for each in changed.graph.initializer)
    shift = np.left_shift if direction == "LEFT" else np.right_shift
    np.testing.assert_array_equal(run(changed, {"x": x, "by": places})[0], shift(x, places))
