from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from edgekit.graph.sizes.shapes import fold_shapes, infer_shapes
from edgekit.model import Model


def folded(text: str, opset: int = 17) -> ir.Graph:
    model = ir.from_onnx_text(f'<ir_version: 8, opset_import: ["": {opset}]> {text}')
    return fold_shapes(infer_shapes(Model(model), strict=False)).graph


@pytest.mark.parametrize(
    ("asked", "index", "known"),
    [
        ("Shape (x)", "int64 i = {1}", 3),
        ("Shape (x)", "int64 i = {-2}", 5),
        ("Shape (x)", "int64[2] i = {1, 2}", [3, 5]),
        ("Shape <start = 1> (x)", "int64 i = {0}", 3),
        ("Shape <start = -2, end = 3> (x)", "int64 i = {0}", 5),
        ("Shape (x)", "int64 i = {0}", None),
        ("Shape (x)", "int64[2] i = {0, 1}", None),
        ("Shape (x)", "int64 i = {7}", None),
    ],
)
def test_sizes_that_are_known_beside_open_ones_are_constants(
    asked: str, index: str, known: int | list[int] | None
) -> None:
    rank = "int64[2]" if "[2]" in index else "int64"
    graph = folded(
        f"g (float[N, 3, 5, M] x) => ({rank} y) <{index}> {{ s = {asked} d = Gather (s, i) y = Add (d, d) }}"
    )
    left = {node.op_type for node in graph}
    if known is None:
        assert "Gather" in left
    else:
        assert not left
        constant = ir.convenience.get_const_tensor(graph.outputs[0])
        assert constant is not None
        np.testing.assert_array_equal(constant.numpy(), np.multiply(known, 2))


def test_the_branch_that_a_known_size_takes_is_left() -> None:
    """As PyTorch's scripts ask for the number of channels."""
    graph = folded(
        """g (float[N, 1, T] x) => (float y) <int64 one = {1}> {
            s = Shape (x) channels = Gather (s, one) is_one = Equal (channels, one)
            y = If (is_one) <
                then_branch = yes () => (float[N, 1, T] a) { a = Relu (x) },
                else_branch = no () => (float[1, N, 1, T] b) { axis = Constant <value_ints = [0]> ()
                    b = Unsqueeze (x, axis) }
            >
        }"""
    )
    assert [node.op_type for node in graph] == ["Relu"]


@pytest.mark.parametrize(
    ("opset", "split", "parts"),
    [
        (11, "Split <axis = 0> (c)", ([0, 1], [2, 3])),
        (11, "Split <split = [1, 3]> (c)", ([0], [1, 2, 3])),
        (13, "Split (c, sizes)", ([0, 1, 2], [3])),
        (18, "Split <num_outputs = 2> (odd)", ([0, 1, 2], [3, 4])),
    ],
)
def test_a_constant_that_is_split_is_known(opset: int, split: str, parts: tuple[list[int], list[int]]) -> None:
    """As tf2onnx puts the paddings of a channels-first Pad in order."""
    graph = folded(
        f"""g () => (int64[N] y)
            <int64[4] c = {{0, 1, 2, 3}}, int64[5] odd = {{0, 1, 2, 3, 4}}, int64[2] sizes = {{3, 1}}> {{
            a, b = {split} y = Concat <axis = 0> (b, a)
        }}""",
        opset,
    )
    assert not len(graph)
    constant = ir.convenience.get_const_tensor(graph.outputs[0])
    assert constant is not None
    np.testing.assert_array_equal(constant.numpy(), parts[1] + parts[0])
