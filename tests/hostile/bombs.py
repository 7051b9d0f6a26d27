"""Models that are small as files, but take unlimited time or memory unless EdgeKit limits them."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, parser


def bomb(rng: random.Random) -> tuple[str, onnx.ModelProto]:
    """Returns the name of a random kind of bomb, and a model of that kind."""
    maker = rng.choice(_BOMBS)
    return maker.__name__.strip("_"), maker(rng)


def _with_constants(model: onnx.ModelProto, **values: np.ndarray) -> onnx.ModelProto:
    model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in values.items())
    return model


def _nested_functions(rng: random.Random) -> onnx.ModelProto:
    """Functions that each call the previous one up to 5 times, up to 2000 levels deep."""
    depth, calls = rng.choice((12, 31, 60, 2000)), rng.choice((1, 2, 2, 5))
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    functions = []
    for level in range(depth):
        nodes, value = [], "p"
        for call in range(calls):
            last = "q" if call == calls - 1 else f"v{call}"
            kind, domain = ("Relu", "") if level == 0 else (f"f{level - 1}", "own")
            nodes.append(helper.make_node(kind, [value], [last], domain=domain))
            value = last
        functions.append(helper.make_function("own", f"f{level}", ["p"], ["q"], nodes, opsets))
    if rng.random() < 0.2:  # the first function calls the last one
        functions[0].node[0].op_type, functions[0].node[0].domain = f"f{depth - 1}", "own"
    rng.shuffle(functions)
    graph = helper.make_graph(
        [helper.make_node(f"f{depth - 1}", ["x"], ["y"], domain="own")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])],
    )
    return helper.make_model(graph, ir_version=8, opset_imports=opsets, functions=functions)


def _endless_loop(rng: random.Random) -> onnx.ModelProto:
    trips = rng.choice((2**62, 10**9, 2**31 - 1, -1))
    given = rng.choice(("x", "c"))
    model = parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 16]>
        g (float[2] x) => (float[2] y) {{
          a = Loop (trips, go, {given}) <body = body (int64 i, bool k, float[2] s) => (bool d, float[2] t) {{
            d = Identity (k)
            t = Add (s, s)
          }}>
          y = Add (a, x)
        }}"""
    )
    return _with_constants(model, trips=np.int64(trips), go=np.bool_(True), c=np.ones(2, np.float32))


def _growing_loop(rng: random.Random) -> onnx.ModelProto:
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 16]>
        g (float[2] x) => (float[N] y) {
          y = Loop (trips, go, x) <body = body (int64 i, bool k, float[M] s) => (bool d, float[L] t) {
            d = Identity (k)
            t = Concat <axis = 0> (s, s)
          }>
        }"""
    )
    return _with_constants(model, trips=np.int64(rng.choice((30, 60, 1000))), go=np.bool_(True))


def _size(rng: random.Random) -> int:
    return rng.choice((2**27, 2**30, 2**33, 2**36, 2**40, 2**62, 2**63 - 1, -5))


def _constant_of_shape(rng: random.Random) -> onnx.ModelProto:
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1] x) => (float[1] y) {
          big = ConstantOfShape (size)
          sum = ReduceSum <keepdims = 0> (big)
          y = Add (x, sum)
        }"""
    )
    return _with_constants(model, size=np.int64([_size(rng)] if rng.random() < 0.7 else [2**16, 2**16]))


def _range(rng: random.Random) -> onnx.ModelProto:
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1] x) => (float[1] y) {
          big = Range (from, to, by)
          sum = ReduceMax <keepdims = 1> (big)
          y = Add (x, sum)
        }"""
    )
    step = rng.choice((1.0, 1e-7, 0.0, -1.0, np.nan))
    return _with_constants(model, **{"from": np.float32(0), "to": np.float32(_size(rng)), "by": np.float32(step)})


def _tile(rng: random.Random) -> onnx.ModelProto:
    source = rng.choice(("x", "one"))
    model = parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[1] x) => (float[1] y) {{
          big = Tile ({source}, times)
          sum = ReduceMax <keepdims = 1> (big)
          y = Add (x, sum)
        }}"""
    )
    return _with_constants(model, times=np.int64([_size(rng)]), one=np.ones(1, np.float32))


def _expand(rng: random.Random) -> onnx.ModelProto:
    source = rng.choice(("x", "one"))
    model = parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[1] x) => (float[1] y) {{
          big = Expand ({source}, shape)
          sum = ReduceSum <keepdims = 0> (big)
          y = Add (x, sum)
        }}"""
    )
    return _with_constants(model, shape=np.int64([_size(rng), 1]), one=np.ones(1, np.float32))


def _pads(rng: random.Random) -> onnx.ModelProto:
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1,1,4,4] x) => (float[1,1,1,1] y) { big = Pad (x, pads)  y = GlobalAveragePool (big) }"""
    )
    size = min(_size(rng), 2**62)
    return _with_constants(model, pads=np.int64([0, 0, 0, 0, 0, 0, size, rng.choice((0, size))]))


def _resize(rng: random.Random) -> onnx.ModelProto:
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1,1,4,4] x) => (float[1,1,1,1] y) { big = Resize (x, , scales)  y = GlobalAveragePool (big) }"""
    )
    scale = rng.choice((1e4, 1e6, 1e9, 1e38, 0.0, -1.0))
    return _with_constants(model, scales=np.float32([1, 1, scale, scale]))


def _growing_chain(rng: random.Random) -> onnx.ModelProto:
    """A constant that doubles at every node."""
    doublings = rng.choice((20, 28, 33, 40, 62))
    nodes = [helper.make_node("Concat", [f"c{n}", f"c{n}"], [f"c{n + 1}"], axis=0) for n in range(doublings)]
    nodes += [
        helper.make_node("ReduceMax", [f"c{doublings}"], ["m"], keepdims=1),
        helper.make_node("Add", ["x", "m"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])],
        [numpy_helper.from_array(np.ones(1, np.float32), "c0")],
    )
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)])


def _huge_dimension(rng: random.Random) -> onnx.ModelProto:
    size = rng.choice((2**31, 2**33, 2**40, 2**62))
    return parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[1,{size}] x) => (float[1,{size}] y) {{ y = Relu (x) }}"""
    )


def _deep_graph(rng: random.Random) -> onnx.ModelProto:
    """If operators nested in branches of If operators."""
    depth = rng.choice((10, 20, 30))
    inner = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["v0"])],
        "b0",
        [],
        [helper.make_tensor_value_info("v0", TensorProto.FLOAT, [1])],
    )
    for level in range(1, depth):
        node = helper.make_node("If", ["k"], [f"v{level}"], then_branch=inner, else_branch=inner if level < 8 else None)
        if level >= 8:
            node.attribute.append(
                helper.make_attribute(
                    "else_branch",
                    helper.make_graph(
                        [helper.make_node("Neg", ["x"], [f"e{level}"])],
                        "e",
                        [],
                        [helper.make_tensor_value_info(f"e{level}", TensorProto.FLOAT, [1])],
                    ),
                )
            )
        inner = helper.make_graph(
            [node], f"b{level}", [], [helper.make_tensor_value_info(f"v{level}", TensorProto.FLOAT, [1])]
        )
    graph = helper.make_graph(
        [*inner.node, helper.make_node("Identity", [inner.output[0].name], ["y"])],
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [1]),
            helper.make_tensor_value_info("k", TensorProto.BOOL, []),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])],
    )
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


def _split(rng: random.Random) -> onnx.ModelProto:
    """A Split with more outputs than parts, on which ONNX's shape inference crashes the process."""
    outputs = [f"o{number}" for number in range(rng.choice((2, 3, 5)))]
    parts = [2] * rng.choice((1, 2, 3)) if rng.random() < 0.8 else [-1, 5]
    graph = helper.make_graph(
        [
            helper.make_node("Split", ["x", "parts"], outputs, axis=rng.choice((0, 1, -1, 7))),
            helper.make_node("Relu", [outputs[0]], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.int64(parts), "parts")],
    )
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", rng.choice((13, 18)))])


def _einsum(rng: random.Random) -> onnx.ModelProto:
    letters = "abcdefghijklmnopqrstuvwxyz"[: rng.choice((3, 12, 26))]
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1] x) => (float[1] y) {
          big = Einsum <equation = "EQUATION"> (one)
          m = ReduceMax <keepdims = 0> (big)
          y = Add (x, m)
        }"""
    )
    equation = rng.choice((f"{letters}->{letters}", f"{letters}->", "->a", "a,b,c->", "aaaa->a", "..." * 5))
    model.graph.node[0].attribute[0].s = equation.encode()
    return _with_constants(model, one=np.ones((3,) * min(len(letters), 15), np.float32))


_BOMBS: tuple[Callable[[random.Random], onnx.ModelProto], ...] = (
    _nested_functions,
    _endless_loop,
    _growing_loop,
    _constant_of_shape,
    _range,
    _tile,
    _expand,
    _pads,
    _resize,
    _growing_chain,
    _huge_dimension,
    _deep_graph,
    _split,
    _einsum,
)
