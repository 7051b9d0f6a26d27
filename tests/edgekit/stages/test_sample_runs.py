"""A model that does not run on its own samples is told of by the sample, in one way in all commands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import edgekit as api
from edgekit.errors import RequirementError

BAKED = """
g (float[1, seq, 4] x) => (float[1, 64] y)
<int64[2] shape = {1, 64}> { y = Reshape(x, shape) }
"""
"""An exporter saw 16 steps, and wrote 16·4 into a constant."""

STEPS = """
g (float[1, seq, 4] x) => (float[4, 16] y)
<int64[3] shape = {16, 4, 1}, int64[2] flat = {4, 16}, int64[1] last = {2}> {
    t = Reshape(x, shape)
    s = Squeeze(t, last)
    y = Reshape(s, flat)
}
"""


def samples(folder: Path, *steps: int, width: int = 4) -> Path:
    folder.mkdir()
    for number, size in enumerate(steps):
        x = np.random.default_rng(number).normal(size=(1, size, width)).astype(np.float32)
        np.savez(folder / f"{number}.npz", x=x)
    return folder


@pytest.mark.parametrize("graph", [BAKED, STEPS])
def test_every_command_names_the_sample(onnx_file: Callable[..., Path], tmp_path: Path, graph: str) -> None:
    model, data = onnx_file(graph), samples(tmp_path / "data", *[40] * 8)
    commands = [
        lambda: api.package(model, "ort", tmp_path / "out", data=data),
        lambda: api.package(model, "ort", tmp_path / "out", verify_data=data),
        lambda: api.quantize(model, tmp_path / "q.onnx", data=data),
        lambda: api.quantize(model, tmp_path / "q.onnx", data=data, target="ort"),
        lambda: api.quantize(model, tmp_path / "q.onnx", data=data, scheme="int8"),
    ]
    told = set()
    for command in commands:
        with pytest.raises(RequirementError, match="the model as it was exported does not run on the sample") as error:
            command()
        assert error.value.exit_code == 1
        told.add((error.value.subject, error.value.found, error.value.expected, error.value.hint))
    assert len(told) == 1
    ((subject, found, expected, hint),) = told
    assert subject == str(data / "0.npz")
    assert found.startswith("x 1×40×4; ")
    if graph is STEPS:
        assert expected == "seq = 16, which the model does run with"
        assert hint is not None
        assert "export it again so that the size stays free" in hint
    assert not (tmp_path / "q.onnx").exists()


def test_a_later_sample_fails_where_all_sizes_count_and_is_left_out_elsewhere(
    onnx_file: Callable[..., Path], tmp_path: Path
) -> None:
    weights = ", ".join(str(each) for each in np.random.default_rng(0).normal(size=64 * 64).round(3))
    graph = f"""
    g (float[1, seq, 64] x) => (float[16, 64] y)
    <float[64, 64] w = {{{weights}}}, int64[2] shape = {{16, 64}}> {{
        m = MatMul(x, w)
        y = Reshape(m, shape)
    }}
    """
    model, data = onnx_file(graph), samples(tmp_path / "data", 16, 40, *[16] * 6, width=64)
    with pytest.raises(RequirementError) as error:
        api.quantize(model, tmp_path / "q.onnx", data=data)
    assert error.value.subject == str(data / "1.npz")
    assert not (tmp_path / "q.onnx").exists()
    left = api.quantize(model, tmp_path / "q.onnx", data=data, target="android-xnnpack")
    assert any("1 of 8 samples are left out" in warning for warning in left.warnings)
    asked = api.quantize(model, tmp_path / "q.onnx", data=data, dims={"seq": 16})
    assert asked.scheme == "int8"
