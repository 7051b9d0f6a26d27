"""Faults as rewrites make them, put in by hand: the proof has to find each, and find none where there is none.

Most of them do not show on normal inputs of the whole model, or only a little.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgekit.execution.equivalence import Equivalence
from edgekit.model import Model

OnnxModel = Callable[..., onnx.ModelProto]

RNG = np.random.default_rng(0)
WEIGHTS = {
    "w": RNG.standard_normal((4, 4, 3, 3)).astype(np.float32) / 6,
    "bias": RNG.standard_normal(4).astype(np.float32),
    "m": RNG.standard_normal((6, 6)).astype(np.float32),
    "scale": (RNG.random(4) + 0.5).astype(np.float32),
    "mean": RNG.standard_normal(4).astype(np.float32),
    "var": (RNG.random(4) + 0.5).astype(np.float32),
    "tiny": np.array(1e-10, np.float32),
    "small": np.array(1e-5, np.float32),
    "zero": np.array(0, np.float32),
    "half": np.array(0.5, np.float32),
    "one": np.array(1, np.float32),
    "two": np.array(2, np.float32),
    "three": np.array(3, np.float32),
    "six": np.array(6, np.float32),
    "wide": np.array(6.5, np.float32),
    "near": np.array(1.00001, np.float32),
    "low": np.array(-1e30, np.float32),
    "lowest": np.array(-10, np.float32),
    "i0": np.array([0]),
    "i1": np.array([1]),
    "i2": np.array([2]),
    "i3": np.array([3]),
    "i5": np.array([5]),
    "i6": np.array([6]),
    "pads": np.array([0, 0, 1, 1, 0, 0, 1, 1]),
    "square": np.array([1, 4, 36]),
    "row": RNG.standard_normal((6, 1)).astype(np.float32),
    "column": RNG.standard_normal((1, 6)).astype(np.float32),
    "scales": np.array([1, 1, 2, 2], np.float32),
    "root2": np.array(1.4142135, np.float32),
    "gelu1": np.array(0.044715, np.float32),
    "gelu2": np.array(0.7978846, np.float32),
}

FAULTS = {
    "epsilon before a logarithm dropped": ("a = Add (c, tiny) y = Log (a)", "a = Identity (c) y = Log (a)"),
    "epsilon in a divisor dropped": (
        "s = Abs (c) a = Add (s, tiny) y = Div (c, a)",
        "s = Abs (c) a = Identity (s) y = Div (c, a)",
    ),
    "epsilon before a root dropped": (
        "s = Mul (c, c) a = Add (s, small) r = Sqrt (a) y = Div (c, r)",
        "s = Mul (c, c) r = Sqrt (s) y = Div (c, r)",
    ),
    "epsilon before a reciprocal dropped": (
        "s = Abs (c) a = Add (s, tiny) y = Reciprocal (a)",
        "s = Abs (c) y = Reciprocal (s)",
    ),
    "epsilon of a normalization ten times as large": (
        "y = LayerNormalization <axis = -1, epsilon = 1.0e-5> (c, column)",
        "y = LayerNormalization <axis = -1, epsilon = 1.0e-4> (c, column)",
    ),
    "epsilon of a batch normalization forgotten": (
        "y = BatchNormalization <epsilon = 1.0e-3> (c, scale, bias, mean, var)",
        "y = BatchNormalization <epsilon = 1.0e-9> (c, scale, bias, mean, var)",
    ),
    "factor near one dropped": ("y = Mul (c, near)", "y = Identity (c)"),
    "divisor near one dropped": ("y = Div (c, near)", "y = Identity (c)"),
    "softmax over the axis before": ("y = Softmax <axis = 3> (c)", "y = Softmax <axis = 2> (c)"),
    "sum over the axis before": (
        "y = ReduceSum <keepdims = 1> (c, i3)",
        "t = Transpose <perm = [0, 1, 3, 2]> (c) y = ReduceSum <keepdims = 1> (t, i3)",
    ),
    "mean in place of a sum": (
        "y = ReduceSum <keepdims = 1> (c, i3)",
        "y = ReduceMean <axes = [3], keepdims = 1> (c)",
    ),
    "joined the other way round": (
        "n = Neg (c) y = Concat <axis = 1> (c, n)",
        "n = Neg (c) y = Concat <axis = 1> (n, c)",
    ),
    "clip widened": ("y = Clip (c, zero, six)", "y = Clip (c, zero, wide)"),
    "lower bound of a clip lost": ("y = Clip (c, lowest, six)", "y = Min (c, six)"),
    "upper bound of a clip lost": ("y = Clip (c, zero, six)", "y = Relu (c)"),
    "hard swish with another slope": (
        "y = HardSigmoid <alpha = 0.16666667, beta = 0.5> (c)",
        "y = HardSigmoid <alpha = 0.2, beta = 0.5> (c)",
    ),
    "leaky relu with another slope": ("y = LeakyRelu <alpha = 0.01> (c)", "y = LeakyRelu <alpha = 0.0101> (c)"),
    "relu dropped": ("r = Relu (c) y = Sigmoid (r)", "y = Sigmoid (c)"),
    "gelu by tanh": (
        "d = Div (c, root2) e = Erf (d) f = Add (e, one) g = Mul (c, f) y = Mul (g, half)",
        "d = Mul (c, c) e = Mul (d, c) f = Mul (e, gelu1) g = Add (c, f) h = Mul (g, gelu2) i = Tanh (h) "
        "j = Add (i, one) k = Mul (c, j) y = Mul (k, half)",
    ),
    "gelu by sigmoid": (
        "d = Div (c, root2) e = Erf (d) f = Add (e, one) g = Mul (c, f) y = Mul (g, half)",
        "d = Mul (c, root2) e = Sigmoid (d) y = Mul (c, e)",
    ),
    "softplus without its tail": ("y = Softplus (c)", "e = Exp (c) a = Add (e, one) y = Log (a)"),
    "softmax without its largest taken off": (
        "y = Softmax <axis = -1> (c)",
        "e = Exp (c) s = ReduceSum <keepdims = 1> (e, i3) y = Div (e, s)",
    ),
    "broadcast swapped": ("y = Add (c, row)", "t = Transpose <perm = [1, 0]> (row) y = Add (c, t)"),
    "operands of a difference swapped": ("y = Sub (c, row)", "y = Sub (row, c)"),
    "operands of a power swapped": ("a = Abs (c) y = Pow (a, two)", "a = Abs (c) y = Pow (two, a)"),
    "odd power of a negative number": ("y = Pow (c, three)", "a = Abs (c) y = Pow (a, three)"),
    "root of a square": ("y = Identity (c)", "s = Mul (c, c) y = Sqrt (s)"),
    "matrix transposed": ("y = MatMul (c, m)", "t = Transpose <perm = [1, 0]> (m) y = MatMul (c, t)"),
    "axes transposed": (
        "y = Transpose <perm = [0, 1, 3, 2]> (c)",
        "y = Identity (c)",
    ),
    "slice off by one": ("y = Slice (c, i0, i5, i3)", "y = Slice (c, i1, i6, i3)"),
    "channels gathered off by one": ("y = Gather <axis = 1> (c, i2)", "y = Gather <axis = 1> (c, i1)"),
    "padding that mirrors": ('y = Pad <mode = "edge"> (c, pads)', 'y = Pad <mode = "reflect"> (c, pads)'),
    "padding counted in a mean": (
        "y = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1], count_include_pad = 0> (c)",
        "y = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1], count_include_pad = 1> (c)",
    ),
    "maximum that sees its padding": (
        "y = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (c)",
        "p = Pad (c, pads) y = MaxPool <kernel_shape = [3, 3]> (p)",
    ),
    "bias of a convolution lost": (
        "y = Conv <pads = [1, 1, 1, 1]> (c, w, bias)",
        "y = Conv <pads = [1, 1, 1, 1]> (c, w)",
    ),
    "padding moved to the other side": (
        "y = Conv <kernel_shape = [3, 3], pads = [2, 2, 0, 0]> (c, w)",
        "y = Conv <kernel_shape = [3, 3], pads = [0, 0, 2, 2]> (c, w)",
    ),
    "greater or equal": (
        "g = Greater (c, half) y = Cast <to = 1> (g)",
        "g = GreaterOrEqual (c, half) y = Cast <to = 1> (g)",
    ),
    "halves rounded up": ("y = Round (c)", "a = Add (c, half) y = Floor (a)"),
    "rounded towards zero": ("y = Floor (c)", "i = Cast <to = 7> (c) y = Cast <to = 1> (i)"),
    "remainder with the other sign": (
        "y = Mod <fmod = 1> (c, three)",
        "d = Div (c, three) f = Floor (d) p = Mul (f, three) y = Sub (c, p)",
    ),
    "last of equal maxima": (
        "a = ArgMax <axis = 1> (c) y = Cast <to = 1> (a)",
        "a = ArgMax <axis = 1, select_last_index = 1> (c) y = Cast <to = 1> (a)",
    ),
    "mask that is not low enough": (
        "g = Greater (c, zero) f = Where (g, c, low) y = Softmax <axis = -1> (f)",
        "g = Greater (c, zero) f = Where (g, c, lowest) y = Softmax <axis = -1> (f)",
    ),
    "branches of a choice swapped": (
        "g = Less (c, zero) y = Where (g, row, c)",
        "g = Less (c, zero) y = Where (g, c, row)",
    ),
    "resized from the corners": (
        'y = Resize <mode = "linear", coordinate_transformation_mode = "half_pixel"> (c, , scales)',
        'y = Resize <mode = "linear", coordinate_transformation_mode = "align_corners"> (c, , scales)',
    ),
}

REWRITES = {
    "epsilon of a constant": ("a = Add (c, tiny) y = Log (a)", "a = Add (tiny, c) y = Log (a)"),
    "batch normalization written out": (
        "y = BatchNormalization <epsilon = 1.0e-3> (c, scale, bias, mean, var)",
        "v = Unsqueeze (var, i0) y = BatchNormalization <epsilon = 1.0e-3> (c, scale, bias, mean, var)",
    ),
    "softmax written out": (
        "y = Softmax <axis = -1> (c)",
        "k = ReduceMax <axes = [3], keepdims = 1> (c) d = Sub (c, k) e = Exp (d) "
        "s = ReduceSum <keepdims = 1> (e, i3) y = Div (e, s)",
    ),
    "hard swish": (
        "a = Add (c, three) b = Clip (a, zero, six) d = Mul (c, b) y = Div (d, six)",
        "y = HardSwish (c)",
    ),
    "square": ("y = Pow (c, two)", "y = Mul (c, c)"),
    "root of a square of a positive number": (
        "r = Relu (c) y = Identity (r)",
        "r = Relu (c) s = Mul (r, r) y = Sqrt (s)",
    ),
    "layer normalization written out": (
        "y = LayerNormalization <axis = -1, epsilon = 1.0e-5> (c, column)",
        "n = ReduceMean <axes = [3], keepdims = 1> (c) d = Sub (c, n) q = Mul (d, d) "
        "v = ReduceMean <axes = [3], keepdims = 1> (q) e = Add (v, small) r = Sqrt (e) o = Div (d, r) "
        "y = Mul (o, column)",
    ),
    "convolution as a matrix product": (
        "n = Neg (c) y = MatMul (n, m)",
        "o = Neg (m) y = MatMul (c, o)",
    ),
    "padding in the convolution": (
        "p = Pad (c, pads) y = Conv (p, w, bias)",
        "y = Conv <pads = [1, 1, 1, 1]> (c, w, bias)",
    ),
    "names that mean something else": (
        "a = Add (c, c) b = Relu (a) y = Mul (b, half)",
        "a = Relu (c) b = Add (a, a) y = Mul (b, half)",
    ),
}


def made(onnx_model: OnnxModel, body: str) -> Model:
    graph = f"""g (float[1, 4, 6, 6] x) => (float[a, b, d, e] z) {{
        c = Conv <pads = [1, 1, 1, 1]> (x, w, bias)
        {body}
        z = Identity (y)
    }}"""
    used = {
        name: array
        for name, array in WEIGHTS.items()
        if name in graph.replace("(", " ").replace(",", " ").replace(")", " ").split()
    }
    return Model(ir.from_proto(onnx_model(graph, **used)))


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(onnx_model: OnnxModel, fault: str) -> None:
    right, wrong = (made(onnx_model, body) for body in FAULTS[fault])
    before = Equivalence(right)
    assert before.difference_since(right, wrong) is not None
    assert before.difference(right) is None


@pytest.mark.parametrize("rewrite", REWRITES)
def test_what_is_right_passes(onnx_model: OnnxModel, rewrite: str) -> None:
    one, other = (made(onnx_model, body) for body in REWRITES[rewrite])
    assert Equivalence(one).difference(other) is None
    assert Equivalence(other).difference(one) is None
