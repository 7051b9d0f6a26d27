from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from edgekit.execution.reference import Reference
from edgekit.graph.reading.compared_texts import look_compared_texts_up
from edgekit.stages.load import Load

# As tf2onnx writes tf.equal(x, "köln") before operator set 19.
NODES = "a = Cast <to = 6> (x) b = Cast <to = 6> (w) e = Equal ({}) y = Cast <to = 1> (e)"


def compared(text: str, *, order: str = "a, b", shape: str = "", imports: str = "") -> onnx.ModelProto:
    constant = f'string{shape} w = {{"{text}"}}' if shape else ""
    proto = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17{imports}]> '
        f"g (string[N] x) => (float[N] y) {f'<{constant}>' if constant else ''} {{ {NODES.format(order)} }}"
    )
    if not constant:
        proto.graph.initializer.append(onnx.helper.make_tensor("w", onnx.TensorProto.STRING, [], [text.encode()]))
    for node in proto.graph.node:
        node.name = node.op_type + node.output[0]
    return proto


@pytest.mark.parametrize("order", ["a, b", "b, a"])
@pytest.mark.parametrize("shape", ["", "[1]"])
def test_a_text_is_compared_with_the_text(tmp_path: Path, order: str, shape: str) -> None:
    onnx.save(compared("köln", order=order, shape=shape), tmp_path / "model.onnx")
    result = Load()(tmp_path / "model.onnx")
    found = Reference(result.model).run({"x": np.array(["bonn", "köln", "", "Köln"], object)})["y"]
    np.testing.assert_array_equal(found, np.float32([0, 1, 0, 0]))
    assert result.warnings == (
        (
            "node 'Equale' compares texts as integers, but 'köln' is not an integer: it now compares 'x' with the text "
            "itself"
        ),
    )
    assert "Cast" not in {node.op_type for node in result.model.graph if node.inputs[0] is result.model.graph.inputs[0]}


def test_numbers_in_texts_stay_numbers() -> None:
    proto = compared(" +7")
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    assert session.run(None, {"x": np.array(["7", "8"], object)})[0].tolist() == [1, 0]
    before = proto.SerializeToString()
    assert look_compared_texts_up(proto) == []
    assert proto.SerializeToString() == before


def test_an_old_set_of_the_domain_is_left_alone() -> None:
    assert look_compared_texts_up(compared("köln", imports=', "ai.onnx.ml" : 1')) == []
    assert look_compared_texts_up(compared("köln", imports=', "ai.onnx.ml" : 2')) != []
