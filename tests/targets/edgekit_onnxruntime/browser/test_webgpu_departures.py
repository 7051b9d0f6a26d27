"""onnxruntime-web's WebGPU provider in headless Chromium: that it is still wrong, and right with the other form."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from edgekit.bundle import Bundle
from edgekit.errors import RequirementError
from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.model import Model
from edgekit_onnxruntime.browser.device import BrowserDevice
from edgekit_onnxruntime.webgpu import computed_right
from tests.targets.edgekit_onnxruntime.webgpu_cases import RIGHT, STOPPING, WRONG

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser-device")]

BareBundle = Callable[[onnx.ModelProto], Bundle]


@pytest.fixture(autouse=True)
def _with_library(web_library: None) -> None:
    """Every test here runs a browser."""


def in_browser(bundle: Bundle, x: np.ndarray) -> np.ndarray:
    with BrowserDevice.from_url("browser:webgpu").open(bundle) as session:
        return session.run({"x": x})["y"]


def error(proto: onnx.ModelProto, bundle: Bundle, shape: tuple[int, ...]) -> float:
    """The largest difference between the browser and the CPU provider, as a share of the largest number."""
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = np.asarray(session.run(["y"], {"x": x})[0])
    return float(np.abs(in_browser(bundle, x) - expected).max() / np.abs(expected).max())


@pytest.mark.parametrize("name", WRONG)
def test_it_computes_wrong_and_right_in_the_other_form(name: str, bare_bundle: BareBundle) -> None:
    proto, shape = WRONG[name]
    assert error(proto, bare_bundle(proto), shape) > 0.1
    written = ir.to_proto(computed_right(infer_shapes(Model(ir.from_proto(proto)))).graph_model)
    assert error(proto, bare_bundle(written), shape) < 1e-5


@pytest.mark.parametrize("name", RIGHT)
def test_it_computes_the_rest_right(name: str, bare_bundle: BareBundle) -> None:
    proto = RIGHT[name]
    sizes = [size.dim_value or 7 for size in proto.graph.input[0].type.tensor_type.shape.dim]
    assert error(proto, bare_bundle(proto), tuple(sizes)) < 1e-5


@pytest.mark.parametrize("name", STOPPING)
def test_it_stops(name: str, bare_bundle: BareBundle) -> None:
    proto, _ = STOPPING[name]
    sizes = [size.dim_value for size in proto.graph.input[0].type.tensor_type.shape.dim]
    with pytest.raises(RequirementError, match="onnxruntime-web in the browser failed"):
        in_browser(bare_bundle(proto), np.ones(sizes, np.float32))
