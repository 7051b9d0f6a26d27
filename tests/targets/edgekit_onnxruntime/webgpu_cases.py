"""Models that onnxruntime-web's WebGPU provider computes wrong or stops at."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser

RNG = np.random.default_rng(5)


def parsed(body: str, opset: int = 18, **weights: np.ndarray) -> onnx.ModelProto:
    proto = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : {opset}]>\ng {body}')
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in weights.items())
    return proto


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def convolution(written: int, read: int, kernel: int = 3, attributes: str = "pads = [1, 1, 1, 1]") -> onnx.ModelProto:
    return parsed(
        f"(float[1,{read},h,w] x) => (float[1,{written},oh,ow] y) {{ y = Conv<{attributes}>(x, k) }}",
        k=floats(written, read, kernel, kernel),
    )


WRONG = {
    "6 channels": (convolution(4, 6), (1, 6, 7, 9)),
    "27 channels": (convolution(8, 27), (1, 27, 8, 8)),
    "strides": (convolution(4, 6, 1, "strides = [2, 2]"), (1, 6, 8, 8)),
    "one dimension": (
        parsed("(float[1,9,t] x) => (float[1,4,u] y) { y = Conv(x, k, b) }", k=floats(4, 9, 5), b=floats(4)),
        (1, 9, 20),
    ),
    "computed weights": (
        parsed(
            "(float[1,6,h,w] x) => (float[1,4,oh,ow] y) <float s = {0.02}>"
            " { k = DequantizeLinear(q, s) y = Conv(x, k) }",
            q=RNG.integers(-100, 100, (4, 6, 3, 3)).astype(np.int8),
        ),
        (1, 6, 7, 9),
    ),
    "channels last": (
        parsed(
            "(float[1,h,w,3] x) => (float[1,oh,ow,3] y) <float[4] s = {1, 2, 1.5, 1}>"
            ' { r = Resize<mode = "linear">(x, "", s) y = Neg(r) }'
        ),
        (1, 6, 8, 3),
    ),
    "channels last at the end": (
        parsed(
            "(float[1,h,w,1] x) => (float[1,oh,ow,1] y) <float[4] s = {1, 2, 2, 1}>"
            ' { y = Resize<mode = "linear", coordinate_transformation_mode = "asymmetric">(x, "", s) }'
        ),
        (1, 6, 8, 1),
    ),
}
"""Models that are computed wrong, each with a shape of its input."""

RIGHT = {
    "3 channels": convolution(4, 3),
    "12 channels": convolution(4, 12),
    "6 channels to 6": convolution(6, 6),
    "a product": convolution(4, 6, 1, "strides = [1, 1]"),
    "groups": parsed("(float[1,12,h,w] x) => (float[1,8,oh,ow] y) { y = Conv<group = 2>(x, k) }", k=floats(8, 6, 3, 3)),
    "nearest": parsed(
        '(float[1,h,w,3] x) => (float[1,oh,ow,3] y) <float[4] s = {1, 2, 2, 1}> { y = Resize(x, "", s) }'
    ),
    "channels first": parsed(
        "(float[1,3,h,w] x) => (float[1,3,oh,ow] y) <float[4] s = {1, 1, 2, 2}>"
        ' { y = Resize<mode = "linear">(x, "", s) }'
    ),
}
"""Models similar to those in :data:`WRONG` that are computed right."""

STOPPING = {
    "Indices": (
        parsed(
            "(float[1,3,8,8] x) => (int64[1,3,4,4] y) { v, y = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(x) }"
        ),
        "gives no Indices",
    ),
    "antialias": (
        parsed(
            "(float[1,3,8,8] x) => (float[1,3,4,4] y) <float[4] s = {1, 1, 0.5, 0.5}>"
            ' { y = Resize<mode = "linear", antialias = 1>(x, "", s) }'
        ),
        "has no antialias",
    ),
    "float64": (
        parsed("(float[2] x) => (float[2] y) { d = Cast<to = 11>(x) y = Cast<to = 1>(d) }"),
        "has no kernel for float64, int16 and uint16",
    ),
}
"""Models at which the provider stops, each with the reason that is given for the node."""
