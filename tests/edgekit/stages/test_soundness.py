from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

from edgekit.execution.soundness import find_unsoundness
from edgekit.stages.load import Load
from edgekit.stages.soundness import fault_of_model

DECODER = """g (float[1, S, 2] x, float[1, P, 2] past, float[1, T] mask) => (float[1, T, 2] y) {
    all = Concat <axis = 1> (past, x)  last = Constant <value = int64[1] {2}> ()
    column = Unsqueeze (mask, last)  y = Mul (all, column) }"""


def test_a_mask_as_long_as_the_past_and_what_is_new_is_sound(onnx_file: Callable[..., Path]) -> None:
    """It does not run where all three have the same size."""
    path = onnx_file(DECODER)
    proto = onnx.load(path)
    proto.graph.input[2].type.tensor_type.shape.dim[1].dim_param = "P + S"
    onnx.save(proto, path)
    assert find_unsoundness(Load()(path).model) is None
    assert fault_of_model(path, ValueError("what EdgeKit got wrong")) is None


def test_a_full_disk_says_nothing_of_a_model(onnx_file: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("edgekit.execution.soundness.Reference", full)
    with pytest.raises(OSError, match="No space left on device"):
        find_unsoundness(Load()(onnx_file("g (float[2] x) => (float[2] y) { y = Relu (x) }")).model)


def test_what_runs_at_no_size_is_not_sound(onnx_file: Callable[..., Path]) -> None:
    path = onnx_file(
        """g (float[1, N] x) => (float[A, B] y) { size = Constant <value = int64[2] {7, 1021}> ()
            apart = Reshape (x, size)  y = Relu (apart) }"""
    )
    assert "ONNX Runtime cannot execute it" in (find_unsoundness(Load()(path).model) or "")
    fault = fault_of_model(path, ValueError("some library's"))
    assert fault is not None
    assert str(fault).startswith(f"{path}: the model is not sound: ONNX Runtime cannot execute it: ")
    assert "found: ValueError: some library's\nhint: export the model again" in str(fault)
