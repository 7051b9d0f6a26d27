"""onnxruntime-web's WebGPU provider in headless Chromium: that it is still wrong, and right with the other form."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from edgekit.bundle import Bundle
from edgekit.errors import RequirementError
from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.model import Model
from edgekit_onnxruntime.browser.device import VARIABLE as LIBRARY_VARIABLE
from edgekit_onnxruntime.browser.device import BrowserDevice
from edgekit_onnxruntime.browser.session import BrowserSession
from edgekit_onnxruntime.webgpu import computed_right
from tests.targets.edgekit_onnxruntime.webgpu_cases import RIGHT, STOPPING, WRONG

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser-device")]

Run = Callable[[onnx.ModelProto, np.ndarray], np.ndarray]


@pytest.fixture(scope="module")
def in_browser(web_library_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Gives what the provider computes for an input ``x``; all models run in one page, whose start takes seconds."""
    folder = tmp_path_factory.mktemp("models")
    bundle = Bundle(folder, {"model": {"main": "model.onnx", "kind": "float32"}, "target": {"profile": "web"}})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(LIBRARY_VARIABLE, str(web_library_folder))
        with BrowserDevice.from_url("browser:webgpu").page(folder, folder) as (tab, server, executed_by):

            def run(proto: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
                onnx.save(proto, bundle.main)
                return BrowserSession(tab, server, bundle, executed_by).run({"x": x})["y"]

            yield run


def error(in_browser: Run, proto: onnx.ModelProto, shape: tuple[int, ...]) -> float:
    """The largest difference between the browser and the CPU provider, as a share of the largest number."""
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = np.asarray(session.run(["y"], {"x": x})[0])
    return float(np.abs(in_browser(proto, x) - expected).max() / np.abs(expected).max())


@pytest.mark.parametrize("name", WRONG)
def test_it_computes_wrong_and_right_in_the_other_form(name: str, in_browser: Run) -> None:
    proto, shape = WRONG[name]
    assert error(in_browser, proto, shape) > 0.1
    written = ir.to_proto(computed_right(infer_shapes(Model(ir.from_proto(proto)))).graph_model)
    assert error(in_browser, written, shape) < 1e-5


@pytest.mark.parametrize("name", RIGHT)
def test_it_computes_the_rest_right(name: str, in_browser: Run) -> None:
    proto = RIGHT[name]
    sizes = [size.dim_value or 7 for size in proto.graph.input[0].type.tensor_type.shape.dim]
    assert error(in_browser, proto, tuple(sizes)) < 1e-5


@pytest.mark.parametrize("name", STOPPING)
def test_it_stops(name: str, in_browser: Run) -> None:
    proto, _ = STOPPING[name]
    sizes = [size.dim_value for size in proto.graph.input[0].type.tensor_type.shape.dim]
    with pytest.raises(RequirementError, match="onnxruntime-web in the browser failed"):
        in_browser(proto, np.ones(sizes, np.float32))
