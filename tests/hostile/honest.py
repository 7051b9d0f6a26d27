"""The valid inputs that the fuzzer mutates: small models, with samples, pictures, sounds and a project file."""

from __future__ import annotations

import wave
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, parser

MODELS: dict[str, Callable[[], onnx.ModelProto]] = {}
"""Functions that make models, by name."""

PICTURE_MODEL = "net"
"""The model that pictures are fed to: 1×3×8×8."""
SOUND_MODEL = "sound"
"""The model that WAV files are fed to: 1×16."""


def _model(maker: Callable[[], onnx.ModelProto]) -> Callable[[], onnx.ModelProto]:
    MODELS[maker.__name__] = maker
    return maker


def _weights(seed: int, *shape: int, name: str) -> TensorProto:
    values = np.random.default_rng(seed).standard_normal(shape).astype(np.float32) * 0.3
    return numpy_helper.from_array(values, name)


def _parsed(text: str, *weights: TensorProto) -> onnx.ModelProto:
    model = parser.parse_model(text)
    model.graph.initializer.extend(weights)
    return model


@_model
def net() -> onnx.ModelProto:
    """A convolutional classifier."""
    return _parsed(
        """<ir_version: 9, opset_import: ["" : 17]>
        net (float[1,3,8,8] image) => (float[1,5] scores) {
          a = Conv <kernel_shape = [3,3], pads = [1,1,1,1]> (image, w1, b1)
          b = Relu (a)
          c = MaxPool <kernel_shape = [2,2], strides = [2,2]> (b)
          d = Conv <kernel_shape = [3,3]> (c, w2)
          e = Clip (d, low, high)
          f = GlobalAveragePool (e)
          g = Flatten <axis = 1> (f)
          h = Gemm <transB = 1> (g, w3, b3)
          scores = Softmax <axis = 1> (h)
        }""",
        _weights(1, 6, 3, 3, 3, name="w1"),
        _weights(2, 6, name="b1"),
        _weights(3, 4, 6, 3, 3, name="w2"),
        numpy_helper.from_array(np.float32(0), "low"),
        numpy_helper.from_array(np.float32(6), "high"),
        _weights(4, 5, 4, name="w3"),
        _weights(5, 5, name="b3"),
    )


@_model
def sound() -> onnx.ModelProto:
    """Layers on a sequence of audio samples."""
    return _parsed(
        """<ir_version: 8, opset_import: ["" : 18]>
        sound (float[1,16] x) => (float[1,3] y, float[1,4] z) {
          a = MatMul (x, w1)
          b = Tanh (a)
          s = Split <axis = 1, num_outputs = 2> (b)
          z, r = Split <axis = 1, num_outputs = 2> (b)
          y = MatMul (r, w2)
        }""".replace("s = Split <axis = 1, num_outputs = 2> (b)\n", ""),
        _weights(1, 16, 8, name="w1"),
        _weights(2, 4, 3, name="w2"),
    )


@_model
def dynamic() -> onnx.ModelProto:
    """An open batch dimension, and computed shapes."""
    return _parsed(
        """<ir_version: 8, opset_import: ["" : 15]>
        dynamic (float[N,4,6] x) => (float[N,24] y) {
          shape = Shape (x)
          zero = Constant <value = int64[1] {0}> ()
          n = Gather <axis = 0> (shape, zero)
          rest = Constant <value = int64[1] {-1}> ()
          wanted = Concat <axis = 0> (n, rest)
          t = Transpose <perm = [0,2,1]> (x)
          f = Reshape (t, wanted)
          one = Constant <value = float {1.0}> ()
          g = Add (f, one)
          y = Mul (g, w)
        }""",
        _weights(1, 24, name="w"),
    )


@_model
def control() -> onnx.ModelProto:
    """A loop, and a branch."""
    return _parsed(
        """<ir_version: 8, opset_import: ["" : 16]>
        control (float[2,3] x) => (float[2,3] y) {
          trips = Constant <value = int64 {3}> ()
          go = Constant <value = bool {1}> ()
          a = Loop (trips, go, x) <body = body (int64 i, bool c, float[2,3] s) => (bool d, float[2,3] t) {
            d = Identity (c)
            t = Mul (s, half)
          }>
          total = ReduceSum <keepdims = 0> (x)
          zero = Constant <value = float {0.0}> ()
          more = Greater (total, zero)
          y = If (more) <then_branch = one () => (float[2,3] p) { p = Relu (a) },
                         else_branch = two () => (float[2,3] q) { q = Neg (a) }>
        }""",
        numpy_helper.from_array(np.float32(0.5), "half"),
    )


@_model
def functions() -> onnx.ModelProto:
    """Functions that call one another."""
    return _parsed(
        """<ir_version: 8, opset_import: ["" : 17, "own" : 1]>
        functions (float[2,4] x) => (float[2,4] y) {
          a = own.outer <k = 2> (x)
          y = Add (a, w)
        }
        <domain: "own", opset_import: ["" : 17, "own" : 1]>
        outer <k> (p) => (q) {
          r = own.inner (p)
          q = Sigmoid (r)
        }
        <domain: "own", opset_import: ["" : 17]>
        inner (p) => (q) {
          two = Constant <value = float {2.0}> ()
          q = Mul (p, two)
        }""",
        _weights(1, 4, name="w"),
    )


@_model
def recurrent() -> onnx.ModelProto:
    """An LSTM."""
    return _parsed(
        """<ir_version: 8, opset_import: ["" : 14]>
        recurrent (float[3,1,4] x) => (float[3,1,1,5] y) {
          y, h, c = LSTM <hidden_size = 5> (x, w, r, b)
        }""",
        _weights(1, 1, 20, 4, name="w"),
        _weights(2, 1, 20, 5, name="r"),
        _weights(3, 1, 40, name="b"),
    )


@_model
def quantized() -> onnx.ModelProto:
    """An already quantized model, in QDQ form."""
    return _parsed(
        """<ir_version: 8, opset_import: ["" : 13]>
        quantized (float[1,4] x) => (float[1,3] y) {
          a = QuantizeLinear (x, s, z)
          b = DequantizeLinear (a, s, z)
          c = DequantizeLinear (w, t, u)
          d = MatMul (b, c)
          y = Resize <mode = "nearest"> (d, , scales)
        }""".replace('y = Resize <mode = "nearest"> (d, , scales)', "y = Identity (d)"),
        numpy_helper.from_array(np.float32(0.05), "s"),
        numpy_helper.from_array(np.uint8(128), "z"),
        numpy_helper.from_array(np.arange(12, dtype=np.int8).reshape(4, 3), "w"),
        numpy_helper.from_array(np.float32(0.1), "t"),
        numpy_helper.from_array(np.int8(0), "u"),
    )


@_model
def integers() -> onnx.ModelProto:
    """Integer inputs and outputs: Gather, Slice, Pad and ArgMax."""
    return _parsed(
        """<ir_version: 8, opset_import: ["" : 17]>
        integers (int64[4] ids, float[4,6] x) => (float[4,8] y, int64[4] best) {
          e = Gather <axis = 0> (table, ids)
          s = Slice (x, from, to, axes)
          c = Concat <axis = 1> (e, s)
          p = Constant <value = int64[4] {0,1,0,1}> ()
          y = Pad (c, p)
          best = ArgMax <axis = 1, keepdims = 0> (y)
        }""",
        _weights(1, 10, 3, name="table"),
        numpy_helper.from_array(np.int64([1]), "from"),
        numpy_helper.from_array(np.int64([4]), "to"),
        numpy_helper.from_array(np.int64([1]), "axes"),
    )


@_model
def creation() -> onnx.ModelProto:
    """Operators that create tensors from sizes."""
    return _parsed(
        """<ir_version: 8, opset_import: ["" : 17]>
        creation (float[3,1] x) => (float[3,4] y) {
          size = Constant <value = int64[2] {3,4}> ()
          f = ConstantOfShape <value = float[1] {2.0}> (size)
          a = Constant <value = float {0.0}> ()
          b = Constant <value = float {4.0}> ()
          d = Constant <value = float {1.0}> ()
          r = Range (a, b, d)
          times = Constant <value = int64[2] {1,4}> ()
          t = Tile (x, times)
          w = Expand (r, size)
          g = Add (t, f)
          y = Add (g, w)
        }"""
    )


@_model
def trees() -> onnx.ModelProto:
    """Operators for tables (``ai.onnx.ml``), with a map as output."""
    node = helper.make_node(
        "LinearClassifier",
        ["x"],
        ["label", "scores"],
        domain="ai.onnx.ml",
        coefficients=[0.1, 0.2, -0.3, 0.4, 0.5, 0.6],
        intercepts=[0.1, 0.2],
        classlabels_ints=[0, 1],
        post_transform="SOFTMAX",
    )
    graph = helper.make_graph(
        [node],
        "trees",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3])],
        [
            helper.make_tensor_value_info("label", TensorProto.INT64, [1]),
            helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 2]),
        ],
    )
    opsets = [helper.make_opsetid("", 15), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, ir_version=8, opset_imports=opsets)


@_model
def external() -> onnx.ModelProto:
    """Weights in a separate file (``external.bin``, which :func:`write_model` writes)."""
    model = _parsed(
        """<ir_version: 8, opset_import: ["" : 17]>
        external (float[1,32] x) => (float[1,16] y) { a = MatMul (x, w)  y = Relu (a) }"""
    )
    tensor = model.graph.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=[32, 16])
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "external.bin"), ("offset", "0"), ("length", str(32 * 16 * 4))):
        tensor.external_data.add(key=key, value=value)
    return model


@_model
def sequences() -> onnx.ModelProto:
    """Sequences and optional values between input and outputs."""
    return _parsed(
        """<ir_version: 9, opset_import: ["" : 18]>
        sequences (float[2,4] x) => (float[2,4] y, float[4,2] z) {
          two = Constant <value = int64 {1}> ()
          parts = SplitToSequence <axis = 0, keepdims = 1> (x, two)
          one = SequenceAt (parts, two)
          more = SequenceInsert (parts, one)
          long = ConcatFromSequence <axis = 0> (more)
          maybe = Optional (long)
          has = OptionalHasElement (maybe)
          sure = OptionalGetElement (maybe)
          kept = If (has) <then_branch = yes () => (float[3,4] p) { p = Identity (sure) },
                           else_branch = no () => (float[3,4] q) { q = Neg (sure) }>
          y = Gather <axis = 0> (kept, rows)
          z = Transpose <perm = [1,0]> (y)
        }""",
        numpy_helper.from_array(np.int64([0, 2]), "rows"),
    )


@_model
def sparse() -> onnx.ModelProto:
    """A sparse matrix as initializer."""
    model = _parsed(
        """<ir_version: 9, opset_import: ["" : 17]>
        sparse (float[2,6] x) => (float[2,3] y) { a = MatMul (x, w)  y = Sigmoid (a) }"""
    )
    values = helper.make_tensor("w", TensorProto.FLOAT, [4], [1.0, -2.0, 3.0, 0.5])
    indices = helper.make_tensor("w_indices", TensorProto.INT64, [4], [0, 4, 11, 17])
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [6, 3]))
    return model


@_model
def narrow() -> onnx.ModelProto:
    """Blockwise 4-bit weights and 8-bit float weights, with half precision between them."""
    model = _parsed(
        """<ir_version: 10, opset_import: ["" : 21]>
        narrow (float[1,8] x) => (float[1,4] y) {
          w = DequantizeLinear <axis = 0, block_size = 4> (w4, s4)
          a = MatMul (x, w)
          h = Cast <to = 10> (a)
          i = Relu (h)
          b = Cast <to = 1> (i)
          v = DequantizeLinear (w8, s8)
          y = MatMul (b, v)
        }""",
        _weights(3, 2, 4, name="s4"),
        numpy_helper.from_array(np.float32(0.5), "s8"),
    )
    rng = np.random.default_rng(4)
    model.graph.initializer.append(helper.make_tensor("w4", TensorProto.INT4, [8, 4], rng.integers(-8, 8, 32)))
    model.graph.initializer.append(helper.make_tensor("w8", TensorProto.FLOAT8E4M3FN, [4, 4], rng.normal(size=16)))
    return model


@_model
def attention() -> onnx.ModelProto:
    """A transformer block on tokens, with a mask, as exporters write it."""
    return _parsed(
        """<ir_version: 8, opset_import: ["" : 17]>
        attention (int64[N,T] ids, int64[N,T] mask) => (float[N,T,8] y) {
          e = Gather <axis = 0> (table, ids)
          n = LayerNormalization <axis = -1> (e, one8, b8)
          q = MatMul (n, wq)
          k = MatMul (n, wk)
          v = MatMul (n, wv)
          shape = Shape (q)
          heads = Constant <value = int64[2] {2,4}> ()
          two = Slice (shape, zero, second)
          split = Concat <axis = 0> (two, heads)
          q4 = Reshape (q, split)
          k4 = Reshape (k, split)
          v4 = Reshape (v, split)
          qt = Transpose <perm = [0,2,1,3]> (q4)
          kt = Transpose <perm = [0,2,3,1]> (k4)
          vt = Transpose <perm = [0,2,1,3]> (v4)
          scores = MatMul (qt, kt)
          scaled = Div (scores, root)
          m = Unsqueeze (mask, axes)
          mf = Cast <to = 1> (m)
          away = Sub (unit, mf)
          far = Mul (away, low)
          masked = Add (scaled, far)
          p = Softmax <axis = -1> (masked)
          o = MatMul (p, vt)
          back = Transpose <perm = [0,2,1,3]> (o)
          flat = Reshape (back, shape)
          y = Add (flat, e)
        }""",
        _weights(1, 12, 8, name="table"),
        *(_weights(number, 8, 8, name=name) for number, name in enumerate(("wq", "wk", "wv"), 2)),
        numpy_helper.from_array(np.ones(8, np.float32), "one8"),
        _weights(5, 8, name="b8"),
        numpy_helper.from_array(np.int64([0]), "zero"),
        numpy_helper.from_array(np.int64([2]), "second"),
        numpy_helper.from_array(np.float32(2), "root"),
        numpy_helper.from_array(np.int64([1, 2]), "axes"),
        numpy_helper.from_array(np.float32(1), "unit"),
        numpy_helper.from_array(np.float32(-1e4), "low"),
    )


@_model
def detector() -> onnx.ModelProto:
    """Features of two sizes, boxes, and non-maximum suppression."""
    return _parsed(
        """<ir_version: 8, opset_import: ["" : 16]>
        detector (float[1,3,16,16] image) => (int64[K,3] kept, float[1,16,4] boxes) {
          a = Conv <kernel_shape = [3,3], strides = [2,2], pads = [1,1,1,1], group = 3> (image, w1)
          b = BatchNormalization <epsilon = 0.001> (a, g, o, m, v)
          c = LeakyRelu <alpha = 0.1> (b)
          d = ConvTranspose <kernel_shape = [2,2], strides = [2,2]> (c, w2)
          u = Resize <mode = "linear", coordinate_transformation_mode = "half_pixel"> (c, , scales)
          f = Concat <axis = 1> (d, u)
          h = HardSwish (f)
          p = AveragePool <kernel_shape = [4,4], strides = [4,4]> (h)
          r = Reshape (p, shape)
          t = Transpose <perm = [0,2,1]> (r)
          boxes, scores, rest = Split <axis = 2> (t, sizes)
          s = Sigmoid (scores)
          st = Transpose <perm = [0,2,1]> (s)
          kept = NonMaxSuppression (boxes, st, most, overlap, least)
        }""",
        _weights(1, 3, 1, 3, 3, name="w1"),
        _weights(2, 3, 6, 2, 2, name="w2"),
        *(
            numpy_helper.from_array(np.full(3, value, np.float32), name)
            for value, name in ((1, "g"), (0, "o"), (0, "m"), (1, "v"))
        ),
        numpy_helper.from_array(np.float32([1, 1, 2, 2]), "scales"),
        numpy_helper.from_array(np.int64([1, 9, 16]), "shape"),
        numpy_helper.from_array(np.int64([4, 2, 3]), "sizes"),
        numpy_helper.from_array(np.int64([3]), "most"),
        numpy_helper.from_array(np.float32([0.5]), "overlap"),
        numpy_helper.from_array(np.float32([0.1]), "least"),
    )


@_model
def scan() -> onnx.ModelProto:
    """A Scan inside a Loop, which reads values from outside of both."""
    return _parsed(
        """<ir_version: 8, opset_import: ["" : 16]>
        scan (float[3,4] x, float[4] start) => (float[4] last, float[2,3,4] all) {
          n = Constant <value = int64 {2}> ()
          go = Constant <value = bool {1}> ()
          scale = ReduceMax <keepdims = 0> (x)
          last, all = Loop (n, go, start) <body = turn (int64 i, bool c, float[4] s)
              => (bool d, float[4] t, float[3,4] row) {
            d = Identity (c)
            t, row = Scan <num_scan_inputs = 1, body = step (float[4] h, float[4] v) => (float[4] k, float[4] w) {
              a = Mul (h, scale)
              k = Add (a, v)
              w = Tanh (k)
            }> (s, x)
          }>
        }"""
    )


def write_model(name: str, path: Path, model: onnx.ModelProto | bytes) -> None:
    """Writes a model, and for the model ``external`` also the file with its weights."""
    path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
    if name == "external":
        values = np.random.default_rng(0).standard_normal((32, 16)).astype(np.float32)
        path.with_name("external.bin").write_bytes(values.tobytes())


def write_samples(model: onnx.ModelProto, folder: Path, count: int = 3) -> None:
    """Writes samples for a model as ``.npz`` files; dimensions that are not numbers have the size 1."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    for number in range(count):
        arrays = {}
        for value in model.graph.input:
            shape = [dim.dim_value or 1 for dim in value.type.tensor_type.shape.dim]
            whole = value.type.tensor_type.elem_type == TensorProto.INT64
            arrays[value.name] = rng.integers(0, 3, shape) if whole else rng.standard_normal(shape).astype(np.float32)
        np.savez(folder / f"{number}.npz", **arrays)


def write_pictures(folder: Path, count: int = 3) -> None:
    """Writes pictures for :data:`PICTURE_MODEL`, and an ``edgekit.toml`` that declares their preprocessing."""
    from PIL import Image

    folder.mkdir()
    rng = np.random.default_rng(0)
    for number in range(count):
        pixels = rng.integers(0, 256, (10, 12, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.{('png', 'jpg', 'bmp')[number % 3]}")
    (folder / "edgekit.toml").write_text(
        '[preprocessing]\nkind = "image"\nscale = "1/255"\nmean = [0.5, 0.5, 0.5]\nstd = 0.2\nresize = "crop"\n'
        "crop_fraction = 0.9\n"
    )


def write_sounds(folder: Path, count: int = 3) -> None:
    """Writes WAV files for :data:`SOUND_MODEL`, and an ``edgekit.toml`` that declares their preprocessing."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    for number in range(count):
        with wave.open(str(folder / f"{number}.wav"), "wb") as sound:
            sound.setnchannels(1)
            sound.setsampwidth((1, 2, 3)[number % 3])
            sound.setframerate(8000)
            sound.writeframes(rng.bytes(20 * (1, 2, 3)[number % 3]))
    (folder / "edgekit.toml").write_text('[preprocessing]\nkind = "audio"\nsample_rate = 8000\nfit = "pad-crop"\n')


PROJECT = """\
[preprocessing]
kind = "image"
scale = "1/255"
mean = [0.5, 0.5, 0.5]
std = [0.2, 0.2, 0.2]
resize = "crop"
crop_fraction = 0.9

[budget]
size = "2.5 MB"
latency_ratio = 100.0
sqnr_db = 20.0
accuracy_drop = "1%"
size_growth = 0.1

[gate]
inconclusive = "pass"
time_limit = 1.0

[[bundle]]
name = "net"
model = "net.onnx"
target = "onnxruntime"
output = "out"
precision = "auto"
labels = "labels.txt"

[bundle.dims]
N = 1

[bundle.options]
"""
"""A project file that uses most keys, for :data:`PICTURE_MODEL`."""

LABELS = "cat\ndog\nowl\nfox\nbee\n"
