"""A classifier's package reads a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import onnx
import pytest

from edgekit.packaging.pipeline import package
from edgekit.packaging.request import PackageRequest
from edgekit.preprocessing.image import ImagePreprocessing
from edgekit.progress import Progress

if TYPE_CHECKING:
    from .conftest import Swift

pytestmark = [pytest.mark.slow, pytest.mark.swift, pytest.mark.xdist_group("swift")]


def test_a_picture_is_classified(swift: Swift, tmp_path: Path) -> None:
    """A black picture, which the preprocessing makes -1, -2 and -3; the stub negates it; softmax by hand."""
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 17]> g (float[1, 3, 1, 1] x) => (float[1, 3] y)'
        " { n = Neg(x) y = Flatten(n) }"
    )
    onnx.save(model, tmp_path / "model.onnx")
    preprocessing = ImagePreprocessing(scale=1.0, size=(1, 1), mean=(1.0, 2.0, 3.0), resize="stretch", layout="NCHW")
    (tmp_path / "labels.txt").write_text("bird\ndog\ncat\n")
    request = PackageRequest(
        tmp_path / "model.onnx",
        "ios18",
        tmp_path / "bundle",
        precision="float32",
        labels=tmp_path / "labels.txt",
        preprocessing=preprocessing,
        target_options={"image": "no"},
    )
    swift.stubbed(package(request, Progress()).path, ["y"]).passes("ClassifierTests")
