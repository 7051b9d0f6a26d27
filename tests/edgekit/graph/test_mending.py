from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgekit.stages.load import Load


def relu(path, change) -> None:
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "c"], ["y"])],
        "plain",
        [info("x", TensorProto.FLOAT, [1, 4])],
        [info("y", TensorProto.FLOAT, [1, 4])],
        [numpy_helper.from_array(np.ones(4, np.float32), "c")],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    change(proto)
    path.write_bytes(proto.SerializeToString().replace(b"@@@@", b"\xff\xfe\xfd\xfc"))


def without_name(proto: onnx.ModelProto) -> None:
    proto.graph.ClearField("name")


def with_bytes(proto: onnx.ModelProto) -> None:
    proto.graph.node[0].doc_string = "@@@@"


def with_unused(proto: onnx.ModelProto) -> None:
    proto.graph.initializer.add(name="unused", data_type=TensorProto.FLOAT, raw_data=b"abc").dims.append(7)


@pytest.mark.parametrize(
    ("change", "warning"),
    [
        (without_name, "the graph had no name: it is called 'graph'"),
        (with_bytes, "1 doc strings that are no text were dropped"),
        (with_unused, "initializer 'unused' is used by nothing and has another size than it says: it was dropped"),
    ],
)
def test_a_harmless_breach_is_mended_with_a_warning(tmp_path, change, warning):
    relu(tmp_path / "m.onnx", change)
    result = Load()(tmp_path / "m.onnx")
    assert warning in result.warnings
    assert result.model.proto().SerializeToString()
