"""Files as exporters wrote them before 2019, and files that violate the standard without harm."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from exporter_models import Maker, Shapes


def of_handmade() -> Iterator[tuple[str, Shapes, Maker]]:
    """Models of operator sets 1 to 8, and files that violate a rule without harm."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)

    def weights(**shapes: tuple[int, ...]) -> list[Any]:
        return [
            numpy_helper.from_array(rng.uniform(0.1, 1, shape).astype(np.float32), name)
            for name, shape in shapes.items()
        ]

    def saved(nodes: Sequence[Any], opset: int, x: Sequence[int], constants: Sequence[Any] = ()) -> Maker:
        def maker(path: Path) -> None:
            inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)]
            if opset < 9:
                inputs += [helper.make_tensor_value_info(c.name, c.data_type, list(c.dims)) for c in constants]
            graph = helper.make_graph(
                nodes, "old", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], constants
            )
            proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
            proto.ir_version = 3 if opset < 9 else 8
            path.write_bytes(proto.SerializeToString())

        return maker

    def node(op_type: str, inputs: str, **attributes: Any) -> Any:
        return helper.make_node(op_type, inputs.split(), ["y"], name=f"the_{op_type}", **attributes)

    image, vector = [1, 3, 8, 8], [2, 6]
    for opset in (1, 3, 5, 6):
        for op in ("Add", "Mul", "Sub", "Div"):
            constants = weights(c=(3,))
            yield (
                f"{op.lower()}_channel_{opset}",
                {},
                saved([node(op, "x c", broadcast=1, axis=1)], opset, image, constants),
            )
    for opset in (5, 6):
        bn = weights(s=(3,), b=(3,), m=(3,), v=(3,))
        obsolete = {"consumed_inputs": [0, 0, 0, 1, 1]} if opset < 6 else {}
        normalized = node("BatchNormalization", "x s b m v", is_test=1, **obsolete)
        yield f"bn_{opset}", {}, saved([normalized], opset, image, bn)
        gemm = weights(w=(6, 4), b=(4,))
        yield f"gemm_{opset}", {}, saved([node("Gemm", "x w b", broadcast=1)], opset, vector, gemm)
        yield f"prelu_{opset}", {}, saved([node("PRelu", "x a")], opset, image, weights(a=(3,)))
        pool = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
        yield f"avgpool_{opset}", {}, saved([node("AveragePool", "x", **pool)], opset, image)
        yield f"maxpool_{opset}", {}, saved([node("MaxPool", "x", **pool)], opset, image)
        yield f"dropout_{opset}", {}, saved([node("Dropout", "x", is_test=1, ratio=0.5)], opset, image)
    yield "upsample_7", {}, saved([node("Upsample", "x", scales=[1.0, 1.0, 2.0, 2.0], mode="nearest")], 7, image)
    yield "upsample_1", {}, saved([node("Upsample", "x", height_scale=2.0, width_scale=2.0, mode="nearest")], 1, image)
    yield "reshape_1", {}, saved([node("Reshape", "x", shape=[1, -1])], 1, image)
    yield "imagescaler_1", {}, saved([node("ImageScaler", "x", scale=0.5, bias=[0.1, 0.2, 0.3])], 1, image)
    conv = weights(w=(4, 3, 3, 3), b=(4,), s=(4,), bb=(4,), m=(4,), v=(4,), fw=(256, 5), fb=(5,))
    convolved = helper.make_node("Conv", ["x", "w", "b"], ["c"], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    rest = [
        helper.make_node("Relu", ["n"], ["r"]),
        helper.make_node("Flatten", ["r"], ["f"]),
        helper.make_node("Gemm", ["f", "fw", "fb"], ["g"], broadcast=1),
        helper.make_node("Softmax", ["g"], ["y"]),
    ]
    for opset in (3, 6):
        obsolete = {"consumed_inputs": [0, 0, 0, 1, 1]} if opset < 6 else {}
        normalized = helper.make_node(
            "BatchNormalization", ["c", "s", "bb", "m", "v"], ["n"], is_test=1, epsilon=1e-5, **obsolete
        )
        yield f"cnn_{opset}", {}, saved([convolved, normalized, *rest], opset, image, conv)

    def broken(change: Callable[[Any], None]) -> Maker:
        def maker(path: Path) -> None:
            saved([node("Mul", "x c")], 13, [1, 4], weights(c=(4,)))(path)
            proto = onnx.load(path)
            change(proto)
            path.write_bytes(proto.SerializeToString())

        return maker

    def with_unused(proto: Any) -> None:
        tensor = proto.graph.initializer.add(name="unused", data_type=TensorProto.FLOAT, raw_data=b"abc")
        tensor.dims.append(7)

    yield "no_graph_name", {}, broken(lambda proto: proto.graph.ClearField("name"))
    yield "unused_odd_initializer", {}, broken(with_unused)

    def with_bytes(path: Path) -> None:
        saved([node("Relu", "x")], 13, [1, 4])(path)
        proto = onnx.load(path)
        proto.graph.node[0].doc_string = "@@@@"
        path.write_bytes(proto.SerializeToString().replace(b"@@@@", b"\xff\xfe\xfd\xfc"))

    yield "doc_string_no_text", {}, with_bytes
