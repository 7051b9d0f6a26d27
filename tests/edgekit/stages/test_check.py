from collections.abc import Callable
from pathlib import Path

import onnx_ir as ir
import pytest

from edgekit.errors import UnsupportedOpsError
from edgekit.model import Model
from edgekit.registry import find_profile
from edgekit.stages.check import CheckOperators, group_verdicts
from edgekit.stages.precheck import PreCheck
from edgekit.target import Evidence, NodeVerdict, Support


def test_nodes_that_fare_alike_stand_together() -> None:
    verdicts = [
        NodeVerdict("a", "Conv", Support.SUPPORTED, Evidence.COMPILED, "CPU"),
        NodeVerdict("b", "Relu", Support.DECOMPOSED, Evidence.COMPILED, "", "Max", "Min", Evidence.HEURISTIC),
        NodeVerdict("c", "Conv", Support.SUPPORTED, Evidence.COMPILED, "CPU"),
        NodeVerdict("d", "Conv", Support.FALLS_BACK, Evidence.COMPILED, "CPU"),
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


@pytest.mark.parametrize(("stage", "name"), [(PreCheck, "pre-check"), (CheckOperators, "check operators")])
def test_all_gaps_show_at_once(onnx_file: Callable[..., Path], stage: type[CheckOperators], name: str) -> None:
    path = onnx_file(
        "f (float[1, 7, 7] x) => (float[1] y, float[1] z) { y = Det(x) e = Exp(x) z = Det(e) }",
    )
    check = stage(*find_profile("intel-cpu"))
    assert check.name == name
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
    refused = NodeVerdict("y", "Exp", Support.UNSUPPORTED, Evidence.COMPILED, "CPU")
    monkeypatch.setattr(type(target), "check", lambda *_: [refused])
    with pytest.raises(UnsupportedOpsError, match=r"Exp \(node 'y'\): onnxruntime does not take it"):
        CheckOperators(target, profile)(Model(ir.load(path), path))
