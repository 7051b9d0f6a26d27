from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

import edgekit_coreml
from edgekit.execution.exact_products import with_exact_products
from edgekit.model import Model

OPSETS = {"": 22, "ai.onnx.ml": 3, "com.microsoft": 1}


def one_node_model(
    op_type: str,
    inputs: Sequence[np.ndarray | None],
    attributes: Mapping[str, Any],
    *,
    fed: Sequence[int],
    outputs: Sequence[str | None],
    opset: int | None = None,
    domain: str = "",
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A model of one node, and its feeds.

    Inputs at the positions ``fed`` are the model's, others initializers, and None is an input left out. ``outputs`` are
    the element types of the outputs by NumPy's names, None for one left out.
    """
    names = ["" if array is None else f"input_{index}" for index, array in enumerate(inputs)]
    results = ["" if dtype is None else f"output_{index}" for index, dtype in enumerate(outputs)]
    node = onnx.helper.make_node(op_type, names, results, domain=domain, **attributes)
    given = {name: np.asarray(array) for name, array in zip(names, inputs, strict=True) if array is not None}
    feeds = {names[index]: given[names[index]] for index in fed}
    graph = onnx.helper.make_graph(
        [node],
        "one_node",
        [
            onnx.helper.make_tensor_value_info(name, _element_type(array.dtype), array.shape)
            for name, array in feeds.items()
        ],
        [
            onnx.helper.make_tensor_value_info(name, _element_type(np.dtype(dtype)), None)
            for name, dtype in zip(results, outputs, strict=True)
            if dtype is not None
        ],
        [onnx.numpy_helper.from_array(array, name) for name, array in given.items() if name not in feeds],
    )
    opsets = dict(OPSETS)
    if opset is not None:
        opsets[domain] = opset
    imports = [onnx.helper.make_opsetid(name, version) for name, version in opsets.items() if name in ("", domain)]
    return onnx.helper.make_model(graph, opset_imports=imports, ir_version=10), feeds


def converted(
    model: onnx.ModelProto, feeds: Mapping[str, np.ndarray], folder: Path, *, target: str = "iOS18"
) -> list[np.ndarray]:
    """The outputs of the converted model, in their order."""
    package = edgekit_coreml.convert(model, folder / "model", precision="float32", deployment_target=target)
    results = edgekit_coreml.load(package).run(dict(feeds))
    return [np.asarray(results[value.name]) for value in model.graph.output]


def by_reference(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs that onnx's reference implementation computes."""
    return list(ReferenceEvaluator(model).run(None, dict(feeds)))


def by_onnxruntime(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs that ONNX Runtime computes, of integers without saturation."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    exact = with_exact_products(Model(ir.from_proto(model))).proto()
    session = onnxruntime.InferenceSession(exact.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(feeds)))


def _element_type(dtype: np.dtype[Any]) -> int:
    return int(onnx.helper.np_dtype_to_tensor_dtype(dtype))


@pytest.fixture
def lower(tmp_path: Path) -> Callable[..., list[np.ndarray]]:
    """Converts a node and runs it: its outputs.

    ``lower(op_type, inputs, *, fed=(0,), outputs=("float32",), opset=None, domain="", target="iOS18", **attributes)``.
    """

    def run(
        op_type: str,
        inputs: Sequence[np.ndarray | None],
        *,
        fed: Sequence[int] = (0,),
        outputs: Sequence[str | None] = ("float32",),
        opset: int | None = None,
        domain: str = "",
        target: str = "iOS18",
        **attributes: Any,
    ) -> list[np.ndarray]:
        model, feeds = one_node_model(op_type, inputs, attributes, fed=fed, outputs=outputs, opset=opset, domain=domain)
        return converted(model, feeds, tmp_path, target=target)

    return run


@pytest.fixture
def agrees(tmp_path: Path) -> Callable[..., None]:
    """Asserts that a node converted computes what an independent implementation does; see ``lower``.

    ``against`` is ``onnxruntime`` (default) or ``reference``, onnx's own implementation; further keywords are
    attributes, except the tolerances ``rtol`` and ``atol``; ``named`` holds attributes that are named like parameters.
    """

    def check(
        op_type: str,
        inputs: Sequence[np.ndarray | None],
        *,
        fed: Sequence[int] = (0,),
        outputs: Sequence[str | None] = ("float32",),
        opset: int | None = None,
        domain: str = "",
        target: str = "iOS18",
        against: str = "onnxruntime",
        rtol: float = 1e-5,
        atol: float = 1e-5,
        named: Mapping[str, Any] | None = None,
        **attributes: Any,
    ) -> None:
        attributes |= named or {}
        model, feeds = one_node_model(op_type, inputs, attributes, fed=fed, outputs=outputs, opset=opset, domain=domain)
        expected = {"onnxruntime": by_onnxruntime, "reference": by_reference}[against](model, feeds)
        actual = converted(model, feeds, tmp_path, target=target)
        assert len(actual) == len(expected)
        for ours, theirs in zip(actual, expected, strict=True):
            assert ours.dtype == theirs.dtype
            assert ours.shape == theirs.shape
            np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=atol)

    return check


def graph_model(
    nodes: Sequence[onnx.NodeProto],
    feeds: Mapping[str, np.ndarray],
    outputs: Mapping[str, str],
    constants: Mapping[str, np.ndarray] | None = None,
    functions: Sequence[onnx.FunctionProto] = (),
    opset: int = 21,
) -> onnx.ModelProto:
    """A model of several nodes; ``outputs`` has element types by name, in NumPy's terms."""
    graph = onnx.helper.make_graph(
        nodes,
        "nodes",
        [
            onnx.helper.make_tensor_value_info(name, _element_type(array.dtype), array.shape)
            for name, array in feeds.items()
        ],
        [
            onnx.helper.make_tensor_value_info(
                name, _element_type(np.dtype(dtype)), feeds[name].shape if name in feeds else None
            )
            for name, dtype in outputs.items()
        ],
        [onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()],
    )
    versions = {"": opset} | {
        node.domain: OPSETS[node.domain] for node in nodes if node.domain in OPSETS and node.domain
    }
    versions |= {function.domain: 1 for function in functions}
    imports = [onnx.helper.make_opsetid(domain, version) for domain, version in versions.items()]
    return onnx.helper.make_model(graph, opset_imports=imports, functions=functions, ir_version=10)


@pytest.fixture
def graph_agrees(tmp_path: Path) -> Callable[..., None]:
    """Asserts that a graph converted computes what ONNX Runtime does; see ``graph_model``."""

    def check(*args: Any, **keywords: Any) -> None:
        model = graph_model(*args, **keywords)
        feeds = args[1]
        actual = converted(model, feeds, tmp_path)
        for ours, theirs in zip(actual, by_onnxruntime(model, feeds), strict=True):
            assert ours.dtype == theirs.dtype
            assert ours.shape == theirs.shape
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)

    return check


@pytest.fixture
def convert_graph(tmp_path: Path) -> Callable[..., Any]:
    """Converts a graph and loads it: its runner; see ``graph_model``."""

    def load(*args: Any, **keywords: Any) -> Any:
        package = edgekit_coreml.convert(graph_model(*args, **keywords), tmp_path / "model", precision="float32")
        return edgekit_coreml.load(package)

    return load


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(11)
