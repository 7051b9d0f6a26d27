"""How much memory quantizing takes, measured on processes that do nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux for the process' peak memory"),
]

PEAK = """
def peak_bytes():
    "The process' own peak; what its parent took before the program was loaded does not count."
    with open("/proc/self/status") as status:
        return next(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM"))
"""
LARGE = (
    PEAK
    + """
import json, sys
from pathlib import Path
import numpy as np
from edgekit.quantizer import QuantizationRequest
from edgekit.stages.load import Load
from edgekit_quantize.plugin import PostTrainingQuantizer

model = Load()(Path(sys.argv[1])).model
small = PostTrainingQuantizer().quantize(QuantizationRequest(model, sys.argv[2], None)).model
print(json.dumps({"peak": peak_bytes(), "weights": model.weight_bytes, "small": small.weight_bytes}))
small.save(Path(sys.argv[3]))
"""
)
STREAMED = (
    PEAK
    + """
import json, sys
import numpy as np
import onnx_ir as ir
from edgekit.model import Model
from edgekit.quantizer import QuantizationRequest
from edgekit.data.samples import Sample
from edgekit_quantize.plugin import PostTrainingQuantizer

class Drawn:
    has_labels = False
    def __len__(self):
        return int(sys.argv[2])
    def __iter__(self):
        rng = np.random.default_rng(0)
        for number in range(len(self)):
            yield Sample(str(number), {"x": rng.normal(size=(1, 3, 224, 224)).astype(np.float32)})

request = QuantizationRequest(Model(ir.load(sys.argv[1])), "int8", Drawn(), 1.0)
record = PostTrainingQuantizer().quantize(request).record
print(json.dumps({"peak": peak_bytes(), "samples": record["samples"]}))
"""
)
INPUTS, OUTPUTS, FILLED = 16384, 33000, 64


def _told(script: str, *arguments: object) -> dict[str, Any]:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    told: dict[str, Any] = json.loads(subprocess.check_output(command, text=True, timeout=300))
    return told


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(FILLED, OUTPUTS)).astype(np.float32)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory, rows: np.ndarray) -> Path:
    """A MatMul whose matrix takes 2.16 GB in a file beside the model. All but its first rows are a hole in the file."""
    folder = tmp_path_factory.mktemp("large")
    with (folder / "matrix.data").open("wb") as file:
        file.write(rows.tobytes())
        file.truncate(4 * INPUTS * OUTPUTS)
    matrix = onnx.TensorProto(
        name="w", data_type=onnx.TensorProto.FLOAT, dims=(INPUTS, OUTPUTS), data_location=onnx.TensorProto.EXTERNAL
    )
    matrix.external_data.add(key="location", value="matrix.data")
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMul", ["x", "w"], ["y"])],
        "large",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (1, INPUTS))],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, (1, OUTPUTS))],
        [matrix],
    )
    opsets = [onnx.helper.make_opsetid("", 17)]
    (folder / "large.onnx").write_bytes(
        onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    )
    return folder / "large.onnx"


@pytest.mark.parametrize(("scheme", "share"), [("int8-weights", 0.26), ("int4-weights", 0.16), ("float16", 0.51)])
def test_a_model_of_more_than_two_gigabytes(
    large: Path, rows: np.ndarray, tmp_path: Path, scheme: str, share: float
) -> None:
    told = _told(LARGE, large, scheme, tmp_path / "small.onnx")

    assert told["weights"] > 2**31
    assert told["small"] < share * told["weights"]
    assert told["peak"] < 1.6 * told["weights"]  # the mapped file counts, and what is made of it
    small = onnx.load(tmp_path / "small.onnx")
    stored = {tensor.name: tensor for tensor in small.graph.initializer}
    if scheme == "int8-weights":
        integers, scale = (onnx.numpy_helper.to_array(stored[name]) for name in ("w_int8", "w_scale"))
        expected = np.abs(rows).max(0) / 127
        np.testing.assert_allclose(scale, expected, rtol=1e-6)
        np.testing.assert_array_equal(integers[:FILLED], np.rint(rows / scale))
        assert not integers[FILLED:].any()
    if scheme == "int4-weights":
        integers, scale = (onnx.numpy_helper.to_array(stored[name]) for name in ("w_int4", "w_scale"))
        np.testing.assert_allclose(scale[:2], np.abs(rows).reshape(2, 32, -1).max(1) / 7, rtol=1e-6)
        np.testing.assert_array_equal(integers[:32].astype(np.float32), np.rint(rows[:32] / scale[0]))
    if scheme == "float16":
        np.testing.assert_array_equal(onnx.numpy_helper.to_array(stored["w"])[:FILLED], rows.astype(np.float16))


def test_peak_memory_does_not_grow_with_the_samples(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
    g (float[1, 3, 224, 224] x) => (float[1, 10] y) {
      a = Conv<pads = [1, 1, 1, 1]>(x, w1)  b = Relu(a)
      c = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(b, w2)  d = Relu(c)
      e = Conv<pads = [1, 1, 1, 1]>(d, w3)  f = Relu(e)
      p = GlobalAveragePool(f)  q = Flatten(p)  y = MatMul(q, w4)
    }""")
    for name, shape in {"w1": (24, 3, 3, 3), "w2": (24, 24, 3, 3), "w3": (32, 24, 3, 3), "w4": (32, 10)}.items():
        array = (rng.normal(size=shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    onnx.save(onnx.shape_inference.infer_shapes(model), tmp_path / "model.onnx")

    few, many = (_told(STREAMED, tmp_path / "model.onnx", count) for count in (32, 512))

    assert (few["samples"], many["samples"]) == (32, 512)
    assert many["peak"] < 1.1 * few["peak"]
