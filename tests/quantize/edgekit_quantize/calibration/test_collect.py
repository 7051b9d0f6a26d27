from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
from threadpoolctl import ThreadpoolController

from edgekit_quantize.calibration.collect import observe


def threads() -> set[int]:
    """How many threads libraries of matrix products take."""
    return {each["num_threads"] for each in ThreadpoolController().info() if each["user_api"] == "blas"}


def test_products_take_one_thread_while_the_model_runs_beside_them() -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Relu (x) }'
    model = ir.from_proto(onnx.parser.parse_model(text))
    seen: list[tuple[list[float], set[int]]] = []
    feeds = [{"x": np.array([-1, number], np.float32)} for number in (1, 2)]
    with ThreadpoolController().limit(limits=2, user_api="blas"):
        before = threads()
        observe(model, {"y"}, feeds, lambda _, array: seen.append((array.tolist(), threads())))
        assert threads() == before
    inside = {1} if before else set()
    assert seen == [([0, 1], inside), ([0, 2], inside)]
