"""Names of sizes that the outputs of branches have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.stages.load import Load

BRANCHES = """g (float[N, 2] x, bool c) => (float[N, 2] y) {{
    h = Neg (x)
    y = If (c) <
        then_branch = yes () => (float[{yes}, 2] a) {{ a = Exp (h) }},
        else_branch = no () => (float[{no}, 2] b) {{ b = Identity (h) }}
    >
}}"""


def test_a_name_that_one_branch_alone_has_gives_way_to_what_is_inferred(onnx_file: Callable[..., Path]) -> None:
    loaded = Load()(onnx_file(BRANCHES.format(yes="unk__1", no="unk__2"))).model
    (node,) = (node for node in infer_shapes(loaded).graph if node.op_type == "If")
    for name in ("then_branch", "else_branch"):
        (value,) = node.attributes[name].as_graph().outputs
        assert str(value.shape) == "[N,2]"


def test_a_name_that_others_have_stays(onnx_file: Callable[..., Path]) -> None:
    loaded = Load()(onnx_file(BRANCHES.format(yes="M", no="M"))).model
    (node,) = (node for node in loaded.graph if node.op_type == "If")
    assert [str(value.shape) for value in node.attributes["then_branch"].as_graph().outputs] == ["[M,2]"]
