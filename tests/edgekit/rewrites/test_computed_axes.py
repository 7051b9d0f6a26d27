"""Slices along axes that the model computes: on OpenVINO they end the process, Core ML has none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import edgekit_coreml
import edgekit_openvino

X = np.arange(60, dtype=np.float32).reshape(5, 4, 3)
RUN = (
    "import sys, numpy, openvino; openvino.compile_model(sys.argv[1], 'CPU')"
    "({'x': numpy.zeros((5, 4, 3), 'f4'), 'a': numpy.array([1])})"
)


def model(kind: str = "int64", begin: int = 1, end: int = 3, step: int = 1) -> onnx.ModelProto:
    return onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 13]> g (float[5, 4, 3] x, {kind}[1] a) => (float[p, q, r] y)'
        f" <{kind}[1] s = {{{begin}}}, {kind}[1] e = {{{end}}}, {kind}[1] by = {{{step}}}>"
        f" {{ y = Slice (x, s, e, a{', by' if step != 1 else ''}) }}"
    )


def test_openvino_still_ends_the_process(tmp_path: Path) -> None:
    onnx.save(model(), tmp_path / "m.onnx")
    ended = subprocess.run([sys.executable, "-c", RUN, tmp_path / "m.onnx"], capture_output=True, check=False)
    assert ended.returncode < 0


@pytest.mark.parametrize(
    ("target", "given"),
    [
        ("openvino", {}),
        ("openvino", {"kind": "int32", "end": -1}),
        ("openvino", {"begin": -1, "end": -100, "step": -2}),
        ("coreml", {}),
        ("coreml", {"kind": "int32", "end": -1}),
        ("coreml", {"end": 100}),
    ],
)
def test_any_axis(target: str, given: dict, tmp_path: Path) -> None:
    proto = model(**given)
    if target == "coreml":
        runner = edgekit_coreml.load(edgekit_coreml.convert(proto, tmp_path / "m", precision="float32"))
    else:
        runner = edgekit_openvino.load(edgekit_openvino.convert(proto, tmp_path / "m"))
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    for axis in (0, 1, -1):
        feeds = {"x": X, "a": np.array([axis], given.get("kind", "int64"))}
        np.testing.assert_array_equal(runner.run(feeds)["y"], session.run(None, feeds)[0])
