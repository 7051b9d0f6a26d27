from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest

from edgekit.model import Model
from edgekit.target import Evidence, NodeVerdict, Support
from edgekit_openvino.target import OpenVINOTarget


def verdicts(body: str, profile_name: str, opset: int = 18) -> list[NodeVerdict]:
    text = f'<ir_version: 9, opset_import: ["" : {opset}, "my.domain" : 1]> g {body}'
    model = Model(ir.from_proto(onnx.parser.parse_model(text)))
    target = OpenVINOTarget()
    return target.check(model, next(profile for profile in target.profiles if profile.name == profile_name))


def test_the_cpu_plugin_answers_for_every_node() -> None:
    found = verdicts("(float[3] x) => (float[3] y) { [first] h = Exp(x) y = Relu(h) }", "intel-cpu")
    assert [(verdict.node, verdict.op_type) for verdict in found] == [("first", "Exp"), ("y", "Relu")]
    assert {(verdict.support, verdict.evidence, verdict.unit) for verdict in found} == {
        (Support.SUPPORTED, Evidence.COMPILED, "CPU")
    }


@pytest.mark.parametrize("profile", ["intel-gpu", "intel-npu"])
def test_what_cannot_be_known_here_is_said_to_be_unknown(profile: str) -> None:
    device = profile.removeprefix("intel-").upper()
    body = "(float[3] x) => (float[3] z) { [measured] y = Relu(x) [other] z = Max(y, y) }"
    measured, other = verdicts(body, profile)
    assert (measured.support, measured.evidence, measured.unit) == (Support.SUPPORTED, Evidence.TABLE, device)
    assert "measured with ONNX Runtime's OpenVINO provider" in measured.detail
    assert (other.support, other.evidence) == (Support.UNKNOWN, Evidence.UNKNOWN)
    assert device in other.detail


def test_what_was_not_compiled_elsewhere_falls_back() -> None:
    """The wheel of winml-cli has Relu on the NPU compiled with one to five dimensions, and not with six."""
    body = "(float[1, 1, 1, 1, 1, 3] x) => (float[1, 1, 1, 1, 1, 3] y) { y = Relu(x) }"
    (verdict,) = verdicts(body, "intel-npu")
    assert (verdict.support, verdict.evidence, verdict.unit) == (Support.FALLS_BACK, Evidence.TABLE, "CPU")
    assert verdict.hint == "OpenVINO's device HETERO:NPU,CPU runs on the CPU what the NPU leaves"


def test_nodes_that_the_frontend_cannot_convert_are_unsupported_on_every_device() -> None:
    body = "(float[3, 3] x) => (float y) { [bad] h = my.domain.Odd(x) [fine] i = Relu(h) [worse] y = Det(i) }"
    for profile in ("intel-cpu", "intel-npu"):
        found = {verdict.node: verdict.support for verdict in verdicts(body, profile)}
        assert found == {"bad": Support.UNSUPPORTED, "fine": Support.UNKNOWN, "worse": Support.UNSUPPORTED}


def test_what_is_laid_out_for_one_processor_says_what_can_be_done() -> None:
    text = (
        '<ir_version: 9, opset_import: ["" : 18, "com.microsoft.nchwc" : 1]> '
        "g (float[1, 16, 4, 4] x) => (float[1, 16, 4, 4] y) { y = com.microsoft.nchwc.ReorderInput (x) }"
    )
    target = OpenVINOTarget()
    cpu = next(profile for profile in target.profiles if profile.name == "intel-cpu")
    (verdict,) = target.check(Model(ir.from_proto(onnx.parser.parse_model(text))), cpu)
    assert verdict.support is Support.UNSUPPORTED
    assert verdict.detail == "computes in a memory layout of one processor"
    assert verdict.hint == "save the optimized model at ONNX Runtime's level extended or lower"


def test_an_operator_that_is_replaced_by_its_definition_is_decomposed() -> None:
    found = verdicts("(float16[4] x) => (float16[4] y) { h = Relu(x) y = Celu(h) }", "intel-cpu", opset=28)
    assert [verdict.support for verdict in found] == [Support.SUPPORTED, Support.DECOMPOSED]


def test_what_the_plugin_claims_has_to_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    import openvino

    def refuse(*_: object) -> None:
        raise RuntimeError("Exception from src/x.cpp:1:\nout of memory")

    monkeypatch.setattr(openvino.Core, "compile_model", refuse)
    (verdict,) = verdicts("(float[3] x) => (float[3] y) { y = Relu(x) }", "intel-cpu")
    assert (verdict.support, verdict.detail) == (
        Support.UNKNOWN,
        "the CPU plugin cannot compile the model: out of memory",
    )


BRANCHES_OF_TWO_RANKS = """(float[2, 3] x) => (float[2, 3] y) {
    some = ReduceMax <keepdims = 0> (x) condition = Cast <to = 9> (some)
    [outer] y = If (condition) <
        then_branch = as_it_is () => (float[2, 3] same) { same = Identity (x) },
        else_branch = otherwise () => (float[2, 3] flat) {
            [inner] h = If (condition) <
                then_branch = yes () => (float[2, 1, 3] a) {
                    axis = Constant <value = int64[1] {1}> () a = Unsqueeze (x, axis)
                },
                else_branch = no () => (float[2, 3] b) { b = Abs (x) }
            >
            s = Shape (x) flat = Reshape (h, s)
        }
    >
}"""


def test_a_node_that_keeps_the_plugin_from_compiling_is_named() -> None:
    found = {verdict.node: verdict for verdict in verdicts(BRANCHES_OF_TWO_RANKS, "intel-cpu")}
    assert [node for node, verdict in found.items() if verdict.support is Support.UNSUPPORTED] == ["inner"]
    assert "the CPU plugin cannot compile the model: " in found["inner"].detail
    assert found["inner"].detail.endswith("; 'h' has 3 dimensions in one branch and 2 in the other")
    assert found["outer"].support is Support.UNKNOWN


def test_the_branches_of_a_refused_node_are_told_apart() -> None:
    """An open size decides which branch is taken: the plugin takes no node behind it, either."""
    body = """(float[N, 3] x) => (float y) <int64 one = {1}, int64 zero = {0}, int64[1] first = {0}> {
        s = Shape (x) d = Gather (s, zero) c = Equal (d, one)
        [fork] h = If (c) <
            then_branch = yes () => (float[1, N, 3] a) { a = Unsqueeze (x, first) },
            else_branch = no () => (float[N, 3] b) { b = Relu (x) }
        >
        y = ReduceSum <keepdims = 0> (h)
    }"""
    found = {verdict.node: verdict for verdict in verdicts(body, "intel-cpu")}
    assert found["fork"].support is Support.UNSUPPORTED
    assert found["fork"].detail == (
        "the CPU plugin does not take it; 'h' has 3 dimensions in one branch and 2 in the other"
    )


REPORT = """Exception from src/inference/src/cpp/core.cpp:256:
Exception from src/inference/src/dev/plugin.cpp:70:
Check '!dim::is_empty(minus_one_dim)' failed at src/core/shape_inference/include/reshape_shape_inference.hpp:345:
While validating node 'opset1::Reshape last (opset1::Tile r[0]:f32[1,?,?,2,6], opset1::Constant c[0]:i64[4]) -> \
(f32[1,?,1537228672809129302..,6])' with friendly_name 'last':
Non-'-1' output dimensions do not evenly divide the input dimensions
"""
"""Of OpenVINO 2026.4, about a fingerprint detector whose upsampling has sizes in 32 bits."""


def test_a_node_whose_open_sizes_the_plugin_cannot_work_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(*_: object) -> None:
        raise RuntimeError(REPORT)

    monkeypatch.setattr("openvino.Core.compile_model", refusing)
    monkeypatch.setattr("openvino.Core.query_model", refusing)
    first, last = verdicts("(float[N] x) => (float[N] y) { [first] h = Exp(x) [last] y = Relu(h) }", "intel-cpu")
    assert (first.support, first.detail) == (Support.UNKNOWN, "not checked: the plugin stopped at another node")
    assert (last.support, last.hint) == (Support.UNSUPPORTED, "fix the inputs' shapes with --dim or --shape")
    assert last.detail == (
        "the CPU plugin cannot work out its sizes: Non-'-1' output dimensions do not evenly divide the input dimensions"
    )
