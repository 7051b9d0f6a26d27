"""Inputs that an exporter made of constants, named as Keras 3.15 names those of a Normalization layer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgekit.stages.load import Load

MEAN, VARIANCE = "functional/normalization/Sub/y:0", "functional/normalization/Sqrt/x:0"
SIZES: Mapping[str, list[int | str]] = {"x": ["unk__1", 2], MEAN: [1, 2], VARIANCE: [1, 2]}


def warnings_of(path: Path, sizes: Mapping[str, list[int | str]] = SIZES, held: tuple[str, ...] = ()) -> str:
    x, mean, variance = sizes
    graph = helper.make_graph(
        [
            helper.make_node("Sub", [x, mean], ["centred"]),
            helper.make_node("Sqrt", [variance], ["deviation"]),
            helper.make_node("Div", ["centred", "deviation"], ["y"]),
        ],
        "graph",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in sizes.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, sizes[x])],
        [numpy_helper.from_array(np.ones((1, 2), np.float32), name) for name in held],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8), path)
    return "\n".join(Load()(path).warnings)


def test_constants_without_values_are_told(tmp_path: Path) -> None:
    assert warnings_of(tmp_path / "m.onnx") == (
        f"inputs with fixed shapes that are called as tensors inside of the graph: {MEAN}, {VARIANCE}; if they are "
        "constants whose values the exporter lost, as Keras' loses the mean and the variance of a Normalization layer, "
        "export the SavedModel with `python -m tf2onnx.convert --saved-model`, which keeps them; else every sample and "
        "the app have to feed them"
    )


@pytest.mark.parametrize(
    "sizes",
    [
        {"x": ["N", 2], "mean": [1, 2], "variance": [1, 2]},
        {"x": ["N", 2], MEAN: ["N", 2], VARIANCE: ["N", 2]},
        {"x": [1, 2], MEAN: [1, 2], VARIANCE: [1, 2]},
    ],
    ids=["plain-names", "free-sizes", "all-fixed"],
)
def test_other_inputs_are_not(tmp_path: Path, sizes: dict[str, list[int | str]]) -> None:
    assert not warnings_of(tmp_path / "m.onnx", sizes)


def test_an_input_that_has_a_value_is_not(tmp_path: Path) -> None:
    assert "the exporter lost" not in warnings_of(tmp_path / "m.onnx", held=(MEAN, VARIANCE))
