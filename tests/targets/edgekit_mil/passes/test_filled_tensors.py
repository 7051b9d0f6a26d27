from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from coremltools.converters.mil import Builder as mb  # noqa: N813 - the name that every MIL text uses

import edgekit_coreml
from edgekit_mil.core.mil import ct
from edgekit_mil.passes.filled_tensors import filling_operations

TURNS, SIZE = 40, 3
LAYER = f"""<ir_version: 9, opset_import: ["": 17]>
g (float[{TURNS}, 1, {SIZE}] x) => (float[{TURNS}, 1, 1, {SIZE}] y)
    <float[1, 3, 3] w = {{1, 0, 0, 0, 1, 0, 0, 0, 1}}, float[1, 3, 3] r = {{0.5, 0, 0, 0, 0.5, 0, 0, 0, 0.5}}> {{
    y = RNN <hidden_size = {SIZE}, activations = ["Softsign"]> (x, w, r)
}}"""
"""Core ML's own layer has no such function: it becomes a loop."""


def test_a_tensor_that_a_loop_fills_is_not_cast_as_a_whole(tmp_path: Path) -> None:
    package = edgekit_coreml.convert(onnx.parser.parse_model(LAYER), tmp_path / "layer")
    program = ct.utils.load_spec(str(package)).mlProgram
    (function,) = program.functions.values()
    (loop,) = [each for each in _operations(function) if each.type == "while_loop"]
    types = [each.outputs[0].type.tensorType for each in loop.blocks[1].operations if each.type == "cast"]
    sizes = [int(np.prod([dim.constant.size for dim in each.dimensions])) for each in types]
    assert sizes  # what a turn computes is float16
    assert max(sizes) == SIZE
    x = np.random.default_rng(0).uniform(-1, 1, (TURNS, 1, SIZE)).astype(np.float32)
    state, expected = np.zeros((1, SIZE)), []
    for row in x:
        total = row + 0.5 * state
        state = total / (1 + abs(total))
        expected.append(state)
    found = edgekit_coreml.load(package).run({"x": x})["y"]
    np.testing.assert_allclose(found[:, 0], expected, atol=2e-3)


def _operations(function: Any) -> Iterator[Any]:
    yield from function.block_specializations[function.opset].operations


@pytest.mark.parametrize(("mode", "count"), [("update", 1), ("add", 0)])
def test_what_replaces_elements_fills(mode: str, count: int) -> None:
    """Sums are rounded where they are computed in float16: these stay as they were asked for."""

    @mb.program(input_specs=[mb.TensorSpec(shape=(4, 2))], opset_version=ct.target.iOS17)
    def program(x: Any) -> Any:
        def body(turn: Any, filled: Any) -> Any:
            row = mb.gather(x=x, indices=turn, axis=0)
            place, rows = mb.expand_dims(x=turn, axes=[0]), mb.expand_dims(x=row, axes=[0])
            return mb.add(x=turn, y=1), mb.scatter(data=filled, indices=place, updates=rows, axis=0, mode=mode)

        start = np.zeros((4, 2), np.float32)
        _, result = mb.while_loop(_cond=lambda turn, _: mb.less(x=turn, y=4), _body=body, loop_vars=(0, start))
        return result

    assert len(filling_operations(program)) == count
