from __future__ import annotations

import platform
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

from edgekit.bundle import Bundle, read_bundle
from edgekit.devices.opening import open_device
from edgekit.errors import InputError, RequirementError
from edgekit.packaging.pipeline import package
from edgekit.packaging.request import PackageRequest
from edgekit.progress import Progress

ON_A_MAC = platform.system() == "Darwin"


GRAPH = '<ir_version: 8, opset_import: ["": 17]> g (float[1, 4] x) => (float[1, 4] y) { y = Exp(x) }'


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    onnx.save(onnx.parser.parse_model(GRAPH), tmp_path / "model.onnx")
    return read_bundle(package(PackageRequest(tmp_path / "model.onnx", "ios18", tmp_path / "bundle"), Progress()).path)


@pytest.mark.skipif(ON_A_MAC, reason="there is Core ML here")
def test_elsewhere_there_is_no_core_ml(bundle: Bundle) -> None:
    with pytest.raises(InputError, match="macOS only"), open_device("macos").open(bundle):
        pass


@pytest.mark.skipif(not ON_A_MAC, reason="needs Core ML, which is on macOS only")
def test_core_ml_computes_the_golden_outputs(bundle: Bundle) -> None:
    with open_device("macos:CPU_ONLY").open(bundle) as session:
        for feeds, outputs in bundle.golden():
            np.testing.assert_allclose(session.run(feeds)["y"], outputs["y"], rtol=1e-2)


@pytest.mark.skipif(ON_A_MAC, reason="there is Core ML here")
def test_a_check_that_finds_no_core_ml_ends_with_what_it_said(bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    with pytest.raises(RequirementError, match="Core ML is on macOS only"), open_device("macos").open(bundle):
        pass


def test_units_that_there_are_not_are_refused() -> None:
    with pytest.raises(InputError, match="macos:CPU_AND_NE"):
        open_device("macos:NPU")
