from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir
import pytest

from edgekit.model import Model
from edgekit.processes import supervision
from edgekit_onnxruntime import assignment
from edgekit_onnxruntime.assignment import (
    Assignment,
    CompilerError,
    SilentCompilerError,
    assign,
    is_available,
    with_unique_names,
)


def model(graph: str) -> Model:
    return Model(ir.from_proto(onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 18]> g {graph}')))


PLAIN = "(float[3] x) => (float[3] y) { [same] h = Exp(x) [same2] y = Relu(h) }"


def test_a_provider_that_leaves_everything_leaves_it_to_the_cpu() -> None:
    assert is_available("AzureExecutionProvider")
    found = assign(model(PLAIN), "AzureExecutionProvider", {})
    assert found == Assignment(frozenset(), frozenset({"node0", "node1"}), frozenset(), {})


def test_a_provider_that_is_not_there_fails() -> None:
    """ONNX Runtime alone would warn and take the CPU."""
    assert not is_available("TensorrtExecutionProvider")
    with pytest.raises(CompilerError, match="TensorrtExecutionProvider"):
        assign(model(PLAIN), "TensorrtExecutionProvider", {})


def test_copies_in_another_layout_are_their_originals_and_the_worse_place_counts() -> None:
    parts = [
        ("QNNExecutionProvider", [("node0_token_7", "Conv"), ("Transpose", "Transpose"), ("node2", "Relu")]),
        ("CPUExecutionProvider", [("node2/duplicated", "Relu"), ("Cast_token_3", "Cast")]),
    ]
    found = assignment._read(parts, "")
    assert found == Assignment(frozenset({"node0"}), frozenset({"node2"}), frozenset({"Cast"}), {})


def test_a_process_that_dies_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    dying = tmp_path / "python"
    dying.write_text("#!/bin/sh\necho 'out of memory' >&2\nexit 3\n")
    dying.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(dying))
    with pytest.raises(CompilerError, match="ended with code 3: out of memory"):
        assign(model(PLAIN), "AzureExecutionProvider", {})


def test_a_process_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hanging = tmp_path / "python"
    hanging.write_text("#!/bin/sh\nexec sleep 60\n")
    hanging.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(hanging))
    monkeypatch.setattr(assignment, "TIMEOUT_SECONDS", 0.2)
    with pytest.raises(CompilerError, match=r"no answer in 0\.2 s"):
        assign(model(PLAIN), "AzureExecutionProvider", {})


TALKING = """#!/bin/sh
for second in 1 2 3 4; do echo "looked at node $second" >&2; sleep 0.5; done
echo '{"parts": []}' > "$4"
"""
SILENT = "#!/bin/sh\necho 'compiles' >&2\nexec sleep 60\n"


def test_a_compiler_whose_log_goes_on_may_take_longer_than_a_silent_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    compiler = tmp_path / "python"
    monkeypatch.setattr(sys, "executable", str(compiler))
    monkeypatch.setattr(assignment, "SILENT_SECONDS", 1.5)

    compiler.write_text(TALKING)
    compiler.chmod(0o755)
    assert assign(model(PLAIN), "AzureExecutionProvider", {}).left_to_cpu == frozenset()

    compiler.write_text(SILENT)
    with pytest.raises(SilentCompilerError, match=r"^gave no sign of progress for 1\.5 s$"):
        assign(model(PLAIN), "AzureExecutionProvider", {})


def test_who_watches_the_stage_is_told_that_a_compiler_may_be_silent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told: list[dict[str, Any]] = []
    monkeypatch.setattr(supervision, "tell", lambda **what: told.append(what))
    compiler = tmp_path / "python"
    compiler.write_text(TALKING)
    compiler.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(compiler))
    assign(model(PLAIN), "AzureExecutionProvider", {})
    first, last = told[0], told[-1]
    assert first["patience"] > assignment.SILENT_SECONDS, "the compiler is ended before the stage"
    assert last == {}


def test_names_are_unique_in_bodies_too_and_the_original_keeps_its_own() -> None:
    given = model(
        "(bool c, float[3] x) => (float[3] y) { [n] y = If (c) < then_branch = t () => (float[3] a) { [n] a = Sin(x) },"
        " else_branch = e () => (float[3] b) { [n] b = Cos(x) }> }"
    )
    renamed = [node.name for node in with_unique_names(given).graph.all_nodes()]
    assert renamed == ["node0", "node1", "node2"]
    assert {node.name for node in given.graph.all_nodes()} == {"n"}
