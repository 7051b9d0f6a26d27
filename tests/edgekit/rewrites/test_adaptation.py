"""What is rewritten for a target, by what it says of nodes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime
import pytest

from edgekit.errors import OpGap, UnsupportedOpsError
from edgekit.model import Model, node_name
from edgekit.registry import find_profile, installed_rewrites
from edgekit.rewrites import adaptation
from edgekit.rewrites.adaptation import Adapter, adapted, converted
from edgekit.rewrites.application import rewritten
from edgekit.rewrites.definition import Definition
from edgekit.target import Evidence, NodeVerdict, Support

LAYERS = """g (float[2, N] x) => (float[2, N] y) {
    a = Softsign (x)
    b = Softsign (a)
    c = LeakyRelu <alpha = 0.5> (b)
    d = LeakyRelu <alpha = 0.25> (c)
    e = LeakyRelu <alpha = 0.5> (d)
    y = Neg (e)
}"""


def test_layers_like_a_refused_one_are_asked_about_no_more(
    onnx_model: Callable[..., onnx.ModelProto],
    model_of: Callable[[onnx.ModelProto], Model],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Attributes count: a device may take one and not the other."""
    asked: list[set[str]] = []
    target, profile = find_profile("onnxruntime")

    def check(model: Model, _: object) -> list[NodeVerdict]:
        return [
            NodeVerdict(
                node=node_name(node), op_type=node.op_type, support=Support.UNSUPPORTED, evidence=Evidence.REGISTRY
            )
            for node in model.graph
            if node_name(node) in ("a", "c")
        ]

    def recorded(model: Model, refusals: Callable[[Model], set[str]], rewrites: object) -> object:
        asked.append(set(refusals(model)))
        return original(model, lambda _: (), rewrites)

    original = adaptation.rewritten
    monkeypatch.setattr(target, "check", check)
    monkeypatch.setattr(adaptation, "rewritten", recorded)
    adapted(model_of(onnx_model(LAYERS)), target, profile, installed_rewrites())
    assert asked == [{"a", "b", "c", "e"}]


def test_the_model_that_a_device_was_tried_with_last_is_adapted_once(
    onnx_model: Callable[..., onnx.ModelProto],
    model_of: Callable[[onnx.ModelProto], Model],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def recorded(model: Model, refusals: Callable[[Model], set[str]], rewrites: object) -> object:
        asked.append(model.name)
        return original(model, refusals, rewrites)

    original = adaptation.rewritten
    monkeypatch.setattr(adaptation, "rewritten", recorded)
    adapter = Adapter(installed_rewrites())
    first, second = (model_of(onnx_model(LAYERS)) for _ in range(2))
    here, there = find_profile("onnxruntime"), find_profile("intel-cpu")
    results = [adapter.adapted(first, *device) for device in (here, there, here, there)]
    assert len(asked) == 2
    assert results[0] is results[2]
    assert results[1] is results[3]
    assert adapter.adapted(second, *here) is not results[0]
    assert len(asked) == 3


ROTATED = """<ir_version: 11, opset_import: ["": 23]>
g (float[1, S, 64] x, int64[1, S] places) => (float[1, S, 64] y) {
    y = RotaryEmbedding <num_heads = 2> (x, cosines, sines, places)
}"""


def test_sizes_that_a_definition_computes_are_known_where_they_are_fixed(
    model_of: Callable[[onnx.ModelProto], Model],
) -> None:
    """The standard defines the rotation by parts whose sizes are taken from the heads' width."""
    proto = onnx.parser.parse_model(ROTATED)
    angles = np.outer(np.arange(8), np.arange(1, 17)).astype(np.float32)
    tables = {"cosines": np.cos(angles), "sines": np.sin(angles)}
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in tables.items())

    def refusals(candidate: Model) -> set[str]:
        return {node_name(node) for node in candidate.graph if node.op_type == "RotaryEmbedding"}

    changed = rewritten(model_of(proto), refusals, [Definition()]).model
    splits = [node for node in changed.graph if node.op_type == "Split"]
    assert splits
    assert all(value is not None and value.const_value is not None for node in splits for value in node.inputs[1:])
    feeds = {"x": np.random.default_rng(0).standard_normal((1, 5, 64)).astype(np.float32), "places": np.arange(5)[None]}
    found, expected = (
        onnxruntime.InferenceSession(each.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feeds)
        for each in (changed.proto(), proto)
    )
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5, atol=1e-6)


def test_what_a_target_refuses_once_other_nodes_are_rewritten_is_told_in_their_place(
    model_of: Callable[[onnx.ModelProto], Model],
) -> None:
    proto = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 22]>\n{LAYERS}')

    def convert(candidate: Model) -> None:
        operators = ("Softsign", "LeakyRelu") if "Softsign" in ops(candidate) else ("Neg",)
        refused = [node for node in candidate.graph if node.op_type in operators]
        gaps = [OpGap(op_type=node.op_type, node=node_name(node), reason="no kernel") for node in refused]
        raise UnsupportedOpsError(gaps)

    def ops(candidate: Model) -> set[str]:
        return {node.op_type for node in candidate.graph}

    with pytest.raises(UnsupportedOpsError) as raised:
        converted(model_of(proto), convert, [Definition()])
    assert [(gap.node, gap.reason) for gap in raised.value.gaps] == [("y", "no kernel")]


def test_a_node_whose_rewrite_is_rewritten_and_refused_again_is_told(
    model_of: Callable[[onnx.ModelProto], Model],
) -> None:
    graph = "g (float[1, 4, 3, 2] x) => (float[1, 4, 3, 2] y) { y = LRN <size = 3, bias = 2.0> (x) }"
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]>\n{graph}')

    def convert(candidate: Model) -> None:
        refused = [node for node in candidate.graph if node.op_type in ("LRN", "Mul")]
        raise UnsupportedOpsError(
            [OpGap(op_type=node.op_type, node=node_name(node), reason="none") for node in refused]
        )

    with pytest.raises(UnsupportedOpsError, match="the rewrite needs LRN: none") as raised:
        converted(model_of(proto), convert, installed_rewrites())
    assert [(gap.op_type, gap.node) for gap in raised.value.gaps] == [("LRN", "y")]


def test_what_the_rewrite_of_a_rewrite_needs_is_told_of_the_given_node(
    model_of: Callable[[onnx.ModelProto], Model],
) -> None:
    """The loss becomes another loss, and that one a GatherElements: the refusal listed no nodes."""
    graph = "g (float[3, 5] x, int64[3] t) => (float y) { y = SoftmaxCrossEntropyLoss (x, t) }"
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 13]>\n{graph}')
    kinds = ("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss", "GatherElements")

    def convert(candidate: Model) -> None:
        refused = [node for node in candidate.graph if node.op_type in kinds]
        raise UnsupportedOpsError(
            [OpGap(op_type=node.op_type, node=node_name(node), reason="none") for node in refused]
        )

    with pytest.raises(UnsupportedOpsError, match="the rewrite needs GatherElements: none") as raised:
        converted(model_of(proto), convert, [Definition()])
    assert [(gap.op_type, gap.node) for gap in raised.value.gaps] == [("SoftmaxCrossEntropyLoss", "y")]


def test_a_node_that_is_rewritten_and_refused_under_its_own_name_is_told(
    model_of: Callable[[onnx.ModelProto], Model],
) -> None:
    """ReduceMax of no elements becomes a constant, which Core ML has no type for: the refusal listed no nodes."""
    graph = """g (int64[2, 0, 3] x) => (int64[2, 3] y) <int64[1] axes = {1}> {
        y = ReduceMax <keepdims = 0> (x, axes)
    }"""
    proto = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 18]>\n{graph}')

    def convert(candidate: Model) -> None:
        (node,) = candidate.graph
        raise UnsupportedOpsError([OpGap(op_type=node.op_type, node="y", reason="does not fit int32")])

    with pytest.raises(UnsupportedOpsError, match="does not fit int32") as raised:
        converted(model_of(proto), convert, installed_rewrites())
    assert [(gap.op_type, gap.node) for gap in raised.value.gaps] == [("ReduceMax", "y")]
