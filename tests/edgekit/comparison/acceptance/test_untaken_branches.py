from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import edgekit as api

BRANCHES = """y = If (asked) <
    then_branch = t () => (float[1, 4] a) { a = MatMul (x, w) },
    else_branch = e () => (float[1, 4] b) { b = Identity (x) }>"""
BY_VALUE = "s = ReduceMax <keepdims = 0> (x) asked = Greater (s, one) " + BRANCHES
BY_SIZE = "z = Shape (x) f = Cast <to = 1> (z) s = ReduceMax <keepdims = 0> (f) asked = Greater (s, five) " + BRANCHES
BY_INPUT = f"g (float[1, 4] x, bool asked) => (float[1, 4] y) {{ {BRANCHES} }}"
BY_RATE = f"g (float[1, 4] x, int64 rate) => (float[1, 4] y) {{ asked = Equal (rate, k8) {BRANCHES} }}"
QUIET, LOUD = np.full((1, 4), 0.5, np.float32), np.full((1, 4), 2, np.float32)
NONE = (
    "no sample takes the then_branch of If 'choice' ('asked' is false in all of them): its conversion was not "
    "tested; give samples that take it"
)
OF_RATE = NONE.replace("('asked' is", "('asked', which follows the input 'rate', is")


@pytest.mark.parametrize(
    ("graph", "samples", "expected"),
    [
        pytest.param(BY_VALUE, [{"x": QUIET}] * 2, [NONE], id="a second stage that no sample reaches"),
        pytest.param(BY_VALUE, [{"x": QUIET}, {"x": LOUD}], [], id="both"),
        pytest.param(BY_VALUE, [{"x": LOUD}] * 2, [], id="the other one holds no layers"),
        pytest.param(BY_SIZE, [{"x": QUIET}] * 2, [], id="sizes choose"),
        pytest.param(BY_INPUT, [{"x": QUIET, "asked": np.array(False)}] * 2, [NONE], id="an input chooses"),
        pytest.param(BY_RATE, [{"x": QUIET, "rate": np.array(16000)}] * 2, [OF_RATE], id="an input is compared"),
        pytest.param(BY_INPUT, [{"x": QUIET, "asked": np.array(each)} for each in (False, True)], [], id="both by it"),
    ],
)
def test_a_branch_that_no_sample_takes_is_told(
    tmp_path: Path,
    onnx_file: Callable[..., Path],
    graph: str,
    samples: list[dict[str, np.ndarray]],
    expected: list[str],
) -> None:
    whole = graph if graph.startswith("g ") else f"g (float[1, 4] x) => (float[1, 4] y) {{ {graph} }}"
    whole = whole.replace("y = If", "[choice] y = If")
    weights = {
        "w": np.eye(4, dtype=np.float32)[::-1],
        "one": np.float32(1),
        "five": np.float32(5),
        "k8": np.int64(8000),
    }
    model = onnx_file(whole, **{name: np.array(value) for name, value in weights.items() if name in whole})
    data = tmp_path / "samples"
    data.mkdir()
    for number, arrays in enumerate(samples):
        np.savez(data / f"{number}.npz", **arrays)
    bundle = api.package(model, "onnxruntime", data=data, quantize="none", output=tmp_path / "bundle")
    warnings = [text for stage in bundle.manifest["stages"] for text in stage["record"].get("warnings", ())]
    assert [text for text in warnings if "no sample takes" in text] == expected
