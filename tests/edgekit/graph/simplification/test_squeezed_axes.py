from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgekit.execution.equivalence import Equivalence
from edgekit.graph.simplification.squeezed_axes import with_squeezed_axes
from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.model import Model

OnnxModel = Callable[..., onnx.ModelProto]


def model(onnx_model: OnnxModel, graph: str, opset: int = 17) -> Model:
    return infer_shapes(Model(ir.from_proto(onnx_model(graph, opset=opset))), strict=False)


@pytest.mark.parametrize("opset", [11, 17])
@pytest.mark.parametrize(("shape", "axes"), [("2, 1, 3, 1", [1, 3]), ("1", [0]), ("2, 3", None), ("2, 1, N", [])])
def test_axes_of_known_sizes_are_written(onnx_model: OnnxModel, shape: str, axes: list[int] | None, opset: int) -> None:
    before = model(onnx_model, f"g (float[{shape}] x) => (float y) {{ r = Relu (x) y = Squeeze (r) }}", opset)
    after = with_squeezed_axes(before)
    last = after.graph[-1]
    if "N" in shape:
        assert after is before
    elif axes is None:
        assert last.op_type == "Identity"
    elif opset == 11:
        assert list(last.attributes["axes"].as_ints()) == axes
    else:
        assert ir.convenience.get_const_tensor(last.inputs[1]).numpy().tolist() == axes
    if "N" not in shape:
        assert Equivalence(before).difference(after) is None


@pytest.mark.parametrize(("sizes", "is_told"), [(range(3, 9), True), (range(2, 9), False), ((4, 6), True)])
def test_sizes_that_execution_tells_are_taken_where_they_agree(
    onnx_model: OnnxModel, sizes: range | tuple[int, ...], is_told: bool
) -> None:
    """A window of two leaves one of two, and more of more."""
    graph = "g (float[1, 4, N] x) => (float y) { p = MaxPool <kernel_shape = [2]> (x) y = Squeeze (p) }"
    before = replace(model(onnx_model, graph), open_dims={"N": sizes})
    after = with_squeezed_axes(before, Equivalence(before).shapes)
    assert (after is not before) == is_told
    if is_told:
        (axes,) = (value.const_value for value in after.graph.initializers.values())
        np.testing.assert_array_equal(axes.numpy(), [0])


def test_a_value_of_a_branch_is_not_asked_for(onnx_model: OnnxModel) -> None:
    """Only values of the main graph are measured: the axis of its own is told, the one of the branch's is not."""
    graph = """g (float[1, N] x, bool c) => (float[M] y) {
        y = If (c) <
            then_branch = t () => (float[K] p) { a = Neg (x) p = Squeeze (a) },
            else_branch = e () => (float[L] q) { q = Squeeze (x) }
        >
    }"""
    before = replace(Model(ir.from_proto(onnx_model(graph))), open_dims={"N": range(3, 9)})
    after = with_squeezed_axes(before, Equivalence(before).shapes)
    told = {
        node.outputs[0].name: len(node.inputs) == 2 for node in after.graph.all_nodes() if node.op_type == "Squeeze"
    }
    assert told == {"p": False, "q": True}
