from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgekit.execution.reference import Reference
from edgekit.execution.transforms import with_exact_transforms
from edgekit.model import Model

OnnxModel = Callable[..., onnx.ModelProto]

LENGTH = 400
"""What Whisper takes: no power of two."""


@pytest.mark.parametrize("dtype", ["float", "double"])
@pytest.mark.parametrize("inside", [False, True])
def test_the_reference_transforms_exactly(onnx_model: OnnxModel, dtype: str, inside: bool) -> None:
    body = "s = STFT (x, step, window) y = Identity (s)"
    if inside:
        body = f"""y = If (yes) <
            then_branch = t () => ({dtype}[1, F, B, 2] a) {{ a = STFT (x, step, window) }},
            else_branch = e () => ({dtype}[1, F, B, 2] b) {{ b = STFT (x, step, window) }}
        >"""
    window = np.hanning(LENGTH).astype({"float": np.float32, "double": np.float64}[dtype])
    graph = f"g ({dtype}[1, 4000, 1] x) => ({dtype}[1, F, B, 2] y) {{ {body} }}"
    model = Model(ir.from_proto(onnx_model(graph, opset=17, step=np.array(160), window=window, yes=np.array(True))))
    x = np.random.default_rng(0).standard_normal((1, 4000, 1)).astype(window.dtype)
    found = Reference(model).run({"x": x})["y"]
    assert found.dtype == window.dtype
    frames = np.lib.stride_tricks.sliding_window_view(x[0, :, 0].astype(np.float64), LENGTH)[::160]
    expected = np.fft.rfft(frames * window)
    error = np.abs(found[0, ..., 0] + 1j * found[0, ..., 1] - expected).max() / np.abs(expected).max()
    assert error < 2 * np.finfo(np.float32).eps


def test_a_model_without_transforms_stays_itself(onnx_model: OnnxModel) -> None:
    model = Model(ir.from_proto(onnx_model("g (float[2] x) => (float[2] y) { y = Relu (x) }")))
    assert with_exact_transforms(model) is model
