"""Operators that the standard took later, and rotary embeddings of three positions, against ONNX Runtime's kernels."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto

RNG = np.random.default_rng(8)
INT32 = TensorProto.INT32


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    ("op_type", "fed", "attributes"),
    [
        ("Trilu", {"x": floats(2, 3, 4), "k": np.array(1)}, {"upper": 0}),
        ("Trilu", {"x": floats(3, 3)}, {}),
        ("GatherND", {"x": floats(3, 4), "places": np.array([[0, 1], [2, 3]])}, {}),
        ("Pad", {"x": floats(2, 3), "pads": np.array([0, 1, 1, 0]), "value": np.float32([7])}, {}),
        ("Pad", {"x": floats(2, 3), "pads": np.array([0, 1, 1, 0])}, {"mode": "reflect"}),
        ("Range", {"start": np.array([2]), "end": np.array([9]), "step": np.array([3])}, {}),
        ("Range", {"start": np.array(2), "end": np.array(5)}, {}),
        ("UnfoldTensor", {"x": floats(2, 10, 3)}, {"dim": 1, "size": 4, "step": 2}),
        ("UnfoldTensor", {"x": floats(2, 10)}, {"size": 3}),
    ],
)
def test_what_the_standard_has(assert_rewritten, contributed, op_type, fed, attributes):
    constants = list(fed) if op_type == "Range" else list(fed)[1:]
    kind = TensorProto.INT64 if op_type == "Range" else TensorProto.FLOAT
    proto, feeds = contributed(op_type, fed, constants, outputs=[kind], **attributes)
    assert_rewritten(proto, feeds)


def test_a_product_of_16_bits(assert_rewritten, contributed):
    fed = {"a": RNG.integers(-999, 999, (3, 4)).astype(np.int16), "b": RNG.integers(-999, 999, (4, 2)).astype(np.int16)}
    proto, feeds = contributed("MatMulInteger16", fed, outputs=[INT32])
    assert_rewritten(proto, feeds)


@pytest.mark.parametrize("biased", [False, True])
def test_a_transposed_convolution_with_pads(assert_rewritten, contributed, biased):
    fed = {"x": floats(1, 2, 5, 5), "w": floats(2, 3, 3, 3), "pads": np.array([1, 1, 1, 1])}
    fed |= {"bias": floats(3)} if biased else {}
    proto, feeds = contributed("ConvTransposeWithDynamicPads", fed, list(fed)[1:], strides=[2, 2])
    assert_rewritten(proto, feeds, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layout", [0, 1], ids=["sections", "turns"])
@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("shape", [(2, 3, 4, 16), (2, 4, 48)], ids=["heads apart", "heads joined"])
def test_three_positions(assert_rewritten, contributed, shape, interleaved, layout):
    """Three heads of 16, of which all pairs turn."""
    angles = RNG.uniform(-3, 3, (20, 8)).astype(np.float32)
    fed = {
        "x": floats(*shape),
        "positions": RNG.integers(0, 20, (3, 2, 4)),
        "cos": np.cos(angles),
        "sin": np.sin(angles),
    }
    proto, feeds = contributed(
        "MRotaryEmbedding", fed, ["cos", "sin"],
        mrope_section=[4, 2, 2], mrope_layout=layout, interleaved=interleaved, num_heads=3,
    )  # fmt: skip
    result = assert_rewritten(proto, feeds)
    assert [each.rewrite for each in result.applied] == ["rotary embedding of three positions written out"]


def test_a_part_of_each_head_turns(assert_rewritten, contributed):
    angles = RNG.uniform(-3, 3, (20, 4)).astype(np.float32)
    fed = {"x": floats(1, 2, 4, 16), "positions": RNG.integers(0, 20, (3, 1, 4))}
    fed |= {"cos": np.cos(angles), "sin": np.sin(angles)}
    proto, feeds = contributed(
        "MRotaryEmbedding", fed, ["cos", "sin"], mrope_section=[2, 1, 1], num_heads=2, rotary_embedding_dim=8
    )
    assert_rewritten(proto, feeds)
