"""Rows that a loop repeats one by one, as TorchScript exports torch.repeat_interleave, are gathered at once."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import ModelProto, parser

from edgekit.graph.loops.repeated_rows import repeat_rows_at_once
from edgekit.graph.sizes.shape_request import ShapeRequest
from edgekit.model import Model
from edgekit.stages.fix_shapes import FixShapes
from edgekit.stages.simplify import Simplify

# A turn takes row i, [1, 3] or [4, 1], puts an axis behind the repeated one, expands that to the count, and joins both.
REPEAT = """
    <ir_version: 8, opset_import: ["" : 13]>
    g (float[{shape}] x, int64[n] counts) => (float[{repeated}] y)
    <int64[1] axis_behind = {{{behind}}}, int64[1] before = {{{before}}}, int64[1] after = {{{after}}},
     int64[2] joined = {{{joined}}}, bool go_on = {{1}}>
    {{
        sizes = Shape (counts)
        turns = Squeeze (sizes)
        ones = ConstantOfShape <value = int64[1] {{{part}}}> (sizes)
        each_count = SplitToSequence <axis = 0> (counts, ones)
        each_row = SplitToSequence <axis = {axis}> (x, ones)
        empty = SequenceEmpty <dtype = 1> ()
        all = Loop (turns, go_on, empty) <body = turn (int64 i, bool go, seq(float[s, t]) so_far)
            => (bool go_out, seq(float[u, v]) with_it) {{
                count = SequenceAt (each_count, i)
                row = SequenceAt (each_row, i)
                wider = Unsqueeze (row, axis_behind)
                size = Concat <axis = 0> (before, count, after)
                expanded = Expand (wider, size)
                piece = Reshape (expanded, joined)
                with_it = SequenceInsert (so_far, piece)
                go_out = Cast <to = 9> (go_on)
            }}>
        y = ConcatFromSequence <axis = {axis}> (all)
    }}
"""
ROWS = {
    "shape": "n, 3",
    "repeated": "m, 3",
    "axis": 0,
    "behind": 1,
    "before": 1,
    "after": 1,
    "joined": "-1, 3",
    "part": 1,
}
COLUMNS = ROWS | {
    "shape": "4, n",
    "repeated": "4, m",
    "axis": 1,
    "behind": 2,
    "before": "1, 1",
    "after": "",
    "joined": "4, -1",
}


def model_of(form: dict[str, object]) -> ModelProto:
    text = REPEAT.format(**form)
    if not form["after"]:
        text = text.replace("int64[1] after = {}", "int64[0] after = {}").replace("int64[1] before", "int64[2] before")
    return parser.parse_model(text)


def inputs(form: dict[str, object], counts: list[int]) -> dict[str, np.ndarray]:
    shape = (len(counts), 3) if form is ROWS else (4, len(counts))
    return {"x": np.random.default_rng(3).standard_normal(shape).astype(np.float32), "counts": np.array(counts)}


@pytest.mark.parametrize("form", [ROWS, COLUMNS], ids=["rows", "columns"])
def test_rows_are_gathered(form: dict[str, object]) -> None:
    proto = model_of(form)
    model = Model(ir.from_proto(proto))
    fixed = FixShapes(ShapeRequest.parse(["n=1..6"])).run(model).model
    simple = Simplify().run(fixed).model
    assert not {"Loop", "SplitToSequence", "ConcatFromSequence"} & {node.op_type for node in simple.graph}
    session = onnxruntime.InferenceSession(
        ir.to_proto(simple.graph_model).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    for counts in ([2, 0, 3, 1], [5], [0, 0], [1, 1, 1, 4, 0, 7]):
        feeds = inputs(form, counts)
        expected = np.repeat(feeds["x"], counts, axis=form["axis"])
        np.testing.assert_array_equal(session.run(None, feeds)[0], expected)


def test_parts_of_other_sizes_are_left_to_the_loop() -> None:
    model = ir.from_proto(model_of(ROWS | {"part": 2}))
    repeat_rows_at_once(model)
    assert "Loop" in {node.op_type for node in model.graph}
