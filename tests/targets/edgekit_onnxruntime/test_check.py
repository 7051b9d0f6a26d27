from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import onnx
import onnx_ir as ir
import pytest

from edgekit.model import Model
from edgekit.operators.hints import refusal_hint
from edgekit.target import Evidence, NodeVerdict, Profile, Support
from edgekit_onnxruntime import by_session, check, qnn
from edgekit_onnxruntime.assignment import Assignment, SilentCompilerError
from edgekit_onnxruntime.devices import NOT_STARTED, devices, read_device
from edgekit_onnxruntime.target import ONNXRuntimeTarget


def verdicts(body: str, profile_name: str = "onnxruntime", opset: int = 18) -> list[NodeVerdict]:
    text = f'<ir_version: 9, opset_import: ["" : {opset}, "my.domain" : 1]> g {body}'
    model = Model(ir.from_proto(onnx.parser.parse_model(text)))
    target = ONNXRuntimeTarget()
    return target.check(model, next(profile for profile in target.profiles if profile.name == profile_name))


PLAIN = "(float[3] x) => (float[3] y) { [first] h = Exp(x) y = Relu(h) }"


def test_a_session_answers_for_every_node() -> None:
    found = verdicts(PLAIN)
    assert [(verdict.node, verdict.op_type) for verdict in found] == [("first", "Exp"), ("y", "Relu")]
    assert {(verdict.support, verdict.evidence, verdict.unit) for verdict in found} == {
        (Support.SUPPORTED, Evidence.COMPILED, "CPU")
    }


def test_the_model_that_is_judged_keeps_its_names() -> None:
    text = f'<ir_version: 9, opset_import: ["" : 18]> g {PLAIN}'
    model = Model(ir.from_proto(onnx.parser.parse_model(text)))
    ONNXRuntimeTarget().check(model, ONNXRuntimeTarget().profiles[0])
    assert [node.name for node in model.graph] == ["first", ""]


@pytest.mark.parametrize("profile", ONNXRuntimeTarget().profiles, ids=lambda profile: str(profile.name))
def test_what_is_laid_out_for_one_processor_goes_to_no_device(profile: Profile) -> None:
    """A file saved where blocks have 16 channels loads where they have 8, and reaches 2 dB there."""
    text = (
        '<ir_version: 9, opset_import: ["" : 18, "com.microsoft.nchwc" : 1]> '
        "g (float[1, 16, 4, 4] x) => (float[1, 16, 4, 4] z) { h = com.microsoft.nchwc.ReorderInput (x) "
        "y = com.microsoft.nchwc.ReorderOutput <channels = 16> (h) z = Relu (y) }"
    )
    first, second, _ = check.verdicts(Model(ir.from_proto(onnx.parser.parse_model(text))), profile)
    for verdict in (first, second):
        assert verdict.support is Support.UNSUPPORTED
        assert verdict.detail == "computes in a memory layout of one processor"
        assert verdict.hint == "save the optimized model at ONNX Runtime's level extended or lower"
    assert refusal_hint([first.hint, second.hint], []) == first.hint


def test_nodes_inside_branches_are_judged_too() -> None:
    found = verdicts(
        "(bool c, float[3] x) => (float[3] y) { [choice] y = If (c) <\n"
        "  then_branch = t () => (float[3] a) { [left] a = Sin(x) },\n"
        "  else_branch = e () => (float[3] b) { [right] b = Cos(x) }> }"
    )
    assert sorted(verdict.node for verdict in found) == ["choice", "left", "right"]


def test_an_operator_that_is_replaced_by_its_definition_is_decomposed() -> None:
    found = verdicts(
        "(float[1, 4, 3] x) => (float[1, 4, 3] y) {\n"
        "  s = Constant <value_floats = [1.0, 1.0]> ()\n  y = GroupNormalization <num_groups = 2> (x, s, s)\n}"
    )
    assert [verdict.support for verdict in found] == [Support.SUPPORTED, Support.DECOMPOSED]


def test_a_missing_kernel_is_told_by_name_and_type() -> None:
    found = verdicts(
        "(double[1, 2, 2] d, float[2] x) => (double[1] v, float[2] y) { [volume] v = Det(d) [fine] y = Relu(x) }"
    )
    assert [(verdict.node, verdict.support) for verdict in found] == [
        ("volume", Support.UNSUPPORTED),
        ("fine", Support.SUPPORTED),
    ]
    assert "DOUBLE" in found[0].detail


def test_what_lies_behind_an_unknown_operator_is_unknown() -> None:
    found = verdicts("(float[2] x) => (float[2] y) { [odd] h = my.domain.Odd(x) [behind] y = Relu(h) }")
    assert [verdict.support for verdict in found] == [Support.UNSUPPORTED, Support.UNKNOWN]


@pytest.mark.parametrize("profile", ["android-cpu", "web"])
def test_other_builds_of_the_same_kernels_are_judged_by_this_one(profile: str) -> None:
    assert {verdict.evidence for verdict in verdicts(PLAIN, profile)} == {Evidence.HEURISTIC}


def test_nnapi_is_judged_by_the_runtimes_own_table() -> None:
    found = verdicts(CONVOLUTION, "android-nnapi")
    assert [(verdict.support, verdict.evidence, verdict.unit) for verdict in found] == [
        (Support.SUPPORTED, Evidence.TABLE, "NNAPI"),
        (Support.FALLS_BACK, Evidence.TABLE, "CPU"),
    ]
    assert found[1].detail == "not in the table of NNAPI"
    assert found[1].hint == "export Gelu with approximate='tanh'"


CONVOLUTION = (
    "(float[1, 1, 8, 8] x) => (float[1, 2, 6, 6] y) <float[2, 1, 3, 3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9,"
    " 1, 2, 3, 4, 5, 6, 7, 8, 9}> { c = Conv(x, w) y = Erf(c) }"
)


@pytest.mark.parametrize(
    ("body", "profile", "reason"),
    [
        (
            "(float[1, 1, 8, 8] x, float[2, 1, 3, 3] w) => (float[1, 2, 6, 6] y) { y = Conv(x, w) }",
            "android-nnapi",
            "input 'w' is not constant",
        ),
        (
            "(float[1, 1, 8] x) => (float[1, 1, 4] y) { y = MaxPool <kernel_shape = [5]> (x) }",
            "android-nnapi",
            "its first input has 3 dimensions, not 4",
        ),
        (
            '(float[1, 4, 2, 2] x) => (float[1, 1, 4, 4] y) { y = DepthToSpace <blocksize = 2, mode = "CRD"> (x) }',
            "android-nnapi",
            "mode is CRD, not DCR",
        ),
        ("(float[N, 4] x) => (float[N, 4] y) { y = Relu(x) }", "android-nnapi", "a shape that it reads is not fixed"),
    ],
)
def test_a_node_that_fails_a_tables_condition_falls_back(body: str, profile: str, reason: str) -> None:
    (found,) = verdicts(body, profile)
    assert (found.support, found.unit, found.detail) == (Support.FALLS_BACK, "CPU", reason)
    assert found.hint


def test_a_shape_that_is_known_late_is_not_the_inputs_fault() -> None:
    hints = [
        found.hint
        for body in (
            "(float[4] x) => (int64[1, K] y) { y = NonZero(x) }",
            "(float[N] x) => (float[N] y) { y = Relu(x) }",
        )
        for found in verdicts(
            body.replace("y = NonZero(x) }", "z = NonZero(x) y = Cast <to = 7> (z) }"), "android-nnapi"
        )
        if found.detail == "a shape that it reads is not fixed"
    ]
    assert len(hints) == 2
    assert hints[0].startswith("the inputs' shapes are fixed, and this one is known when the model runs")
    assert hints[1] == "fix the inputs' shapes with --dim or --shape"


def test_a_weight_that_is_stored_quantized_is_constant() -> None:
    weight = (
        "<int8[2, 1, 3, 3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9}, float s = {0.5}, int8 z = {0}>"
    )
    found = verdicts(
        f"(float[1, 1, 8, 8] x) => (float[1, 2, 6, 6] y) {weight} {{ d = DequantizeLinear(w, s, z) y = Conv(x, d) }}",
        "android-nnapi",
    )
    assert [verdict.support for verdict in found] == [Support.SUPPORTED, Support.SUPPORTED]


def test_what_neither_the_table_nor_the_cpu_has_is_unsupported() -> None:
    (found,) = verdicts("(double[1, 2, 2] d) => (double[1] v) { v = Det(d) }", "cann")
    assert found.support is Support.UNSUPPORTED
    assert found.detail.startswith("not in the table of NPU; ONNX Runtime has no CPU kernel")
    assert "cast its inputs" in found.hint


@pytest.mark.parametrize(
    ("dtype", "support", "unit"), [("float", Support.SUPPORTED, "GPU"), ("double", Support.FALLS_BACK, "CPU")]
)
def test_measured_cases_tell_what_tensorrt_takes(dtype: str, support: Support, unit: str) -> None:
    """The wheel of winml-cli has 24 cases of Relu at opset 6, and those of doubles were not compiled."""
    (found,) = verdicts(f"({dtype}[3] x) => ({dtype}[3] y) {{ y = Relu(x) }}", "tensorrt")
    assert (found.support, found.evidence, found.unit) == (support, Evidence.TABLE, unit)
    assert re.fullmatch(
        r"compiled in \d+ of \d+ cases like it, measured with ONNX Runtime's provider for TensorRT for RTX "
        r"\(winml-cli 0\.4\.0\)",
        found.detail,
    )


def test_a_version_that_cudas_kernels_lack_falls_back() -> None:
    """ONNX Runtime 1.31 leaves EyeLike of version 22 to the CPU; its kernel is for version 9."""
    eye = "(float[3, 3] x) => (float[3, 3] y) { y = EyeLike(x) }"
    (before,), (after,) = (verdicts(eye, "cuda", opset) for opset in (18, 22))
    assert (before.support, before.evidence, before.unit) == (Support.SUPPORTED, Evidence.TABLE, "GPU")
    assert (after.support, after.evidence, after.unit) == (Support.FALLS_BACK, Evidence.TABLE, "CPU")
    assert after.detail == "version 22 of the operator is not among those that are taken (9)"


@pytest.mark.parametrize(
    ("body", "unit"),
    [
        ("(int8[3] a, int8[3] b) => (bool[3] y) { y = Greater(a, b) }", "CPU"),
        ("(int32[3] a, int32[3] b) => (bool[3] y) { y = Greater(a, b) }", "GPU"),
        ("(uint8[2, 3] a, uint8[3, 2] b) => (int32[2, 2] y) { y = MatMulInteger(a, b) }", "CPU"),
        ("(int8[2, 3] a, int8[3, 2] b) => (int32[2, 2] y) { y = MatMulInteger(a, b) }", "GPU"),
        ("(float[3, 4] x) => (int64[1, 4] y) { y = ArgMax <select_last_index = 1> (x) }", "CPU"),
        ("(float[3, 4] x) => (int64[1, 4] y) { y = ArgMax(x) }", "GPU"),
        (
            "(float[3, 1, 2] x, float[1, 15, 2] w, float[1, 15, 5] r) => (h, l) "
            "{ h, l = GRU <hidden_size = 5> (x, w, r) }",
            "CPU",
        ),
        ("(float[4] x) => (float[4] y) { y = LpNormalization(x) }", "GPU"),
        ("(float[1, 6, 4] b, float[1, 1, 6] s) => (int64[n, 3] y) { y = NonMaxSuppression(b, s) }", "GPU"),
    ],
)
def test_the_table_of_cuda_tells_what_a_session_on_a_gpu_told(body: str, unit: str) -> None:
    """Seen of the ONNX standard's tests in sessions of onnxruntime-gpu 1.31.1 on an NVIDIA H200."""
    (found,) = verdicts(body, "cuda", 18)
    assert (found.unit, found.evidence) == (unit, Evidence.TABLE)


def test_types_that_no_kernel_takes_are_named() -> None:
    (found,) = verdicts("(int8[3] a, int8[3] b) => (bool[3] y) { y = Less(a, b) }", "cuda", 18)
    assert found.detail == (
        "there is no kernel for its types (T int8; those for float16 or float32 or float64 or int32 or int64 or "
        "uint32 or uint64)"
    )
    assert found.hint == "insert a Cast before it, to a type that has a kernel"


def test_a_provider_that_does_not_start_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part of a model would wait for its driver in vain."""
    monkeypatch.setattr(check, "is_available", lambda provider: True)
    monkeypatch.setattr(by_session, "assign", lambda *_: pytest.fail("it was asked"))
    device = devices()["cuda"]
    profile = replace(device.profile, options={**device.profile.options, NOT_STARTED: "no driver"})
    text = f'<ir_version: 9, opset_import: ["" : 18]> g {PLAIN}'
    found = check.verdicts(Model(ir.from_proto(onnx.parser.parse_model(text))), profile)
    assert {verdict.evidence for verdict in found} == {Evidence.TABLE}


def test_what_was_not_measured_is_unknown() -> None:
    (found,) = verdicts("(float[3, 3] x) => (float y) { y = Det(x) }", "tensorrt")
    assert (found.support, found.detail) == (Support.UNKNOWN, "Det was not measured (winml-cli 0.4.0)")


def test_what_no_table_tells_is_unknown_for_a_reason() -> None:
    found = verdicts(PLAIN, "migraphx")
    assert {(verdict.support, verdict.evidence, verdict.unit) for verdict in found} == {
        (Support.UNKNOWN, Evidence.UNKNOWN, "")
    }
    assert all("on the machine with the hardware" in verdict.detail for verdict in found)


def test_without_the_npus_compiler_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qnn, "PACKAGE", "no_such_package")
    found = verdicts(PLAIN, "android-qnn")
    assert {verdict.evidence for verdict in found} == {Evidence.UNKNOWN}
    assert found[0].hint == "pip install 'onnxruntime-qnn>=2.7' brings it"


needs_qnn = pytest.mark.skipif(not qnn.is_installed(), reason="onnxruntime-qnn is not installed")


@needs_qnn
def test_the_npus_compiler_takes_a_convolution_in_its_own_layout() -> None:
    """ONNX Runtime gives the convolution another form for the NPU, without a name."""
    found = verdicts(CONVOLUTION, "android-qnn")
    assert [(verdict.support, verdict.evidence, verdict.unit) for verdict in found] == [
        (Support.SUPPORTED, Evidence.COMPILED, "NPU"),
        (Support.FALLS_BACK, Evidence.COMPILED, "CPU"),
    ]
    assert found[1].detail == "the NPU's compiler left it: Operators of type `Erf` are not supported by QNN EP"
    assert found[1].hint == "export Gelu with approximate='tanh'"


@needs_qnn
def test_a_shape_that_is_not_fixed_is_to_be_fixed() -> None:
    (found,) = verdicts("(float[N, 4] x) => (float[N, 4] y) { y = Relu(x) }", "android-qnn")
    assert (found.support, found.hint) == (Support.FALLS_BACK, "fix the inputs' shapes with --dim or --shape")


@needs_qnn
def test_nodes_in_a_body_stay_where_the_node_is_that_holds_it() -> None:
    found = verdicts(
        "(int64 n, bool c, float[1, 4] x) => (float[1, 4] y) { [around] y = Loop (n, c, x) <"
        "body = b (int64 i, bool before, float[1, 4] s) => (bool after, float[1, 4] t)"
        " { [on] after = Identity(before) [inside] t = Sin(s) }> }",
        "android-qnn",
    )
    assert {verdict.node: verdict.unit for verdict in found} == {"around": "CPU", "on": "CPU", "inside": "CPU"}
    by_node = {verdict.node: verdict for verdict in found}
    assert by_node["inside"].detail == "the body of Loop stays on the CPU"
    assert by_node["around"].detail.endswith("Operators of type `Loop` are not supported by QNN EP")
    assert by_node["around"].hint == "export it unrolled"


def test_a_provider_that_can_be_had_here_is_asked_before_its_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wheel has Azure's provider, which takes no standard operator."""
    file = tmp_path / "cloud.json"
    file.write_text(
        json.dumps(
            {
                "profile": {"name": "cloud", "description": "a cloud"},
                "provider": "AzureExecutionProvider",
                "unit": "cloud",
                "fallback": "CPU",
                "source": "a page",
                "version": "1",
                "date": "2026-01-02",
                "operators": {"Exp": {}, "Relu": {}},
            }
        ),
        encoding="utf-8",
    )
    device = read_device(file)
    monkeypatch.setattr(check, "devices", lambda: {"cloud": device})
    text = f'<ir_version: 9, opset_import: ["" : 18]> g {PLAIN}'
    found = check.verdicts(Model(ir.from_proto(onnx.parser.parse_model(text))), device.profile)
    assert {(verdict.support, verdict.evidence, verdict.unit) for verdict in found} == {
        (Support.FALLS_BACK, Evidence.COMPILED, "CPU")
    }


@needs_qnn
def test_a_compiler_that_fails_leaves_all_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """ONNX Runtime goes on without the compiler, and puts every node on the CPU."""
    device = replace(check.devices()["android-qnn"], simulator={"backend_path": "/no/such/library.so"})
    monkeypatch.setattr(check, "devices", lambda: {"android-qnn": device})
    found = verdicts(PLAIN, "android-qnn")
    assert {verdict.support for verdict in found} == {Support.UNKNOWN}
    assert "/no/such/library.so: cannot open shared object file" in found[0].detail


def test_nothing_is_known_of_nodes_for_which_a_compiler_gives_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler is then not asked about parts of the model, each of which may take as long."""
    asked = []

    def silent(model: Model, *_: object) -> Assignment:
        asked.append(model)
        raise SilentCompilerError("gave no sign of progress for 600 s")

    monkeypatch.setattr(by_session, "assign", silent)
    text = f'<ir_version: 9, opset_import: ["" : 18]> g {PLAIN}'
    model = Model(ir.from_proto(onnx.parser.parse_model(text)))
    found = by_session.session_verdicts(model, verdicts(PLAIN), devices()["android-qnn"], {})
    assert len(asked) == 1
    assert [(verdict.support, verdict.detail) for verdict in found] == [
        (Support.UNKNOWN, "the compiler gave no sign of progress for 600 s")
    ] * 2


def test_a_locale_that_this_system_lacks_is_no_fault_of_the_device() -> None:
    attributes = 'case_change_action = "LOWER", locale = "xx_YY.UTF-8"'
    (found,) = verdicts(f"(string[N] x) => (string[M] y) {{ y = StringNormalizer <{attributes}> (x) }}", "web")
    assert found.support is Support.UNSUPPORTED
    assert found.detail == "it changes texts by the locale xx_YY.UTF-8, which this system does not have"
    assert found.hint == (
        "install the locale here (on Debian: `apt-get install locales` and `localedef -i xx_YY -f UTF-8 xx_YY.UTF-8`), "
        "or export the model with the locale C"
    )
    assert refusal_hint([found.hint], ()) == found.hint
