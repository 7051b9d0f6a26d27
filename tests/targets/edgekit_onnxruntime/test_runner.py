from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from edgekit_onnxruntime.build import write_ort_format
from edgekit_onnxruntime.runner import SessionRunner


@pytest.fixture
def file(tmp_path: Path) -> Path:
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 18]> g (float[2] x, float[2] z) => (float[2] y)'
        " { a = Neg(x) b = Exp(a) y = Add(b, z) }"
    )
    onnx.save(model, tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def test_it_shows_values_inside_the_model_and_outputs(file: Path) -> None:
    feeds = {"x": np.array([0.5, -1], np.float32), "z": np.ones(2, np.float32)}
    runner = SessionRunner(file)
    shown = runner.intermediates(feeds, ["b", "nobody"])
    assert set(shown) == {"b"}
    np.testing.assert_allclose(shown["b"], np.exp(-feeds["x"]), rtol=1e-6)
    assert set(runner.run(feeds)) == {"y"}


def test_a_file_in_ort_format_shows_nothing(file: Path) -> None:
    write_ort_format(file, file.with_suffix(".ort"))
    feeds = {"x": np.zeros(2, np.float32), "z": np.ones(2, np.float32)}
    assert SessionRunner(file.with_suffix(".ort")).intermediates(feeds, ["b"]) == {}
