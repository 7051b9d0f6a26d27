"""What is rewritten for a target, by what it says of nodes."""

from __future__ import annotations

from collections.abc import Callable

import onnx
import pytest

from edgekit.model import Model, node_name
from edgekit.registry import find_profile, installed_rewrites
from edgekit.rewrites import adaptation
from edgekit.rewrites.adaptation import adapted
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
            NodeVerdict(node_name(node), node.op_type, Support.UNSUPPORTED, Evidence.REGISTRY)
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
