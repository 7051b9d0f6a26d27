"""Opening graphs of many nodes, and errors about graphs that do not run."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import TensorProto, helper

from edgekit.execution.reference import NotRunnableError, Reference
from edgekit.model import Model


def doubled(times: int) -> onnx.ModelProto:
    """A model that adds the input to itself and halves it, the given number of times."""
    nodes = [
        node
        for time in range(times)
        for node in (
            helper.make_node("Add", [f"x{time}", f"x{time}"], [f"twice{time}"], name=f"twice{time}"),
            helper.make_node("Mul", [f"twice{time}", "half"], [f"x{time + 1}"], name=f"half{time}"),
        )
    ]
    graph = helper.make_graph(
        nodes,
        "doubled",
        [helper.make_tensor_value_info("x0", TensorProto.FLOAT, [None, 2])],
        [helper.make_tensor_value_info(f"x{times}", TensorProto.FLOAT, None)],
        [helper.make_tensor("half", TensorProto.FLOAT, [], [0.5])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize(("times", "fast", "planned"), [(10, False, True), (600, False, False), (600, True, True)])
def test_memory_of_many_nodes_is_planned_for_measuring_alone(
    monkeypatch: pytest.MonkeyPatch, times: int, *, fast: bool, planned: bool
) -> None:
    """ONNX Runtime 1.31 takes 9 s to plan an isolation forest of 5,400 nodes, and 0.2 s to open it without a plan."""
    asked = []
    session = onnxruntime.InferenceSession

    def opened(source: Any, options: onnxruntime.SessionOptions, **rest: Any) -> Any:
        asked.append(options.enable_mem_reuse)
        return session(source, options, **rest)

    monkeypatch.setattr(onnxruntime, "InferenceSession", opened)
    x = np.array([[1.5, -2], [3, 0.25]], np.float32)
    reference = Reference(Model(ir.from_proto(doubled(times))), fast=fast)
    np.testing.assert_array_equal(reference.run({"x0": x})[f"x{times}"], x)
    assert asked == [planned]


@pytest.mark.parametrize(
    ("inputs", "begins"), [("t, , f", True), ("t, , , s", False)], ids=["when it is loaded", "when it is run"]
)
def test_a_graph_that_is_refused_once_it_is_optimized_runs_as_it_is_written(inputs: str, begins: bool) -> None:
    """ONNX Runtime moves a transposition behind a cubic resize, and then has no kernel for the axes."""
    proto = onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["" : 18]>
        g (float[1, 6, 5, 3] x) => (float[1, 4, 6, 3] y)
        <float[4] f = {{1, 1, 0.7, 1.2}}, int64[4] s = {{1, 3, 4, 6}}> {{
            t = Transpose <perm = [0, 3, 1, 2]> (x)
            r = Resize <mode = "cubic"> ({inputs})
            y = Transpose <perm = [0, 2, 3, 1]> (r)
        }}""")
    model, feeds = Model(ir.from_proto(proto)), {"x": np.random.default_rng(0).random((1, 6, 5, 3), np.float32)}
    with pytest.raises(Exception, match="'Cubic' mode only supports"):
        onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feeds)
    fast = Reference(model, fast=True)
    assert fast.executed_by.endswith("CPU, node by node, 1 thread") == begins
    np.testing.assert_array_equal(fast.run(feeds)["y"], Reference(model).run(feeds)["y"])
    assert fast.executed_by.endswith("CPU, node by node, 1 thread")


@pytest.mark.parametrize("to", [1, 7, 10, 11, 13])
def test_a_text_that_is_no_number_is_told_in_words(to: int) -> None:
    text = f"g (string[1] x) => (float[1] y) {{ a = Cast <to = {to}> (x) y = Cast <to = 1> (a) }}"
    reference = Reference(parsed(text))
    with pytest.raises(NotRunnableError, match="it converts texts to numbers, and one text is not a number"):
        reference.run({"x": np.array(["berlin"], object)})


def test_the_places_in_the_runtime_s_source_are_left_out() -> None:
    text = """g (float[1, 2, 4, 3] x) => (float[1, 4, 2, 2] y) <float[4] s = {1, 2, 0.5, 0.5}> {
        y = Resize <mode = "cubic"> (x, , s)
    }"""
    with pytest.raises(NotRunnableError) as caught:
        Reference(parsed(text))
    assert caught.value.cause.startswith("Exception during initialization: 'Cubic' mode only supports: ")


def parsed(text: str) -> Model:
    return Model(ir.from_proto(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]> {text}')))
