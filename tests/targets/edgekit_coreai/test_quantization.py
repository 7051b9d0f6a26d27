"""What is quantized for Core AI, and how small it is stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgekit import api
from edgekit.bundle import Bundle

WIDTH = 256


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A product, whose weights 8 bits hold to 0.01 %."""
    weight = np.random.default_rng(3).standard_normal((WIDTH, WIDTH)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, WIDTH])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, WIDTH])],
        [numpy_helper.from_array(weight, "w")],
    )
    path = tmp_path / "product.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    """In each sample another number is 300 times as large as the others: with 8 bits the others are lost."""
    folder = tmp_path / "samples"
    folder.mkdir()
    rng = np.random.default_rng(4)
    for number in range(32):
        x = rng.standard_normal((1, WIDTH)).astype(np.float32)
        x[0, 8 * number] = 300
        np.savez(folder / f"{number:02}.npz", x=x)
    return folder


def quantized(bundle: Bundle) -> dict[str, Any]:
    return next(stage["record"] for stage in bundle.manifest["stages"] if stage["name"] == "quantize")


def test_weights_alone_are_stored_in_integers_where_activations_in_8_bits_lose_too_much(
    model: Path, samples: Path, tmp_path: Path
) -> None:
    bundle = api.package(model, "ios27", tmp_path / "bundle", data=samples, max_drop="0.1%")
    record = quantized(bundle)
    assert record["scheme"] == "int8-weights"
    assert [point["integer_layers"] for point in record["curve"][:2]] == [1, 0]
    assert bundle.manifest["size"]["ratio"] < 0.3


def test_the_smallest_is_stored_in_palettes(model: Path, samples: Path, tmp_path: Path) -> None:
    """4 bits for a normal variable lose 1 % of it at least (Max, Quantizing for minimum distortion, 1960, table I)."""
    bundle = api.package(model, "ios27", tmp_path / "bundle", data=samples, smallest=True, max_drop="0.5%")
    assert quantized(bundle)["forms"] == {"palettes of 64": 1}
    assert bundle.main.is_dir()
