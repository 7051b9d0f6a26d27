"""Convolutions over the last steps, against ONNX Runtime's own kernel."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

RNG = np.random.default_rng(3)
CHANNELS = 6


@pytest.mark.parametrize("activation", ["none", "silu"])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("width", [2, 4])
def test_a_prompt_and_single_steps(assert_rewritten, width, biased, activation):
    """A single step is shorter than the state."""
    constants = {"w": RNG.standard_normal((CHANNELS, 1, width)).astype(np.float32)}
    constants |= {"b": RNG.standard_normal(CHANNELS).astype(np.float32)} if biased else {}
    node = helper.make_node(
        "CausalConvWithState", ["x", "w", "b" if biased else "", "past"], ["y", "present"], "convolution",
        domain="com.microsoft", ndim=1, activation=activation,
    )  # fmt: skip
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [node],
        "convolution",
        [
            info("x", TensorProto.FLOAT, ["N", CHANNELS, "T"]),
            info("past", TensorProto.FLOAT, ["N", CHANNELS, width - 1]),
        ],
        [info("y", TensorProto.FLOAT, None), info("present", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    proto = helper.make_model(graph, opset_imports=imports, ir_version=9)
    feeds = [
        {
            "x": RNG.standard_normal((2, CHANNELS, steps)).astype(np.float32),
            "past": RNG.standard_normal((2, CHANNELS, width - 1)).astype(np.float32),
        }
        for steps in (1, 7)
    ]
    result = assert_rewritten(onnx.ModelProto.FromString(proto.SerializeToString()), *feeds)
    assert [each.rewrite for each in result.applied] == ["causal convolution written out"]


@pytest.mark.parametrize("steps", [1, 7])
@pytest.mark.parametrize("dilation", [1, 3])
@pytest.mark.parametrize("last", [0, 1], ids=["channels first", "channels last"])
@pytest.mark.parametrize("past", [False, True], ids=["from zeros", "with a past"])
def test_dilations_and_channels_last(assert_rewritten, contributed, past, last, dilation, steps):
    def floats(*shape: int) -> np.ndarray:
        return RNG.standard_normal(shape).astype(np.float32)

    state = floats(2, 2 * dilation, CHANNELS) if last else floats(2, CHANNELS, 2 * dilation)
    fed = {
        "x": floats(2, steps, CHANNELS) if last else floats(2, CHANNELS, steps),
        "w": floats(CHANNELS, 1, 3), "b": floats(CHANNELS), "past": state if past else None,
    }  # fmt: skip
    proto, feeds = contributed(
        "CausalConvWithState", fed, ["w", "b"], outputs=[TensorProto.FLOAT] * 2,
        activation="silu", dilation=dilation, channels_last=last,
    )  # fmt: skip
    assert_rewritten(proto, feeds, rtol=1e-4)
