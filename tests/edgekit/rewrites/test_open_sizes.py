"""Rewrites of models whose batch is open: only the sizes have to be known that the operator goes along."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from edgekit.model import Model, node_name
from edgekit.rewrites.application import rewritten
from edgekit.rewrites.movement import SlicedGather

RANDOM = np.random.default_rng(5)
BATCHES = (2, 5)


def floats(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


CASES: dict[str, tuple[str, int, tuple[int, ...]]] = {
    "CumProd": ("(float[N, 4] x) => (float[N, 4] y) <int64 a = {1}> { y = CumProd <exclusive = 1> (x, a) }", 26, (4,)),
    "Det": ("(float[N, 3, 3] x) => (float[N] y) { y = Det (x) }", 11, (3, 3)),
    "DFT": (
        "(float[N, 6, 1] x) => (float[N, 4, 2] y) <int64 a = {1}> { y = DFT <onesided = 1> (x, , a) }",
        20,
        (6, 1),
    ),
    "Pad that wraps": (
        '(float[N, 3, 4] x) => (float[N, 6, 4] y) <int64[6] p = {0, 1, 0, 0, 2, 0}> { y = Pad <mode = "wrap"> (x, p) }',
        19,
        (3, 4),
    ),
    "Col2Im": (
        "(float[N, 8, 9] x) => (float[N, 2, 4, 4] y) <int64[2] i = {4, 4}, int64[2] b = {2, 2}>"
        " { y = Col2Im (x, i, b) }",
        18,
        (8, 9),
    ),
    "Upsample": (
        "(float[N, 2, 3, 5] x) => (float[N, 2, 6, 8] y) <float[4] s = {1, 1, 2, 1.7}> { y = Upsample (x, s) }",
        9,
        (2, 3, 5),
    ),
    "Resize": (
        "(float[N, 2, 3, 5] x) => (float[N, 2, 6, 8] y) <float[4] s = {1, 1, 2, 1.7}>"
        ' { y = Resize <mode = "cubic", exclude_outside = 1> (x, , s) }',
        13,
        (2, 3, 5),
    ),
}


def parsed(body: str, opset: int) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]>\ng {body}')


@pytest.mark.parametrize("name", CASES)
def test_the_batch_may_be_open(assert_rewritten, name):
    body, opset, sizes = CASES[name]
    assert_rewritten(parsed(body, opset), *({"x": floats(batch, *sizes)} for batch in BATCHES), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("pads", ["1, 2, 3, 0", "5, 0, 0, 7"])
def test_a_pad_that_wraps_along_an_open_axis(assert_rewritten, pads):
    body = f'(float[N, M] x) => (float[K, L] y) <int64[4] p = {{{pads}}}> {{ y = Pad <mode = "wrap"> (x, p) }}'
    assert_rewritten(parsed(body, 19), *({"x": floats(*sizes)} for sizes in ((2, 5), (4, 3), (1, 1))))


@pytest.mark.parametrize("count", [2, 3])
def test_an_open_size_in_parts_of_which_the_last_is_smaller(assert_rewritten, count):
    names = [f"y{number}" for number in range(count)]
    outputs = ", ".join(f"float[M{number}, 2] {name}" for number, name in enumerate(names))
    call = f"{', '.join(names)} = Split <axis = -2, num_outputs = {count}> (x)"
    proto = parsed(f"(float[N, 2] x) => ({outputs}) {{ {call} }}", 18)
    assert_rewritten(proto, *({"x": floats(size, 2)} for size in (6, 7, 8)))


@pytest.mark.parametrize(
    ("body", "opset", "axis"),
    [
        ("(float[2, N, 1] x) => (float[2, M, 2] y) <int64 a = {1}> { y = DFT <onesided = 1> (x, , a) }", 20, 1),
        ("(float[1, 2, N, 5] x) => (float[1, 2, M, 5] y) <float[4] s = {1, 1, 1.5, 1}> { y = Upsample (x, s) }", 9, 2),
    ],
    ids=["DFT", "Upsample"],
)
def test_the_size_that_it_goes_along_has_to_be_known(assert_left_alone, body, opset, axis):
    proto = parsed(body, opset)
    assert_left_alone(proto, proto.graph.node[0].op_type, {}, f"the size of its input along axis {axis} is not fixed")


@pytest.mark.parametrize("end", [3, -3])
def test_gathered_elements_of_a_slice_along_another_axis(model_of, run, end):
    """OpenVINO takes the Slice away, and finds indices that are fewer than the data."""
    proto = parsed(
        "(float[N, 5, 6] x, int64[N, 4, 3] i) => (float[N, 4, 3] y)"
        f" <int64[1] z = {{0}}, int64[1] e = {{{end}}}, int64[1] a = {{2}}>"
        " { part = Slice (x, z, e, a) y = GatherElements <axis = 1> (part, i) }",
        13,
    )

    def refusals(model: Model) -> set[str]:
        nodes = [node for node in model.graph if node.op_type == "GatherElements"]
        return {node_name(node) for node in nodes if node.inputs[0].producer().op_type == "Slice"}

    result = rewritten(model_of(proto), refusals, [SlicedGather()])
    assert [each.rewrite for each in result.applied] == ["gather from as much as is asked for"]
    for batch in BATCHES:
        feeds = {"x": floats(batch, 5, 6), "i": RANDOM.integers(-5, 5, (batch, 4, 3))}
        np.testing.assert_array_equal(run(result.model.proto(), feeds)[0], run(proto, feeds)[0])


def test_a_slice_along_the_axis_of_a_gather_stays(model_of):
    """Indices below zero count from its end."""
    body = """(float[N, 5] x, int64[N, 4] i) => (float[N, 4] y) <int64[1] z = {0}, int64[1] e = {3}, int64[1] a = {1}>
    { part = Slice (x, z, e, a) y = GatherElements <axis = 1> (part, i) }"""
    result = rewritten(model_of(parsed(body, 13)), lambda model: {node_name(model.graph[-1])}, [SlicedGather()])
    assert not result.applied
    assert ["it has as many indices as data" in reason for reason in map(str, result.dropped.values())] == [True]
