"""Products, distances and what custom exports write in ``com.microsoft``, against ONNX Runtime's own kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgekit.rewrites.microsoft.fused_products import ACTIVATIONS

RNG = np.random.default_rng(9)
MICROSOFT = "com.microsoft"
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def one_node(
    op_type: str,
    fed: Sequence[np.ndarray],
    constants: Sequence[np.ndarray] = (),
    *,
    outputs: Sequence[int] = (FLOAT,),
    rows: str | None = None,
    opset: int = 17,
    **attributes: Any,
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A model of one node, and what is fed; the first size of that has a name where it is open."""
    arrays = [*fed, *constants]
    names = [f"i{place}" for place in range(len(arrays))]
    results = [f"y{place}" for place in range(len(outputs))]
    graph = helper.make_graph(
        [helper.make_node(op_type, names, results, "node", domain=MICROSOFT, **attributes)],
        "single",
        [
            helper.make_tensor_value_info(
                name,
                helper.np_dtype_to_tensor_dtype(array.dtype),
                array.shape if rows is None else [rows, *array.shape[1:]],
            )
            for name, array in zip(names, fed, strict=False)
        ],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in zip(results, outputs, strict=True)],
        [numpy_helper.from_array(array, name) for name, array in zip(names[len(fed) :], constants, strict=True)],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8), dict(zip(names, fed, strict=False))


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean"])
@pytest.mark.parametrize("rows", [None, "rows"], ids=["fixed", "open"])
@pytest.mark.parametrize("opset", [11, 18])
def test_distances(assert_rewritten: Callable[..., Any], metric: str, rows: str | None, opset: int) -> None:
    points = floats(6, 8)
    model, feeds = one_node("CDist", [floats(3, 8)], [points], rows=rows, opset=opset, metric=metric)
    more = [{"i0": floats(5, 8)}] if rows else []
    result = assert_rewritten(model, feeds, *more, rtol=1e-4, atol=1e-5)
    assert [each.rewrite for each in result.applied] == ["distances by a matrix product"]


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean"])
def test_distances_of_doubles_that_are_both_fed(assert_rewritten: Callable[..., Any], metric: str) -> None:
    fed = [floats(3, 8).astype(np.float64), floats(4, 8).astype(np.float64)]
    model, feeds = one_node("CDist", fed, outputs=(TensorProto.DOUBLE,), metric=metric)
    assert_rewritten(model, feeds)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_gemm_and_its_activation(assert_rewritten: Callable[..., Any], activation: str) -> None:
    parameters = dict(zip(ACTIVATIONS[activation], (0.3, 0.4), strict=False))
    attributes = {f"activation_{name}": value for name, value in parameters.items()}
    model, feeds = one_node(
        "FusedGemm",
        [floats(3, 4)],
        [floats(5, 4), floats(5)],
        activation=activation,
        transB=1,
        alpha=0.5,
        beta=2.0,
        **attributes,
    )
    assert_rewritten(model, feeds)


def test_gemm_without_a_summand(assert_rewritten: Callable[..., Any]) -> None:
    model, feeds = one_node("FusedGemm", [floats(4, 3)], [floats(4, 5)], activation="Tanh", transA=1)
    assert_rewritten(model, feeds)


OF_CONVOLUTIONS: dict[str, tuple[float, ...]] = {
    "Relu": (),
    "Sigmoid": (),
    "Tanh": (),
    "HardSwish": (),
    "LeakyRelu": (0.3,),
    "Clip": (-0.5, 0.75),
    "HardSigmoid": (0.3, 0.4),
}
"""The activations that ONNX Runtime's kernel takes, and their parameters."""


@pytest.mark.parametrize("activation", OF_CONVOLUTIONS)
def test_convolution_and_its_activation(assert_rewritten: Callable[..., Any], activation: str) -> None:
    settings = {"activation": activation, "pads": [1, 1, 1, 1], "group": 2}
    if parameters := OF_CONVOLUTIONS[activation]:
        settings["activation_params"] = list(parameters)
    model, feeds = one_node("FusedConv", [floats(1, 4, 5, 5)], [floats(6, 2, 3, 3), floats(6)], **settings)
    assert_rewritten(model, feeds)


def test_what_is_added_to_a_convolution_and_one_without_an_activation(assert_rewritten: Callable[..., Any]) -> None:
    constants = [floats(2, 3, 1, 1), floats(2), floats(1, 2, 4, 4)]
    for settings in ({"activation": "Relu"}, {}):
        model, feeds = one_node("FusedConv", [floats(1, 3, 4, 4)], constants, **settings)
        assert_rewritten(model, feeds)


PRODUCTS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "plain": ((2, 3, 4), (2, 4, 5), {}),
    "second transposed": ((2, 3, 4), (2, 5, 4), {"transB": 1, "alpha": 0.5}),
    "both transposed": ((2, 4, 3), (5, 4), {"transA": 1, "transB": 1}),
    "rows first": ((3, 2, 4), (4, 2, 5), {"transBatchA": 1, "transBatchB": 1}),
    "rows first, transposed": (
        (4, 6, 2, 3),
        (5, 6, 2, 4),
        {"transA": 1, "transB": 1, "transBatchA": 1, "transBatchB": 1},
    ),
}


@pytest.mark.parametrize(("first", "second", "attributes"), PRODUCTS.values(), ids=PRODUCTS)
def test_product_of_transposed_factors(
    assert_rewritten: Callable[..., Any],
    first: tuple[int, ...],
    second: tuple[int, ...],
    attributes: dict[str, Any],
) -> None:
    model, feeds = one_node("FusedMatMul", [floats(*first), floats(*second)], **attributes)
    assert_rewritten(model, feeds, rtol=1e-4, atol=1e-5)


def test_product_by_its_old_name(assert_rewritten: Callable[..., Any]) -> None:
    model, feeds = one_node("TransposeMatMul", [floats(2, 3, 4), floats(2, 5, 4)], transB=1, alpha=0.25)
    assert_rewritten(model, feeds, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (3, 3), (2, 3, 4, 4)], ids=str)
def test_inverse(assert_rewritten: Callable[..., Any], shape: tuple[int, ...]) -> None:
    """Of what is never singular, as the proof feeds zeros too."""
    model, feeds = one_node("Inverse", [floats(*shape)])
    model.graph.node[0].input[0] = "regular"
    model.graph.initializer.append(numpy_helper.from_array(3 * np.eye(shape[-1], dtype=np.float32), "more"))
    model.graph.node.insert(0, helper.make_node("Tanh", ["i0"], ["bounded"]))
    model.graph.node.insert(1, helper.make_node("Mul", ["bounded", "half"], ["less"]))
    model.graph.initializer.append(numpy_helper.from_array(np.array(0.5, np.float32), "half"))
    model.graph.node.insert(2, helper.make_node("Add", ["less", "more"], ["regular"]))
    assert_rewritten(model, feeds, refused=("Inverse",), rtol=1e-4, atol=1e-5)


def test_inverse_of_many_rows_is_left(assert_rewritten: Callable[..., Any]) -> None:
    model, _ = one_node("Inverse", [floats(5, 5)])
    with pytest.raises(AssertionError, match="matrices of 5 rows have too many cofactors"):
        assert_rewritten(model)


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("opset", [11, 16, 20])
def test_grid(assert_rewritten: Callable[..., Any], mode: str, opset: int) -> None:
    grid = (RNG.random((1, 3, 3, 2)) * 2 - 1).astype(np.float32)
    model, feeds = one_node("GridSample", [floats(1, 2, 4, 5), grid], opset=opset, mode=mode, align_corners=1)
    assert_rewritten(model, feeds, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("axis", [0, 2, -1])
def test_new_axis(assert_rewritten: Callable[..., Any], axis: int) -> None:
    model, feeds = one_node("ExpandDims", [floats(2, 3)], [np.array(axis, np.int32)])
    assert_rewritten(model, feeds)


def test_unique(assert_rewritten: Callable[..., Any]) -> None:
    model, _ = one_node("Unique", [floats(6)], outputs=(FLOAT, INT64, INT64))
    assert_rewritten(model, {"i0": np.array([3, 1, 3, 2, 1, 3], np.float32)})
