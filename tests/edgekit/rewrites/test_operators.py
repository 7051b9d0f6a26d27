from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgekit.graph.building import NodeBuilder
from edgekit.model import Model, node_name
from edgekit.registry import installed_rewrites
from edgekit.rewrites.application import rewritten
from edgekit.rewrites.control_flow import UnrolledLoop, may_compute_both

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
RNG = np.random.default_rng(3)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: dict[str, tuple[int, Sequence[int]]],
    outputs: dict[str, int],
    constants: dict[str, np.ndarray] | None = None,
    opset: int = 18,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "operators",
        [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def numbers(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def scan_body() -> onnx.GraphProto:
    """The state plus each slice; what is scanned out is its square."""
    nodes = [
        helper.make_node("Add", ["s", "x"], ["t"]),
        helper.make_node("Mul", ["t", "outside"], ["u"]),
        helper.make_node("Identity", ["u"], ["v"]),
    ]
    value = helper.make_tensor_value_info
    ins = [value("s", FLOAT, [3]), value("x", FLOAT, [3])]
    return helper.make_graph(nodes, "body", ins, [value("u", FLOAT, [3]), value("v", FLOAT, [3])])


@pytest.mark.parametrize("back", [0, 1])
@pytest.mark.parametrize("axis", [0, 1])
def test_scan(assert_rewritten, back, axis):
    attributes: dict[str, Any] = {"scan_input_directions": [back], "scan_output_directions": [back]}
    attributes |= {"scan_input_axes": [axis], "scan_output_axes": [axis]}
    node = helper.make_node("Scan", ["s0", "xs"], ["s", "ys"], body=scan_body(), num_scan_inputs=1, **attributes)
    inputs = {"s0": (FLOAT, [3]), "xs": (FLOAT, [4, 3] if axis == 0 else [3, 4]), "outside": (FLOAT, [3])}
    proto = model([node], inputs, {"s": FLOAT, "ys": FLOAT})
    feeds = {name: numbers(*shape) for name, (_, shape) in inputs.items()}
    result = assert_rewritten(proto, feeds, refused=("Scan",))
    assert [each.rewrite for each in result.applied] == ["scan written out"]


def loop(*, known: bool) -> onnx.ModelProto:
    """A counter up to 5 decides, as converters of TensorFlow's loops write it; the body reads values from outside."""
    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Add", ["n", "one"], ["n1"]),
        helper.make_node("Less", ["n1", "limit"], ["on"]),
        helper.make_node("Gather", ["xs", "n"], ["x"], axis=0),
        helper.make_node("Add", ["s", "x"], ["t"]),
        helper.make_node("Tanh", ["t"], ["u"]),
    ]
    ins = [value("i", INT64, []), value("go", BOOL, []), value("n", INT64, []), value("s", FLOAT, [3])]
    outs = [value("on", BOOL, []), value("n1", INT64, []), value("u", FLOAT, [3]), value("t", FLOAT, [3])]
    body = helper.make_graph(nodes, "body", ins, outs)
    node = helper.make_node("Loop", ["", "yes", "zero", "s0"], ["n_last", "s_last", "ts"], body=body)
    constants = {"one": np.array(1), "zero": np.array(0), "yes": np.array(True)}
    inputs: dict[str, tuple[int, Sequence[int]]] = {"s0": (FLOAT, [3]), "xs": (FLOAT, [5, 3])}
    if known:
        constants["limit"] = np.array(5)
    else:
        inputs["limit"] = (INT64, [])
    return model([node], inputs, {"s_last": FLOAT, "ts": FLOAT}, constants)


def test_loop_whose_end_follows_from_constants(assert_rewritten):
    result = assert_rewritten(loop(known=True), {"s0": numbers(3), "xs": numbers(5, 3)}, refused=("Loop",))
    assert [each.rewrite for each in result.applied] == ["loop written out"]


def test_a_loop_whose_body_takes_the_number_of_the_turn_as_a_vector(assert_rewritten):
    value = helper.make_tensor_value_info
    nodes = [helper.make_node("Add", ["i", "one"], ["j"]), helper.make_node("Slice", ["x", "i", "j"], ["row"])]
    nodes.append(helper.make_node("Identity", ["go"], ["on"]))
    body = helper.make_graph(
        nodes,
        "body",
        [value("i", INT64, [1]), value("go", BOOL, [])],
        [value("on", BOOL, []), value("row", FLOAT, [1, 3])],
    )
    node = helper.make_node("Loop", ["three", "yes"], ["rows"], body=body)
    constants = {"one": np.array([1]), "three": np.array(3), "yes": np.array(True)}
    proto = model([node], {"x": (FLOAT, [5, 3])}, {"rows": FLOAT}, constants)
    result = assert_rewritten(proto, {"x": numbers(5, 3)}, refused=("Loop",))
    assert [each.rewrite for each in result.applied] == ["loop written out"]


@pytest.mark.parametrize(
    ("op_type", "given", "attributes", "opset"),
    [("RandomNormal", [], {"shape": [3]}, 17), ("Softmax", ["k"], {}, 11)],
)
def test_a_loop_written_out_keeps_what_is_random_and_what_the_evaluator_gets_wrong(op_type, given, attributes, opset):
    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Identity", ["go"], ["on"]),
        helper.make_node(op_type, given, ["r"], **attributes),
        helper.make_node("Add", ["s", "r"], ["t"]),
    ]
    ins = [value("i", INT64, []), value("go", BOOL, []), value("s", FLOAT, [3])]
    body = helper.make_graph(nodes, "body", ins, [value("on", BOOL, []), value("t", FLOAT, [3])])
    node = helper.make_node("Loop", ["two", "yes", "x"], ["y"], body=body)
    constants = {"two": np.array(2), "yes": np.array(True), "k": numbers(1, 3)}
    proto = model([node], {"x": (FLOAT, [3])}, {"y": FLOAT}, constants, opset=opset)
    (loop_node,) = ir.from_proto(proto).graph
    build = NodeBuilder(opset, "loop")
    UnrolledLoop().replacement(loop_node, build)
    assert [each.op_type for each in build.nodes if each.op_type == op_type] == [op_type] * 2


TWO_BRANCHES = """<ir_version: 9, opset_import: ["": 17]>
g (float[N, 3] x, bool c) => (float[N, 3] y) <float two = {{2}}> {{
    y = If (c) <
        then_branch = yes () => (float[N, 3] a) {{ d = Div (x, two) a = Log (d) }},
        else_branch = no () => (float[N, 3] b) {{ {other} }}
    >
}}"""


@pytest.mark.parametrize("other", ["b = Identity (x)", "h = Neg (x) b = Exp (h)"])
def test_both_branches_are_computed(assert_rewritten, other):
    """The logarithm of what is negative is not chosen."""
    proto = onnx.parser.parse_model(TWO_BRANCHES.format(other=other))
    feeds = [{"x": np.abs(numbers(4, 3)), "c": np.array(True)}, {"x": numbers(2, 3), "c": np.array(False)}]
    result = assert_rewritten(proto, *feeds)
    assert [each.rewrite for each in result.applied if each.op_type == "If"] == ["both branches computed"]


def test_both_branches_of_truth_values_are_computed(assert_rewritten):
    """ONNX Runtime has no Where of them."""
    text = TWO_BRANCHES.format(other="b = Greater (x, two)").replace("a = Log (d)", "a = Less (d, two)")
    proto = onnx.parser.parse_model(text.replace("(float[N, 3] y)", "(bool[N, 3] y)"))
    for attribute in proto.graph.node[0].attribute:
        attribute.g.output[0].type.tensor_type.elem_type = BOOL
    feeds = [{"x": numbers(4, 3) * 3, "c": np.array(chosen)} for chosen in (True, False)]
    result = assert_rewritten(proto, *feeds, refused=("If",))
    assert [each.rewrite for each in result.applied] == ["both branches computed"]


@pytest.mark.parametrize(
    "other", ["i = Cast <to = 7> (x) j = Div (i, i) b = Cast <to = 1> (j)", "s = Shape (x) b = Expand (two, s)"]
)
def test_branches_that_may_fail_are_not_both_computed(model_of, other):
    (node,) = model_of(onnx.parser.parse_model(TWO_BRANCHES.format(other=other))).graph
    assert not may_compute_both(node)


HARD = {"activation_alpha": [0.3] * 2, "activation_beta": [0.4] * 2}
SQUASHED = {"activation_alpha": [0.3, 0.7], "activation_beta": [0.4, 0.6]}


@pytest.mark.parametrize(
    ("op_type", "gates", "attributes"),
    [
        ("LSTM", 4, {}),
        ("LSTM", 4, {"activations": ["Sigmoid", "Tanh", "Tanh"] * 2}),
        ("LSTM", 4, {"activations": ["HardSigmoid", "Tanh", "Softsign"] * 2, "input_forget": 1}),
        ("LSTM", 4, {"activations": ["HardSigmoid", "Elu", "Tanh", "Sigmoid", "LeakyRelu", "Softplus"], "clip": 0.4}),
        ("GRU", 3, {"activations": ["HardSigmoid", "Relu"] * 2, "linear_before_reset": 1, **HARD}),
        ("GRU", 3, {"activations": ["HardSigmoid", "Tanh"] * 2, "clip": 0.7}),
        ("RNN", 1, {"activations": ["Affine", "ScaledTanh"], **SQUASHED}),
        ("RNN", 1, {"activations": ["LeakyRelu", "Softsign"], "activation_alpha": [0.3]}),
    ],
)
@pytest.mark.parametrize(("is_whole", "batch"), [(True, 2), (False, 2), (False, "batch")])
def test_recurrent_layers_step_by_step(assert_rewritten, op_type, gates, attributes, is_whole, batch):
    """With all that a layer can be given, and with what it needs: one direction, no biases and no states."""
    size, features, directions = 4, 3, 2 if is_whole else 1
    constants = {"w": numbers(directions, gates * size, features), "r": numbers(directions, gates * size, size)}
    names = ["x", "w", "r"]
    if is_whole:
        constants |= {"b": numbers(directions, 2 * gates * size), "h": numbers(directions, 2, size)}
        names += ["b", "", "h"]
        if op_type == "LSTM":
            constants |= {"c": numbers(directions, 2, size), "p": numbers(directions, 3 * size)}
            names += ["c", "p"]
    elif "activations" in attributes:
        attributes = {**attributes, "activations": attributes["activations"][: max(gates - 1, 1)]}
    outputs = ["y", "yh", "yc"][: 3 if op_type == "LSTM" else 2]
    direction = "bidirectional" if is_whole else "reverse"
    node = helper.make_node(op_type, names, outputs, hidden_size=size, direction=direction, **attributes)
    proto = model([node], {"x": (FLOAT, [5, batch, features])}, dict.fromkeys(outputs, FLOAT), constants)
    assert_rewritten(proto, {"x": numbers(5, 2, features)}, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_the_last_cells_of_sequences_of_lengths_of_their_own(assert_rewritten, direction):
    """With peepholes, and states before the first step."""
    size, features, directions = 4, 3, 1 + (direction == "bidirectional")
    constants = {
        "w": numbers(directions, 4 * size, features),
        "r": numbers(directions, 4 * size, size),
        "h": numbers(directions, 3, size),
        "c": numbers(directions, 3, size),
        "p": numbers(directions, 3 * size),
    }
    names, outputs = ["x", "w", "r", "", "n", "h", "c", "p"], ["y", "yh", "yc"]
    node = helper.make_node("LSTM", names, outputs, hidden_size=size, direction=direction)
    inputs = {"x": (FLOAT, ["t", 3, features]), "n": (TensorProto.INT32, [3])}
    proto = model([node], inputs, dict.fromkeys(outputs, FLOAT), constants)
    several = ([6, 2, 4], [1, 5, 3], [3, 0, 1])
    feeds = [{"x": numbers(6, 3, features), "n": np.array(lengths, np.int32)} for lengths in several]
    result = assert_rewritten(proto, *feeds)
    assert [each.rewrite for each in result.applied] == ["recurrent layer as a scan"]


@pytest.mark.parametrize(("op_type", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_sequences_of_lengths_of_their_own(model_of, run, op_type, gates, direction):
    size, features, directions = 4, 3, 1 + (direction == "bidirectional")
    constants = {
        "w": numbers(directions, gates * size, features),
        "r": numbers(directions, gates * size, size),
        "b": numbers(directions, 2 * gates * size),
        "h": numbers(directions, 3, size),
    }
    names = ["x", "w", "r", "b", "n", "h"]
    node = helper.make_node(op_type, names, ["y", "yh"], hidden_size=size, direction=direction)
    inputs = {"x": (FLOAT, ["t", 3, features]), "n": (TensorProto.INT32, [3])}
    proto = model([node], inputs, {"y": FLOAT, "yh": FLOAT}, constants)

    def with_lengths(candidate: Model) -> set[str]:
        layers = (node for node in candidate.graph.all_nodes() if node.op_type == op_type)
        return {node_name(layer) for layer in layers if len(layer.inputs) > 4 and layer.inputs[4] is not None}

    result = rewritten(model_of(proto), with_lengths, installed_rewrites())
    assert [each.rewrite for each in result.applied] == ["recurrent layer without lengths"]
    for lengths in ([6, 2, 4], [1, 5, 3]):
        feeds = {"x": numbers(6, 3, features), "n": np.array(lengths, np.int32)}
        for expected, found in zip(run(proto, feeds), run(result.model.proto(), feeds), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("axes", [[0], [1], [0, 2]])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_log_sum_exp(assert_rewritten, axes, keepdims):
    node = helper.make_node("ReduceLogSumExp", ["x", "axes"], ["y"], keepdims=keepdims)
    proto = model([node], {"x": (FLOAT, [2, 3, 4])}, {"y": FLOAT}, {"axes": np.array(axes)})
    assert_rewritten(proto, {"x": numbers(2, 3, 4)}, {"x": 500 * numbers(2, 3, 4)})


@pytest.mark.parametrize("keepdims", [0, 1])
def test_log_sum_exp_of_an_unknown_rank(assert_rewritten, keepdims):
    proto = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 15]>
        g (float[2, 3] x, bool c) => (float y) {{
            either = If (c) <
                then_branch = yes () => (float a) {{ a = Neg (x) }},
                else_branch = no () => (float b) {{ place = Constant <value_ints = [1]> () b = Unsqueeze (x, place) }}
            >
            y = ReduceLogSumExp <axes = [0], keepdims = {keepdims}> (either)
        }}""")
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    for branch in proto.graph.node[0].attribute:
        branch.g.output[0].type.tensor_type.ClearField("shape")
    feeds = [{"x": 500 * numbers(2, 3), "c": np.array(first)} for first in (True, False)]
    assert_rewritten(proto, *feeds, refused=("ReduceLogSumExp",))


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("opset", [9, 11, 15, 18])
def test_lp_normalization(assert_rewritten, p, axis, opset):
    node = helper.make_node("LpNormalization", ["x"], ["y"], axis=axis, p=p)
    proto = model([node], {"x": (FLOAT, [2, 3])}, {"y": FLOAT}, opset=opset)
    short = np.array([[3e-4, -4e-4, 0], [0, 0, 0]], np.float32)
    missing = np.array([[np.nan, 1, 2], [3, 4, 5]], np.float32)
    result = assert_rewritten(proto, {"x": numbers(2, 3)}, {"x": short}, {"x": missing})
    assert [each.rewrite for each in result.applied] == ["division by the length"]


@pytest.mark.parametrize("op_type", ["ReduceL1", "ReduceL2", "ReduceLogSum"])
@pytest.mark.parametrize(("axes", "keepdims"), [([1], 0), ([-1, 0], 1), (None, 0)])
@pytest.mark.parametrize("opset", [11, 15, 18])
def test_reductions_by_a_sum(assert_rewritten, op_type, axes, keepdims, opset):
    is_attribute = opset < 18 and axes is not None
    attributes: dict[str, Any] = {"axes": axes} if is_attribute else {}
    constants = {"axes": np.array(axes)} if axes is not None and not is_attribute else {}
    node = helper.make_node(op_type, ["x", *constants], ["y"], keepdims=keepdims, **attributes)
    proto = model([node], {"x": (FLOAT, [2, 3, 4])}, {"y": FLOAT}, constants, opset)
    result = assert_rewritten(proto, {"x": np.abs(numbers(2, 3, 4))}, {"x": 1e-6 + np.abs(1e3 * numbers(2, 3, 4))})
    assert [each.rewrite for each in result.applied] == ["reduction by a sum"]


@pytest.mark.parametrize("op_type", ["ReduceL1", "ReduceL2", "ReduceLogSum"])
def test_reductions_over_no_axis(assert_rewritten, op_type):
    node = helper.make_node(op_type, ["x", "axes"], ["y"], noop_with_empty_axes=1)
    proto = model([node], {"x": (FLOAT, [2, 3])}, {"y": FLOAT}, {"axes": np.array([], np.int64)})
    assert_rewritten(proto, {"x": 1 + np.abs(numbers(2, 3)) if op_type == "ReduceLogSum" else numbers(2, 3)})


def test_dropout_outside_training(assert_rewritten):
    node = helper.make_node("Dropout", ["x", "ratio", "training"], ["y", "mask"])
    constants = {"ratio": np.array(0.5, np.float32), "training": np.array(False)}
    proto = model([node], {"x": (FLOAT, [2, 3])}, {"y": FLOAT, "mask": BOOL}, constants)
    assert_rewritten(proto, {"x": numbers(2, 3)})


@pytest.mark.parametrize("op_type", ["HardSwish", "Mish", "LayerNormalization"])
def test_definition_in_the_standard(assert_rewritten, op_type):
    constants = {"scale": numbers(4)} if op_type == "LayerNormalization" else {}
    proto = model(
        [helper.make_node(op_type, ["x", *constants], ["y"])], {"x": (FLOAT, [3, 4])}, {"y": FLOAT}, constants
    )
    result = assert_rewritten(proto, {"x": numbers(3, 4)}, rtol=1e-4, refused=(op_type,))
    assert [each.rewrite for each in result.applied] == ["definition in the standard"]


@pytest.mark.parametrize("equation", ["nhwpqc->nchpwq", " a b c d e f -> f e d c b a "])
def test_an_einsum_that_moves_axes(assert_rewritten, equation):
    node = helper.make_node("Einsum", ["x"], ["y"], equation=equation)
    proto = model([node], {"x": (FLOAT, ["n", 3, 2, 4, 5, 2])}, {"y": FLOAT})
    result = assert_rewritten(proto, {"x": numbers(2, 3, 2, 4, 5, 2)})
    assert [each.rewrite for each in result.applied] == ["transposition without an equation"]


def test_optional_values_of_which_the_graph_tells_whether_they_are_there(assert_rewritten):
    proto = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 18]>
        g (float[2, 3] x) => (float[2, 3] y, bool there, bool missing) {
            maybe = Optional (x)
            y = OptionalGetElement (maybe)
            there = OptionalHasElement (maybe)
            missing = OptionalHasElement ()
        }""")
    feeds = {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}
    rewritten = assert_rewritten(proto, feeds, refused=("OptionalGetElement", "OptionalHasElement"))
    assert {node.op_type for node in rewritten.model.graph} == {"Identity"}


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("opset", [9, 12])
def test_softmax_over_several_axes(model_of, run, opset, axis):
    """Below opset 13, all axes from the one that is named on: what is left has two dimensions."""
    node = helper.make_node("Softmax", ["x"], ["y"], "node", axis=axis)
    proto = model([node], {"x": (FLOAT, [2, 3, 4])}, {"y": FLOAT}, opset=opset)

    def refusals(candidate: Model) -> set[str]:
        nodes = [node for node in candidate.graph if node.op_type == "Softmax"]
        return {node_name(node) for node in nodes if len(node.inputs[0].shape or ()) > 2}

    result = rewritten(model_of(proto), refusals, installed_rewrites())
    assert [each.rewrite for each in result.applied] == ["softmax of two dimensions"]
    feeds = {"x": numbers(2, 3, 4)}
    np.testing.assert_allclose(run(result.model.proto(), feeds)[0], run(proto, feeds)[0], rtol=1e-6)


@pytest.mark.parametrize(
    ("shape", "more"),
    [([8, 8], {}), ([7, 8], {}), ([8, 8], {"dilations": [1, 2]}), ([8, 8], {"output_padding": [1, 1]})],
)
def test_transposed_convolutions_of_an_output_shape(model_of, run, shape, more):
    """The pads that are more stand behind."""
    attributes = {"auto_pad": "SAME_UPPER", "output_shape": shape, "strides": [2, 2], **more}
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], "node", **attributes)
    proto = model([node], {"x": (FLOAT, [1, 2, 4, 4])}, {"y": FLOAT}, {"w": numbers(2, 3, 3, 3)})

    def refusals(candidate: Model) -> set[str]:
        return {node_name(node) for node in candidate.graph if "output_shape" in node.attributes}

    result = rewritten(model_of(proto), refusals, installed_rewrites())
    assert [each.rewrite for each in result.applied] == ["transposed convolution of its shape"]
    feeds = {"x": numbers(1, 2, 4, 4)}
    np.testing.assert_allclose(run(result.model.proto(), feeds)[0], run(proto, feeds)[0], rtol=1e-5, atol=1e-6)
