from collections.abc import Callable
from pathlib import Path

import onnx_ir as ir
import pytest

from edgekit.errors import UnsupportedOpsError
from edgekit.graph.sizes.shape_request import ShapeRequest
from edgekit.model import Model
from edgekit.registry import find_profile, installed_rewrites
from edgekit.rewrites.adaptation import Adapter
from edgekit.stages.check import CheckOperators, group_verdicts
from edgekit.stages.fix_shapes import FixShapes
from edgekit.stages.load import Load
from edgekit.stages.precheck import PreCheck
from edgekit.target import Evidence, NodeVerdict, Support


def test_nodes_that_fare_alike_stand_together() -> None:
    verdicts = [
        NodeVerdict(node="a", op_type="Conv", support=Support.SUPPORTED, evidence=Evidence.COMPILED, unit="CPU"),
        NodeVerdict(
            node="b",
            op_type="Relu",
            support=Support.DECOMPOSED,
            evidence=Evidence.COMPILED,
            unit="",
            detail="Max",
            hint="Min",
            unit_evidence=Evidence.HEURISTIC,
        ),
        NodeVerdict(node="c", op_type="Conv", support=Support.SUPPORTED, evidence=Evidence.COMPILED, unit="CPU"),
        NodeVerdict(node="d", op_type="Conv", support=Support.FALLS_BACK, evidence=Evidence.COMPILED, unit="CPU"),
    ]
    assert group_verdicts(verdicts) == [
        {
            "op_type": "Conv",
            "support": "supported",
            "evidence": "compiled",
            "unit": "CPU",
            "detail": "",
            "hint": "",
            "unit_evidence": "compiled",
            "nodes": ["a", "c"],
        },
        {
            "op_type": "Relu",
            "support": "decomposed",
            "evidence": "compiled",
            "unit": "",
            "detail": "Max",
            "hint": "Min",
            "unit_evidence": "heuristic",
            "nodes": ["b"],
        },
        {
            "op_type": "Conv",
            "support": "falls back",
            "evidence": "compiled",
            "unit": "CPU",
            "detail": "",
            "hint": "",
            "unit_evidence": "compiled",
            "nodes": ["d"],
        },
    ]


@pytest.mark.parametrize("name", ["pre-check", "check operators"])
def test_all_gaps_show_at_once(onnx_file: Callable[..., Path], name: str) -> None:
    path = onnx_file(
        "f (float[1, 7, 7] x) => (float[1] y, float[1] z) { y = Det(x) e = Exp(x) z = Det(e) }",
    )
    device = find_profile("intel-cpu")
    checks = (PreCheck(*device, Adapter(installed_rewrites())), CheckOperators(*device))
    (check,) = (check for check in checks if check.name == name)
    with pytest.raises(UnsupportedOpsError) as failure:
        check(Model(ir.load(path), path))
    assert [gap.node for gap in failure.value.gaps] == ["y", "z"]
    assert failure.value.ops == ["Det"]
    assert str(failure.value).startswith("model on intel-cpu: 2 unsupported nodes\n  Det (node 'y'): ")


def test_the_model_passes_through(onnx_file: Callable[..., Path]) -> None:
    path = onnx_file("f (float[1, 3] x) => (float[1, 3] y) { y = Exp(x) }")
    model = Model(ir.load(path), path)
    result = CheckOperators(*find_profile("onnxruntime"))(model)
    assert result.model is model
    assert [group["op_type"] for group in result.record["verdicts"]] == ["Exp"]


def test_the_record_tells_the_share_and_the_partitions(onnx_file: Callable[..., Path]) -> None:
    """The device's table has Exp, and no Erf."""
    path = onnx_file("f (float[1, 3] x) => (float[1, 3] y) { a = Exp(x) b = Erf(a) c = Exp(b) y = Exp(c) }")
    record = CheckOperators(*find_profile("android-nnapi"))(Model(ir.load(path), path)).record
    told = {key: record[key] for key in ("accelerator", "accelerator_share", "partitions", "fit")}
    assert told == {"accelerator": "NNAPI", "accelerator_share": 0.75, "partitions": 2, "fit": "poor"}


def test_a_refusal_without_a_reason_names_the_device(
    onnx_file: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = onnx_file("f (float[1, 3] x) => (float[1, 3] y) { y = Exp(x) }")
    target, profile = find_profile("onnxruntime")
    refused = NodeVerdict(node="y", op_type="Exp", support=Support.UNSUPPORTED, evidence=Evidence.COMPILED, unit="CPU")
    monkeypatch.setattr(type(target), "check", lambda *_: [refused])
    with pytest.raises(UnsupportedOpsError, match=r"Exp \(node 'y'\): onnxruntime does not take it"):
        CheckOperators(target, profile)(Model(ir.load(path), path))


EXTRACT = "cut the model before them with `edgekit extract`, or export it with other operators"


@pytest.mark.parametrize(
    ("rest", "sizes", "hint"),
    [
        ("", {"height": 8, "width": range(8, 17)}, "fix the dimension with --dim width=SIZE"),
        (
            "",
            {"height": range(8, 17), "width": range(8, 17)},
            "fix the dimension with --dim height=SIZE or --dim width=SIZE",
        ),
        (
            "d = Det (m)",
            {"height": 8, "width": range(8, 17)},
            f"fix the dimension with --dim width=SIZE; for the other nodes, {EXTRACT}",
        ),
    ],
)
def test_a_dimension_to_be_fixed_is_what_the_hint_names_where_nothing_else_is_at_fault(
    onnx_file: Callable[..., Path], rest: str, sizes: dict[str, int | range], hint: str
) -> None:
    outputs = "float[1, 2, h, w] y, float[1] d" if rest else "float[1, 2, h, w] y"
    path = onnx_file(
        f"""f (float[1, 2, height, width] x, float[1, 7, 7] m) => ({outputs}) {{
            s = Constant <value_floats = [1.0, 1.0, 1.5, 1.5]> () y = Resize <mode = "cubic"> (x, , s) {rest} }}"""
    )
    model = FixShapes(ShapeRequest(sizes))(Load()(path).model).model
    with pytest.raises(UnsupportedOpsError) as failure:
        CheckOperators(*find_profile("ios18")).run(model)
    assert failure.value.hint == hint
    assert str(failure.value).endswith(f"\nhint: {hint}")
    resize = next(gap for gap in failure.value.gaps if gap.op_type == "Resize")
    assert resize.hint == hint.partition(";")[0]
