from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.model import Model, name_nodes, node_name, op_name
from edgekit.registry import installed_rewrites
from edgekit.rewrites.application import Rewritten, rewritten

Check = Callable[..., Rewritten]


def _model_of(proto: onnx.ModelProto) -> Model:
    model = Model(ir.from_proto(proto))
    name_nodes(model.graph_model)
    return infer_shapes(model, strict=False)


def _run(proto: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    # The optimizer quantizes weights between a DequantizeLinear and a QuantizeLinear anew, with one scale.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, dict(feeds))


@pytest.fixture
def model_of() -> Callable[[onnx.ModelProto], Model]:
    """Reads a model as rewrites are given it: nodes named, shapes inferred."""
    return _model_of


@pytest.fixture
def run() -> Callable[..., list[np.ndarray]]:
    """Executes a model with ONNX Runtime."""
    return _run


@pytest.fixture
def assert_rewritten() -> Check:
    """Refuses all nodes of some operators, and compares the rewrites' results with ONNX Runtime's own kernels."""

    def check(
        proto: onnx.ModelProto,
        *feeds: Mapping[str, np.ndarray],
        refused: tuple[str, ...] | None = None,
        rtol: float = 1e-5,
        atol: float = 1e-6,
        steps: int = 0,
    ) -> Rewritten:
        model = _model_of(proto)
        kinds = {op_name(node) for node in model.graph if refused is None or node.op_type in refused}

        def refusals(candidate: Model) -> set[str]:
            nodes = candidate.graph.all_nodes()
            return {node_name(node) for node in nodes if op_name(node) in kinds}

        result = rewritten(model, refusals, installed_rewrites())
        assert not result.dropped, result.dropped
        assert not refusals(result.model)
        assert {each.node for each in result.applied} == refusals(model)
        changed = result.model.proto()
        assert {node.domain for node in changed.graph.node} <= {""}
        for arrays in feeds:
            for expected, found in zip(_run(proto, arrays), _run(changed, arrays), strict=True):
                assert found.dtype == expected.dtype
                assert found.shape == expected.shape
                if expected.dtype.kind == "f":
                    np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)
                elif steps:
                    np.testing.assert_array_less(np.abs(found.astype(np.int64) - expected), steps + 1)
                else:
                    np.testing.assert_array_equal(found, expected)
        return result

    return check


@pytest.fixture
def assert_left_alone() -> Callable[[onnx.ModelProto, str, Mapping[str, int | str], str], None]:
    """Changes attributes of the only node of an operator; asserts that no rewrite takes the node, and the reason."""

    def check(proto: onnx.ModelProto, op_type: str, changes: Mapping[str, int | str], why: str) -> None:
        (node,) = (node for node in proto.graph.node if node.op_type == op_type)
        kept = [attribute for attribute in node.attribute if attribute.name not in changes]
        del node.attribute[:]
        node.attribute.extend([*kept, *(onnx.helper.make_attribute(*each) for each in changes.items())])

        def refusals(candidate: Model) -> set[str]:
            return {node_name(node) for node in candidate.graph.all_nodes() if node.op_type == op_type}

        result = rewritten(_model_of(proto), refusals, installed_rewrites())
        assert not result.applied
        assert why in next(iter(result.dropped.values()))

    return check
