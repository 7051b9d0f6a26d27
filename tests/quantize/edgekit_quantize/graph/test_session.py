from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from edgekit.execution.reference import NotRunnableError
from edgekit_quantize.graph.session import SessionRunner, session

TRANSPOSED_RESIZE = """<ir_version: 8, opset_import: ["" : 18]>
g (float[1, 8, 8, 3] x) => (float[1, 4, 4, 3] y) <float[4] scales = {1, 1, 0.5, 0.5}> {
    t = Transpose <perm = [0, 3, 1, 2]> (x)
    r = Resize <mode = "cubic", coordinate_transformation_mode = "half_pixel"> (t, , scales)
    y = Transpose <perm = [0, 2, 3, 1]> (r)
}"""
"""As tf2onnx writes tf.image.resize of a picture; ONNX Runtime moves the first Transpose behind the Resize."""


def test_a_graph_that_the_runtime_spoils_is_executed_as_it_is_written() -> None:
    proto = onnx.parser.parse_model(TRANSPOSED_RESIZE)
    with pytest.raises(Exception, match="'Cubic' mode only supports"):
        onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    ramp = np.broadcast_to(np.arange(8, dtype=np.float32)[None, None, :, None], (1, 8, 8, 3))
    found = SessionRunner(ir.from_proto(proto)).run({"x": ramp})["y"]
    np.testing.assert_allclose(found[0, 2, 1:3, 0], [2.5, 4.5], atol=1e-6)  # cubic interpolation keeps a ramp


def test_a_graph_that_does_not_run_either_way_is_refused() -> None:
    text = '<ir_version: 8, opset_import: ["" : 18]> g (float[2] x) => (float[2] y) { y = Nonsense (x) }'
    with pytest.raises(NotRunnableError, match="Nonsense"):
        session(ir.from_proto(onnx.parser.parse_model(text)))


def test_threads_that_wait_for_work_leave_the_processors_to_others() -> None:
    proto = onnx.parser.parse_model(TRANSPOSED_RESIZE)
    options = session(ir.from_proto(proto)).get_session_options()
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"
