from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import edgekit_openvino

REGIONS = np.float32([[1, 1, 5, 5], [0, 0, 0, 0], [3, 2, 3, 6], [2, 3, 5, 3], [0.5, 2, 6.5, 4]])


@pytest.mark.parametrize("moved", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize("samples", [0, 2])
def test_regions_without_an_area(moved: str, samples: int, tmp_path: Path) -> None:
    text = f"""<ir_version: 10, opset_import: ["" : 16]> g (float[1, 2, 8, 8] x, float[n, 4] r) => (float[n, 2, 2, 2] y)
        <int64[5] b = {{0, 0, 0, 0, 0}}> {{ y = RoiAlign <output_height = 2, output_width = 2,
        sampling_ratio = {samples}, coordinate_transformation_mode = "{moved}"> (x, r, b) }}"""
    model = onnx.parser.parse_model(text)
    feeds = {"x": np.random.default_rng(0).normal(size=(1, 2, 8, 8)).astype(np.float32), "r": REGIONS}
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)
    found = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model")).run(feeds)["y"]
    np.testing.assert_allclose(found, expected, atol=1e-6)
