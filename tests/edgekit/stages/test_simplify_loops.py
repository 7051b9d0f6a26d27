from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from edgekit.graph.sizes.shape_request import ShapeRequest
from edgekit.stages import StageResult
from edgekit.stages.fix_shapes import FixShapes
from edgekit.stages.load import Load
from edgekit.stages.simplify import Simplify

RUNNING_SUMS = """
    shape{0} = Shape ({1})  narrow{0} = Cast <to = 6> (shape{0})  part{0} = Slice (narrow{0}, at, to, at)
    limit{0} = Squeeze (part{0}, at)  float_limit{0} = Cast <to = 1> (limit{0})  on{0} = Less (zero, float_limit{0})
    end{0}, last{0}, {2} = Loop <body = b{0} (int64 turn{0}, bool go{0}, int32 i{0}, float[1, 2] h{0})
        => (bool more{0}, int32 j{0}, float[1, 2] n{0}, float[1, 2] s{0}) {{
            step{0} = Constant <value = int32 {{1}}> ()  j{0} = Add (i{0}, step{0})  row{0} = Gather ({1}, i{0})
            n{0} = Add (h{0}, row{0})  s{0} = Sin (n{0})
            f{0} = Cast <to = 1> (j{0})  more{0} = Less (f{0}, float_limit{0})
        }}> (, on{0}, start, h0)"""
"""Two of them, the second one over what the first one collects."""
CHAIN = f"""<ir_version: 8, opset_import: ["": 17]>
g (float[N, 1, 2] x) => (float[M, 1, 2] y)
    <int32 start = {{0}}, float zero = {{0}}, float[1, 2] h0 = {{0, 0}}, int64[1] at = {{0}}, int64[1] to = {{1}}> {{
    {RUNNING_SUMS.format(1, "x", "sums")}
    {RUNNING_SUMS.format(2, "sums", "y")}
}}"""


def simplified(tmp_path: Path, *dims: str) -> StageResult:
    onnx.save(onnx.parser.parse_model(CHAIN), tmp_path / "model.onnx")
    fixed = FixShapes(ShapeRequest.parse(dims))(Load()(tmp_path / "model.onnx").model).model
    return Simplify()(fixed)


@pytest.mark.parametrize("rows", [1, 5])
def test_a_loop_over_what_a_loop_collects_is_counted_too(tmp_path: Path, rows: int) -> None:
    result = simplified(tmp_path, f"N={rows}")
    assert result.warnings == ()
    loops = [node for node in result.model.graph if node.op_type == "Loop"]
    counts = [ir.convenience.get_const_tensor(loop.inputs[0]) for loop in loops]
    assert [None if count is None else int(count.numpy()) for count in counts] == [rows, rows]
    assert result.model.graph.outputs[0].shape == [rows, 1, 2]
    assert "Less" not in [node.op_type for node in result.model.graph.all_nodes()]
    x = np.random.default_rng(0).uniform(-1, 1, (rows, 1, 2)).astype(np.float32)
    session = onnxruntime.InferenceSession(result.model.proto().SerializeToString(), providers=["CPUExecutionProvider"])
    (y,) = session.run(None, {"x": x})
    np.testing.assert_allclose(y, np.sin(np.cumsum(np.sin(np.cumsum(x, 0)), 0)), rtol=1e-5, atol=1e-6)
